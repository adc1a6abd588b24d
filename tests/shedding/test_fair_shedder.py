"""Which batches stay: the sorts against Algorithm 1's listing, and what every shedder promises.

As docs/design/papers/dissp.md 4 and 6 have it.
"""

import heapq
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.fair_shedder import MOST_PIECES, PIECES, FairShedder, PartialBatchMode, cut
from penstock.shedding.shedders import (
    EqualShareShedder,
    FifoShedder,
    InputBuffer,
    RandomShedder,
    Shedder,
    Standing,
    kept_sic,
    max_min_share,
)
from penstock.shedding.sic import jain_index
from tests.papers_cases import cases

SEEDS = st.integers(0, 2**32 - 1)
WHOLE_BATCHES = [FairShedder(PartialBatchMode.LITERAL), FairShedder(PartialBatchMode.STRICT)]
EXACT = [FairShedder(), RandomShedder(), FifoShedder()]


def drawn(random: np.random.Generator, *, markers: bool = False) -> tuple[InputBuffer, Standing, int]:
    """Batches whose SIC adds up without rounding, so that ties are ties, and how many rows shall stay."""
    queries, batches = int(random.integers(1, 7)), int(random.integers(0, 30))
    buffer = InputBuffer(
        random.integers(0, queries, batches).astype(np.int32),
        random.integers(0, 6, batches) / 64,
        random.integers(0 if markers else 1, int(random.choice([2, 5, 60])), batches),
    )
    standing = Standing(
        random.integers(0, 8, queries) / 64,
        2.0 ** random.integers(-1, 2, queries),
        2.0 ** random.integers(-3, 3, queries),
    )
    return buffer, standing, int(random.integers(0, int(buffer.rows.sum()) + 3))


def listing(
    buffer: InputBuffer,
    n_to_keep: int,
    standing: Standing,
    seed: int,
    mode: PartialBatchMode,
    *,
    literal_line_7: bool = False,
) -> tuple[list[int], np.ndarray]:
    """Algorithm 1 with its heaps: which batches are admitted, in order, and where the queries stand before each.

    ``literal_line_7`` keeps a query's batches in ascending order, as the listing's line 7 says.
    """
    tie = np.random.default_rng(seed).permutation(len(standing.proj))
    proj = standing.proj.copy()
    batches: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for batch, (query, sic) in enumerate(zip(buffer.query.tolist(), buffer.sic.tolist(), strict=True)):
        heapq.heappush(batches[query], (sic if literal_line_7 else -sic, batch))
    queries = [(proj[query] / standing.norm[query], tie[query], query) for query in batches]
    heapq.heapify(queries)
    kept, admitted, before = 0, [], []
    while queries and kept < n_to_keep:
        key, _, query = heapq.heappop(queries)
        batch = heapq.heappop(batches[query])[1]
        if mode is PartialBatchMode.LITERAL or kept + buffer.rows[batch] <= n_to_keep:
            admitted.append(batch)
            before.append(key)
            kept += buffer.rows[batch]
            proj[query] += buffer.sic[batch]
        if batches[query]:
            heapq.heappush(queries, (proj[query] / standing.norm[query], tie[query], query))
    return admitted, np.array(before)


def shed(shedder: Shedder, buffer: InputBuffer, n_to_keep: int, standing: Standing, seed: int) -> np.ndarray:
    return shedder.load_shed(buffer, n_to_keep, standing, np.random.default_rng(seed))


