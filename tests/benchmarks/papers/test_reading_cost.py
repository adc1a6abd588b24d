"""The cost of readings: of real instances that have taken rows."""

from penstock.benchmarks.papers.reading_cost import PARALLELISM, measure

INSTANCES = 4 * PARALLELISM


def test_readings_are_of_instances_that_work() -> None:
    cost = measure(INSTANCES, readings=2, every_ns=100_000_000)
    assert cost.instances == cost.counted == INSTANCES
    assert 0 < cost.read_ms <= cost.most_ms and cost.ms_per_s > 0 and cost.bytes > 160 * INSTANCES
