"""Queries that part inside a chain are shed apart: the one that allows nothing loses nothing."""

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.load_shedding import LoadShedding
from penstock.model.control import Control
from penstock.model.keep_rates import KeepRates
from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    InputColumns,
    InstanceColumns,
    MachineColumns,
    PartitionColumns,
    QueryColumns,
    TaskColumns,
)

WINDOW_S = 5.0


def test_of_two_queries_in_one_chain_only_the_one_that_allows_it_is_shed() -> None:
    job = ps.Job()
    rows = ps.read(SteadySource(1, keys=1), job=job).name("due")
    for name, minimum, priority in (("part", 0.3, 1), ("whole", 1.0, 5)):
        side = rows.filter(ps.col("key") >= 0).name(f"{name} side")
        side.write_black_hole().name(name).with_min_accuracy(minimum).with_priority(priority)
    graph = job.plan(1)
    shedding = LoadShedding(graph, Control("qod", "act"))
    (edge,) = shedding.shedders.branches
    # A row costs 0.6 ms for the one and 0.4 ms for the other; 1,300 rows/s come.
    rates, lag, keeps = KeepRates(), 0.0, []
    for cycle in range(1, 31):
        assert rates.sources == {}
        keep = rates.branches.get(edge, 1.0)
        row_s = 0.6e-3 * keep + 0.4e-3
        taken = min(1_300.0 * WINDOW_S + lag, WINDOW_S / row_s)
        lag += 1_300.0 * WINDOW_S - taken
        busy_ns = taken * row_s * 1e9
        snapshot = ClusterSnapshot(
            cycle,
            1_000.0 + cycle * WINDOW_S,
            WINDOW_S,
            applications=ApplicationColumns(("a",)),
            tasks=TaskColumns((graph.name(graph.tasks[0]),), [0], [True], [True], [False], [False], [1], [0]),
            queries=QueryColumns(("part", "whole"), [0, 0], [1.0, 5.0], [0.3, 1.0]),
            machines=MachineColumns(("m",), [1.0], [busy_ns / WINDOW_S / 1e7]),
            instances=InstanceColumns(
                [0], [0], [0], [True], records_in=[taken], busy_ns=[busy_ns], cpu_ns=[busy_ns], age_s=[1e3]
            ),
            inputs=InputColumns([], [], offered=[]),
            partitions=PartitionColumns([0], [1_300.0 * WINDOW_S], [taken], end_offset=[1e7 + lag], position=[1e7]),
        )
        outcome = shedding.cycle(snapshot, rates)
        assert outcome is not None
        rates = outcome.rates
        keeps.append(rates.branches.get(edge, 1.0))
    assert 0.3 <= keeps[-1] <= 0.62 and max(keeps[-8:]) - min(keeps[-8:]) <= 4 / 64
    assert lag <= 2 * 1_300.0
