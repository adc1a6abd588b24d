"""Flink-ER's detectors that begin with the network: what they take a capacity for, and what they need."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.model.plan import RescalePlan, not_measured
from penstock.scheduler.capacity import available_bandwidth, detect, network_capacity, step_literal, step_paper
from penstock.scheduler.flink_er import FlinkEr
from tests.scheduler.flow_jobs import Stage, snapshot


@pytest.mark.parametrize("detector", ["paper", "literal"])
def test_a_detector_that_begins_with_the_network_says_that_nobody_measures_it(detector: str) -> None:
    """What is not known is not infinite: a million rows wait, for five seconds each, and that suffices to nobody."""
    state = snapshot(1000.0, [Stage("source", [1e6]), Stage("map", [400.0])], lag=1e6)
    policy = FlinkEr(drain_s=1e12, detector=detector)
    memory = policy.start()
    for number in range(1, 4):
        decision, memory = policy.decide(replace(state, number=number, time_s=5.0 * number), memory)
        assert decision == not_measured("machines.network_limit_bytes and edges.row_bytes")
    linked = replace(state, machines=replace(state.machines, network_limit_bytes=np.array([12.5 * 2**20])))
    assert policy.decide(linked, memory)[0] == not_measured("edges.row_bytes")
    known = replace(linked, edges=replace(linked.edges, row_bytes=np.array([40_000.0])), time_s=25.0)
    decision, _ = policy.decide(known, memory)
    assert isinstance(decision, RescalePlan) and [size.task for size in decision.tasks] == [1]
    # A task to which nothing comes need not be known.
    idle = replace(state, instances=replace(state.instances, records_in=np.array([2000.0, 0.0])))
    assert "not measured: machines" not in policy.decide(idle, policy.start())[0].reason


def rounds(step: str, most: int) -> int:
    """Return in how many periods an estimate from a 100 Mb/s link comes within 5% of a capacity of 20,000 rows/s."""
    limit_ms, true = 500.0, 20_000.0
    known = network_capacity(available_bandwidth(*map(np.array, ([12.5], [0.0], [0.0], [0.0]))), np.array([100.0]))
    assert known[0] == pytest.approx(131_072)
    flow, latency = np.array([true]), np.array([2 * limit_ms])
    for number in range(most):
        if known[0] <= true * 1.05:
            return number
        eta = step_literal(latency, limit_ms) if step == "literal" else step_paper(flow, latency, limit_ms)
        known = detect(known, flow, latency, limit_ms, eta)
    return most


def test_equation_14_as_it_stands_does_not_arrive_and_with_the_rows_in_flight_it_does() -> None:
    assert rounds("paper", 100) == 6
    assert rounds("literal", 20_000) == 20_000


def test_detection_follows_what_was_measured() -> None:
    limits, flow = np.array([100.0, 100.0, 100.0, 100.0]), np.array([150.0, 99.0, 10.0, 0.0])
    latency = np.array([400.0, 100.0, 100.0, np.nan])
    found = detect(limits, flow, latency, 500.0, np.full(4, 10.0))
    assert found.tolist() == [150.0, 110.0, 100.0, 100.0]
