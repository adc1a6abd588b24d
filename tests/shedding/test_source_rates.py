"""What sources are offered: by end offsets, and as the paper does by lag maxima (Stream-Economics, section 6)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import NoChange
from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    EdgeColumns,
    InputColumns,
    InstanceColumns,
    MachineColumns,
    OutputColumns,
    PartitionColumns,
    QueryColumns,
    TaskColumns,
)
from penstock.shedding.group_sums import total_with_means
from penstock.shedding.instance_identity import names_of
from penstock.shedding.qod import PAPER
from penstock.shedding.qod_figures import FigureOptions, Figures, read_figures
from penstock.shedding.qod_sources import NO_LAGS, LagMaxima, OfferedRates, offered_to_sources
from penstock.shedding.source_rates import offered_by_lag_maxima, planned_offer
from tests.papers_cases import cases

NAN = float("nan")
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=cases())
@given(seeds)
def test_both_estimates_are_exact_where_partitions_are_balanced(seed: int) -> None:
    rng = np.random.default_rng(seed)
    partitions, offered, fetched = int(rng.integers(1, 9)), rng.uniform(0, 1e4), rng.uniform(0, 1e4)
    before, elapsed_s = rng.uniform(0, 1e6), rng.uniform(1, 30)
    after = before + (offered - fetched) / partitions * elapsed_s
    found = offered_by_lag_maxima(*(np.array([x]) for x in (after, before, fetched, float(partitions))), elapsed_s)
    assert found == pytest.approx([offered], rel=1e-6, abs=1e-3)


@settings(max_examples=cases())
@given(seeds)
def test_lag_maxima_take_the_partition_that_lags_most_for_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    partitions = int(rng.integers(2, 9))
    offered = rng.uniform(100, 1000, partitions)
    fetched = np.full(partitions, offered.mean())
    lag = (offered - fetched) * 10.0
    # What was there before hides no partition behind another.
    after = np.array([1e5 + lag.max()])
    found = offered_by_lag_maxima(
        after, np.array([1e5]), np.array([fetched.sum()]), np.array([float(partitions)]), 10.0
    )
    assert found[0] >= offered.sum() - 1e-6


def test_a_rate_is_never_below_0() -> None:
    found = offered_by_lag_maxima(np.array([0.0]), np.array([1e6]), np.array([10.0]), np.array([2.0]), 5.0)
    assert found.tolist() == [0.0]


def test_a_backlog_is_planned_for() -> None:
    assert planned_offer(np.array([2000.0]), np.array([5000.0]), 10.0).tolist() == [2500.0]


@settings(max_examples=cases())
@given(seeds)
def test_what_lacks_counts_as_the_mean_of_its_group(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, int(rng.integers(0, 9)))
    figures = np.where(rng.random(len(group)) < 0.3, NAN, rng.uniform(0, 10, len(group)))
    found = total_with_means(figures, group, 3)
    for g in range(3):
        own = figures[group == g]
        known = own[~np.isnan(own)]
        assert found[g] == pytest.approx(known.mean() * len(own) if len(known) else NAN, nan_ok=True)


def pipeline(in_rate: list[float], cpu: list[float], offered: list[float], lag: float = 0.0) -> ClusterSnapshot:
    """Return a source of 1,000 rows/s in two partitions, and two instances below it that are offered so much."""
    return ClusterSnapshot(
        number=1,
        time_s=5.0,
        window_s=1.0,
        applications=ApplicationColumns(("a",)),
        tasks=TaskColumns(("s", "t"), [0, 0], [True, False], [False, True], *([[False] * 2] * 2), [1, 128], [0, 0]),
        edges=EdgeColumns([0], [1], [False]),
        queries=QueryColumns(("q",), [1], [1.0], [0.1]),
        machines=MachineColumns(("m",), [4.0], [sum(cpu) + 10.0]),
        instances=InstanceColumns(
            [0, 1, 1],
            [0, 0, 1],
            [0, 0, 0],
            [True] * 3,
            records_in=[1000.0, *in_rate],
            cpu_ns=np.array([10.0, *cpu]) * 1e7,
            age_s=[1000.0] * 3,
        ),
        outputs=OutputColumns([0], [0], [1000.0]),
        inputs=InputColumns([0, 0], [1, 2], offered),
        partitions=PartitionColumns([0, 0], [500.0, 500.0], [500.0, 500.0], [lag, lag], [0.0, 0.0], lag_max=[lag, lag]),
    )


def figures_of(snapshot: ClusterSnapshot, reading: FigureOptions) -> Figures:
    figures = read_figures(snapshot, reading, NO_LAGS)
    assert isinstance(figures, Figures)
    return figures


def test_skew_is_no_loss_where_each_instance_is_held_against_its_own_offer() -> None:
    """Equation 4 takes an even share for each: nothing is dropped here, and it reads as a loss of 80%."""
    snapshot = pipeline([900.0, 100.0], [90.0, 10.0], [900.0, 100.0])
    literal = figures_of(snapshot, FigureOptions())
    assert literal.c_ac.tolist() == pytest.approx([1.0, 0.2, 0.2]) and literal.cpu.tolist() == [10.0, 10.0, 10.0]
    ours = figures_of(snapshot, FigureOptions(by_instance=True))
    assert ours.c_ac.tolist() == [1.0, 1.0, 1.0] and ours.cpu.tolist() == pytest.approx([10.0, 90.0, 10.0])


def test_a_loss_at_one_instance_is_its_own() -> None:
    ours = figures_of(pipeline([450.0, 100.0], [90.0, 10.0], [900.0, 100.0]), FigureOptions(by_instance=True))
    assert ours.c_ac.tolist() == [1.0, 0.5, 1.0]


def test_an_instance_without_figures_counts_as_its_task() -> None:
    snapshot = pipeline([900.0, NAN], [90.0, NAN], [900.0, 100.0])
    machines = replace(snapshot.machines, cpu_percent=[100.0])
    for reading in (FigureOptions(), FigureOptions(by_instance=True)):
        figures = figures_of(replace(snapshot, machines=machines), reading)
        assert figures.cpu.tolist() == pytest.approx([10.0, 90.0, 90.0]) and figures.unmeasured_tasks == 0


def test_a_backlog_lowers_planned_accuracy_only_where_it_shall_be_worked_off() -> None:
    snapshot = pipeline([500.0, 500.0], [50.0, 50.0], [500.0, 500.0], lag=2500.0)
    assert figures_of(snapshot, FigureOptions()).c_ac[0] == 1.0
    assert figures_of(snapshot, FigureOptions(drain_s=10.0)).c_ac[0] == pytest.approx(1000 / 1500)


def test_lag_maxima_need_the_cycle_before() -> None:
    policy = replace(PAPER, reading=FigureOptions(sources="lag maxima"))
    first, second = (pipeline([500.0, 500.0], [50.0, 50.0], [500.0, 500.0], lag=lag) for lag in (100.0, 600.0))
    decision, memory = policy.decide(first, policy.start())
    assert isinstance(decision, NoChange) and decision.reason.startswith("not measured")
    later = replace(second, time_s=10.0)
    decision, memory = policy.decide(later, memory)
    assert not decision.reason.startswith("not measured")
    assert memory.lags.lag_max.tolist() == [600.0]


def test_lag_maxima_between_two_cycles() -> None:
    snapshot = replace(pipeline([500.0, 500.0], [50.0, 50.0], [500.0, 500.0], lag=600.0), time_s=10.0)
    before = LagMaxima(names_of(snapshot, np.array([0])), 5.0, np.array([100.0]))
    found = offered_to_sources(snapshot, np.array([True, False]), "lag maxima", None, before)
    # Two partitions, each 100 rows/s behind: 1,000 + 200.
    assert isinstance(found, OfferedRates) and found.task[0] == pytest.approx(1200.0)
    with_lag = offered_to_sources(snapshot, np.array([True, False]), "lag maxima", 10.0, before)
    assert isinstance(with_lag, OfferedRates) and with_lag.task[0] == pytest.approx(1320.0)
