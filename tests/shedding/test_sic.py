"""SIC is conserved: 1 in a source time window, through every operator, however many instances read.

As docs/design/papers/dissp.md 2 has it.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    InstanceColumns,
    MachineColumns,
    PartitionColumns,
    TaskColumns,
)
from penstock.shedding import sic
from penstock.shedding.sic_ledger import SicLedger
from tests.papers_cases import cases

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("instances", [1, 2, 7])
@given(seed=SEEDS)
@settings(max_examples=cases())
def test_source_tuples_of_a_window_add_up_to_1(instances: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    sources, partitions = int(random.integers(1, 4)), int(random.integers(1, 4))
    appended = np.ceil(random.pareto(1.2, (sources, instances, partitions)) * 100) + (random.random() < 0.5)
    appended[:, 0, 0] += 1
    window_s = float(random.uniform(0.1, 20))
    counts = sic.tuples_of_sources(snapshot_of(appended, window_s), stw_s=window_s)
    assert counts is not None
    of_tuple = sic.source_tuple_sic(np.full(sources, sources), counts[:sources])
    assert abs(float((appended.sum(axis=(1, 2)) * of_tuple).sum()) - 1) <= 1e-9
    # The flaw that one count for all instances mends: by its own count alone each instance gives out 1 / |S_q|.
    own = appended.sum(axis=2)
    alone = own * sic.source_tuple_sic(np.full(own.shape, sources), np.maximum(own, 1))
    assert abs(float(alone.sum()) - np.count_nonzero(own) / sources) <= 1e-9


def test_tuples_of_sources_says_what_was_not_measured() -> None:
    appended = np.array([[[5.0, 5.0]], [[7.0, np.nan]]])
    counts = sic.tuples_of_sources(snapshot_of(appended, 5.0), stw_s=10.0)
    assert counts is not None and counts[0] == 20 and np.isnan(counts[1]) and np.isnan(counts[2])
    nothing = ClusterSnapshot(1, 5.0, 5.0, partitions=PartitionColumns(()))
    assert sic.tuples_of_sources(nothing, 10.0) is None


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_filters_and_maps_hand_on_all_they_take(seed: int) -> None:
    random = np.random.default_rng(seed)
    batches, queries = int(random.integers(0, 12)), int(random.integers(1, 4))
    taken = random.random((batches, queries))
    rows_out = random.integers(0, 3, batches) * random.integers(0, 2, batches)
    carried = random.random(queries)
    cut = int(random.integers(0, batches + 1))
    first, left = sic.hand_on(taken[:cut], rows_out[:cut], carried)
    second, left = sic.hand_on(taken[cut:], rows_out[cut:], left)
    out = np.concatenate((first, second))
    np.testing.assert_allclose(out.sum(axis=0) + left, taken.sum(axis=0) + carried, atol=1e-9)
    assert not out[rows_out == 0].any()
    assert (out[rows_out > 0] >= taken[rows_out > 0] - 1e-12).all()
    at_once, at_once_left = sic.hand_on(taken, rows_out, carried)
    np.testing.assert_allclose(at_once, out)
    np.testing.assert_allclose(at_once_left, left)


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_sliding_windows_split_what_a_tuple_has(seed: int) -> None:
    random = np.random.default_rng(seed)
    slide = int(random.integers(1, 8))
    size = slide * int(random.integers(1, 5)) if random.random() < 0.5 else int(random.integers(slide, 5 * slide + 1))
    count = int(random.integers(1, 20))
    time, of_tuple = random.integers(-20, 60, count), random.random(count)
    starts, held = sic.over_windows(time, of_tuple, size, slide)
    assert abs(float(held.sum() - of_tuple.sum())) <= 1e-9
    inside = (starts <= time[:, None]) & (time[:, None] < starts + size)
    assert (starts % slide == 0).all() and inside.any(axis=0).all()
    share = of_tuple / inside.sum(axis=1)
    np.testing.assert_allclose(held, (inside * share[:, None]).sum(axis=0))
    # Each window's outputs share what it holds.
    rows_out = random.integers(1, 5, len(starts))
    np.testing.assert_allclose(sic.derived_tuple_sic(held, rows_out) * rows_out, held)


def test_windows_that_leave_tuples_out_are_refused() -> None:
    with pytest.raises(ValueError, match="leaves tuples out"):
        sic.over_windows(np.array([1]), np.array([1.0]), 2, 3)


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_joins_pass_on_both_sides_and_weights_keep_the_sum(seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = random.random(int(random.integers(1, 9))), random.random(int(random.integers(1, 9)))
    rows_out = int(random.integers(1, 50))
    each = sic.derived_tuple_sic(np.array([left.sum() + right.sum()]), np.array([rows_out]))
    assert abs(float(each[0] * rows_out - left.sum() - right.sum())) <= 1e-9
    weight = random.pareto(1.0, int(random.integers(1, 30))) + 1e-3
    sources = int(random.integers(1, 6))
    assert abs(float(sic.weighted_tuple_sic(sources, weight).sum()) * sources - 1) <= 1e-9
    equal = sic.weighted_tuple_sic(sources, np.full(len(weight), weight[0]))
    np.testing.assert_allclose(equal, sic.source_tuple_sic(np.array(sources), np.array(len(weight))))


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_a_pipeline_hands_its_results_exactly_what_its_sources_gave(seed: int) -> None:
    random = np.random.default_rng(seed)
    sources, queries = int(random.integers(1, 4)), 2
    in_windows = np.zeros(queries)
    left = np.zeros(queries)
    for _ in range(sources):
        rows = random.integers(1, 50, int(random.integers(1, 10)))
        of_tuple = sic.source_tuple_sic(np.array([sources, 2 * sources]), np.array(rows.sum()))
        # One SIC a query: the second has as many sources again that do not come this way.
        batches, carried = sic.hand_on(
            rows[:, None] * of_tuple, rows * random.integers(0, 2, len(rows)), np.zeros(queries)
        )
        left += carried
        for query in range(queries):
            time = random.integers(0, 40, len(rows))
            in_windows[query] += sic.over_windows(time, batches[:, query], 10, 5)[1].sum()
    np.testing.assert_allclose(in_windows + left, [1.0, 0.5], atol=1e-9)


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_n_sic_and_the_jain_index_keep_their_ranges(seed: int) -> None:
    random = np.random.default_rng(seed)
    queries = int(random.integers(1, 30))
    generated = random.random(queries) * random.integers(0, 2, queries)
    got = generated * random.uniform(0, 1.2, queries)
    n_sic = sic.normalised(got, generated)
    known = generated > 0
    assert np.isnan(n_sic[~known]).all() and (n_sic[known] >= 0).all() and (n_sic[known] <= 1).all()
    # A wrong guess of the sources' rates scales both.
    np.testing.assert_allclose(sic.normalised(3 * got, 3 * generated), n_sic)
    x = random.pareto(1.0, queries) * 10.0 ** random.integers(-200, 150)
    j = sic.jain_index(x)
    assert 1 / queries - 1e-9 <= j <= 1 + 1e-9
    assert abs(sic.jain_index(7 * x) - j) <= 1e-9


def test_jain_index_at_its_ends() -> None:
    assert sic.jain_index(np.full(9, 0.3)) == pytest.approx(1.0)
    assert sic.jain_index(np.array([0, 0, 0, 2.0])) == 0.25
    assert sic.jain_index(np.zeros(3)) == 1.0
    assert sic.jain_index(np.array([1.0, 3.0])) == pytest.approx(16 / 20)
    with pytest.raises(ValueError, match="no query"):
        sic.jain_index(np.array([]))


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_the_ledger_holds_the_last_intervals(seed: int) -> None:
    random = np.random.default_rng(seed)
    window, steps, queries = int(random.integers(1, 8)), int(random.integers(0, 20)), 3
    entered = random.random((steps, queries))
    ledger = SicLedger.empty(window, queries)
    for entry in entered:
        ledger = ledger.after(entry)
    held = np.concatenate((np.zeros((window, queries)), entered))[-window:]
    np.testing.assert_allclose(ledger.total(), held.sum(axis=0))
    ahead, last = int(random.integers(0, window + 2)), int(random.integers(0, window + 2))
    np.testing.assert_allclose(ledger.still_valid(ahead), held[ahead:].sum(axis=0))
    np.testing.assert_allclose(ledger.last(last), held[max(0, window - last) :].sum(axis=0))


def test_a_ledger_without_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one interval"):
        SicLedger.empty(0, 1)


def snapshot_of(appended: np.ndarray, window_s: float) -> ClusterSnapshot:
    """Sources with rows appended by (source, instance, partition), and a task behind that reads no partition."""
    sources, instances, partitions = appended.shape
    tasks = sources + 1
    task = np.append(np.repeat(np.arange(sources), instances), sources)
    return ClusterSnapshot(
        number=1,
        time_s=window_s,
        window_s=window_s,
        applications=ApplicationColumns(("job",)),
        tasks=TaskColumns(
            tuple(f"task {number}" for number in range(tasks)),
            application=[0] * tasks,
            is_source=[True] * sources + [False],
            is_sink=[False] * sources + [True],
            is_stateful=[False] * tasks,
            is_keyed=[False] * tasks,
            key_groups=[0] * tasks,
            memory_level=[0] * tasks,
        ),
        machines=MachineColumns(("machine",), [2.0]),
        instances=InstanceColumns(task, np.zeros(len(task)), np.zeros(len(task)), [True] * len(task)),
        partitions=PartitionColumns(np.repeat(np.arange(sources * instances), partitions), appended=appended.ravel()),
    )