@pytest.mark.parametrize("mode", [PartialBatchMode.LITERAL, PartialBatchMode.STRICT])
@given(seed=SEEDS)
@settings(max_examples=cases())
def test_the_sorts_admit_exactly_what_the_heaps_admit(mode: PartialBatchMode, seed: int) -> None:
    buffer, standing, n_to_keep = drawn(np.random.default_rng(seed))
    kept = shed(FairShedder(mode), buffer, n_to_keep, standing, seed)
    admitted, _ = listing(buffer, n_to_keep, standing, seed, mode)
    expected = np.zeros_like(buffer.rows)
    expected[admitted] = buffer.rows[admitted]
    np.testing.assert_array_equal(kept, expected)


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_slicing_admits_what_the_heaps_admit_of_pieces(seed: int) -> None:
    random = np.random.default_rng(seed)
    buffer, standing, n_to_keep = drawn(random)
    buffer = without_ties(buffer, random)
    kept = shed(FairShedder(), buffer, n_to_keep, standing, seed)
    of, rows = cut(buffer.rows, max(1, n_to_keep // PIECES))
    pieces = InputBuffer(buffer.query[of], buffer.sic[of] * (rows / buffer.rows[of]), rows)
    admitted, _ = listing(pieces, n_to_keep, standing, seed, PartialBatchMode.LITERAL)
    expected = np.bincount(of[admitted], weights=rows[admitted], minlength=len(buffer.rows))
    if admitted:
        expected[of[admitted[-1]]] -= max(0, rows[admitted].sum() - n_to_keep)
    assert (rows <= max(1, n_to_keep // PIECES)).all()
    np.testing.assert_array_equal(kept, expected)


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_no_more_is_kept_than_may_be(seed: int) -> None:
    buffer, standing, n_to_keep = drawn(np.random.default_rng(seed), markers=True)
    present = int(buffer.rows.sum())
    for shedder in [*WHOLE_BATCHES, *EXACT, EqualShareShedder(), FairShedder(by_cost=True)]:
        kept = shed(shedder, buffer, n_to_keep, standing, seed)
        assert ((kept >= 0) & (kept <= buffer.rows)).all()
        if shedder in WHOLE_BATCHES:
            assert ((kept == 0) | (kept == buffer.rows)).all()
        if shedder in EXACT:
            assert kept.sum() == min(n_to_keep, present)
        elif shedder is WHOLE_BATCHES[0]:
            assert kept.sum() < n_to_keep + buffer.rows.max(initial=1)
        elif shedder is WHOLE_BATCHES[1]:
            assert kept.sum() <= n_to_keep
        else:
            assert (kept * standing.cost[buffer.query]).sum() <= n_to_keep + 1e-4
        # The rest of a batch takes its share of SIC with it, and a marker nothing.
        stays = kept_sic(buffer, kept)
        assert (abs(stays * buffer.rows - buffer.sic * kept) <= 1e-9).all()
        assert (stays[buffer.rows == 0] == buffer.sic[buffer.rows == 0]).all()


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_what_does_not_exceed_the_room_stays(seed: int) -> None:
    buffer, standing, _ = drawn(np.random.default_rng(seed), markers=True)
    present = int(buffer.rows.sum())
    for shedder in [*WHOLE_BATCHES, *EXACT]:
        assert (shed(shedder, buffer, present, standing, seed) == buffer.rows).all()
    work = int(np.ceil((buffer.rows * standing.cost[buffer.query]).sum()))
    for shedder in (EqualShareShedder(), FairShedder(by_cost=True)):
        assert (shed(shedder, buffer, work, standing, seed) == buffer.rows).all()


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_who_lost_a_batch_stands_no_worse_than_who_got_the_last(seed: int) -> None:
    buffer, standing, n_to_keep = drawn(np.random.default_rng(seed))
    kept = shed(FairShedder(PartialBatchMode.LITERAL), buffer, n_to_keep, standing, seed)
    _, before = listing(buffer, n_to_keep, standing, seed, PartialBatchMode.LITERAL)
    stands = by_query(buffer, kept, standing)
    lost = np.unique(buffer.query[kept < buffer.rows])
    if len(before):
        assert (stands[lost] >= before[-1]).all()
        assert (np.diff(before) >= 0).all()


@pytest.mark.parametrize("shedder", [*WHOLE_BATCHES, FairShedder(), FairShedder(by_cost=True)])
@given(seed=SEEDS)
@settings(max_examples=cases())
def test_the_order_of_arrival_changes_nothing(shedder: FairShedder, seed: int) -> None:
    random = np.random.default_rng(seed)
    buffer, standing, n_to_keep = drawn(random)
    buffer = without_ties(buffer, random)
    order = random.permutation(len(buffer.sic))
    moved = InputBuffer(buffer.query[order], buffer.sic[order], buffer.rows[order])
    one, other = (shed(shedder, of, n_to_keep, standing, seed) for of in (buffer, moved))
    np.testing.assert_allclose(by_query(buffer, one, standing), by_query(moved, other, standing), atol=1e-9)


@given(seed=SEEDS)
@settings(max_examples=cases())
def test_equal_share_gives_equal_time_to_all_who_want_it(seed: int) -> None:
    buffer, standing, n_to_keep = drawn(np.random.default_rng(seed))
    kept = shed(EqualShareShedder(), buffer, n_to_keep, standing, seed)
    cost = standing.cost[buffer.query]
    queries = len(standing.cost)
    wanted = np.bincount(buffer.query, weights=buffer.rows * cost, minlength=queries)
    got = np.bincount(buffer.query, weights=kept * cost, minlength=queries)
    # To a row: who wants more than it got has no less than anyone.
    short = wanted - got > standing.cost + 1e-4
    assert (got[short] >= got.max(initial=0) - standing.cost[short] - 1e-4).all()
    if wanted.sum() > n_to_keep:
        share = max_min_share(wanted[wanted > 0], float(n_to_keep))
        assert np.minimum(wanted, share).sum() == pytest.approx(n_to_keep)
    for query in range(queries):
        own, whole = kept[buffer.query == query], buffer.rows[buffer.query == query]
        np.testing.assert_array_equal(own, np.clip(own.sum() - (np.cumsum(whole) - whole), 0, whole))


def test_line_7_of_the_listing_sorts_the_wrong_way() -> None:
    """Line 7 keeps batches in ascending order, line 12 picks the highest: ascending loses SIC for the same rows."""
    buffer = InputBuffer(np.zeros(3, np.int32), np.array([1.0, 2.0, 4.0]) / 8, np.full(3, 10))
    standing = Standing(np.zeros(1), np.ones(1), np.ones(1))
    ascending, _ = listing(buffer, 10, standing, 0, PartialBatchMode.LITERAL, literal_line_7=True)
    descending, _ = listing(buffer, 10, standing, 0, PartialBatchMode.LITERAL)
    assert (ascending, descending) == ([0], [2])
    assert shed(FairShedder(PartialBatchMode.LITERAL), buffer, 10, standing, 0).tolist() == [0, 0, 10]


def test_the_listing_keeps_up_to_a_batch_too_many() -> None:
    buffer = InputBuffer(np.array([0, 1], np.int32), np.array([0.5, 0.5]), np.array([100, 100]))
    standing = Standing(np.zeros(2), np.ones(2), np.ones(2))
    kept = {mode: shed(FairShedder(mode), buffer, 101, standing, 0).sum() for mode in PartialBatchMode}
    assert kept == {PartialBatchMode.LITERAL: 200, PartialBatchMode.STRICT: 100, PartialBatchMode.SLICE: 101}


def test_strict_mode_starves_what_is_larger_than_the_room() -> None:
    buffer = InputBuffer(np.array([0, 1], np.int32), np.array([0.5, 0.5]), np.array([160, 160]))
    standing = Standing(np.zeros(2), np.ones(2), np.ones(2))
    assert shed(FairShedder(PartialBatchMode.STRICT), buffer, 100, standing, 0).sum() == 0
    assert sorted(shed(FairShedder(), buffer, 100, standing, 0).tolist()) == [50, 50]


def test_by_cost_gets_more_sic_for_the_same_time() -> None:
    # One query, a slow and a fast source: the same SIC in 10 and in 100 rows.
    buffer = InputBuffer(np.zeros(2, np.int32), np.array([0.25, 0.25]), np.array([100, 10]))
    standing = Standing(np.zeros(1), np.ones(1), np.ones(1))
    kept = [
        kept_sic(buffer, shed(of, buffer, 20, standing, 0)).sum()
        for of in (FairShedder(PartialBatchMode.STRICT), FairShedder(by_cost=True))
    ]
    assert kept == [0.25, pytest.approx(0.275)]
    # Two queries, one ten times dearer: both end at the same SIC, and the time that there is is used.
    buffer = InputBuffer(np.array([0, 1], np.int32), np.array([0.5, 0.5]), np.array([1000, 1000]))
    standing = Standing(np.zeros(2), np.ones(2), np.array([0.2, 2.0]))
    kept_rows = shed(FairShedder(by_cost=True), buffer, 1100, standing, 0)
    assert (kept_rows * standing.cost).sum() == pytest.approx(1100, abs=3)
    assert jain_index(kept_sic(buffer, kept_rows)) > 0.99


def test_markers_raise_their_query_and_cost_nothing() -> None:
    buffer = InputBuffer(np.array([0, 1, 0], np.int32), np.array([0.25, 0.25, 0.25]), np.array([100, 100, 0]))
    standing = Standing(np.zeros(2), np.ones(2), np.ones(2))
    assert shed(FairShedder(), buffer, 100, standing, 0).tolist() == [0, 100, 0]


@pytest.mark.parametrize("mode", [*PartialBatchMode])
def test_a_new_query_has_no_sic_yet_and_is_served(mode: PartialBatchMode) -> None:
    # Query 1 has nothing to be normalised by; of query 2 there is not even a row.
    buffer = InputBuffer(np.array([0, 1, 2], np.int32), np.array([0.5, 0.5, 0.5]), np.array([30, 30, 30]))
    for norm in (0.0, float("nan")):
        standing = Standing(np.array([0.5, 0.0]), np.array([1.0, norm]), np.ones(2))
        for shedder in (FairShedder(mode), FairShedder(by_cost=True)):
            kept = shed(shedder, buffer, 60, standing, 0)
            # Whole batches leave none for query 0, which has SIC; pieces make all three equal.
            assert kept.sum() == 60 and kept[0] < 20 < kept[1:].min()


def test_cutting_never_makes_more_pieces_than_can_be_handled() -> None:
    buffer = InputBuffer(np.zeros(10, np.int32), np.full(10, 0.1), np.full(10, 10_000_000))
    kept = shed(FairShedder(), buffer, 5, Standing(np.zeros(1), np.ones(1), np.ones(1)), 0)
    assert kept.sum() == 5
    of, rows = cut(buffer.rows, int(buffer.rows.sum()) // MOST_PIECES)
    assert len(of) == MOST_PIECES and rows.sum() == buffer.rows.sum()


def without_ties(buffer: InputBuffer, random: np.random.Generator) -> InputBuffer:
    """The same with SIC so that no two batches are alike: what ties would do is left to chance."""
    sic = random.permutation(np.arange(1, len(buffer.sic) + 1)) / 1024 + random.random(len(buffer.sic)) / 4096
    return InputBuffer(buffer.query, sic, buffer.rows)


def by_query(buffer: InputBuffer, kept: np.ndarray, standing: Standing) -> np.ndarray:
    """Where queries stand with what was kept."""
    sic = buffer.sic * (kept / np.maximum(buffer.rows, 1))
    return (standing.proj + np.bincount(buffer.query, weights=sic, minlength=len(standing.proj))) / standing.norm
