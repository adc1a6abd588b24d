"""How large buckets may be, and into how many pieces one is cut."""

import pytest

from penstock.engine.paging.options import MANY_BUCKETS, PagingOptions

MB = 1 << 20
NO_BUDGET = PagingOptions()
BUDGET = PagingOptions(budget_bytes=400 * MB)


def test_without_a_budget_many_buckets_are_larger_than_few() -> None:
    assert NO_BUDGET.largest_bytes(1) == NO_BUDGET.largest_bytes(MANY_BUCKETS) == NO_BUDGET.bucket_bytes
    assert NO_BUDGET.largest_bytes(4 * MANY_BUCKETS) == 4 * NO_BUDGET.bucket_bytes
    assert BUDGET.largest_bytes(4 * MANY_BUCKETS) == BUDGET.bucket_bytes


def test_of_a_state_that_grows_there_are_as_many_buckets_as_its_root() -> None:
    counts, buckets = {}, 1
    for state_mb in (100, 1_000, 10_000):
        for state_bytes in range(0, state_mb * MB, MB):
            if state_bytes > buckets * NO_BUDGET.largest_bytes(buckets):
                buckets *= NO_BUDGET.pieces(state_bytes // buckets, 0, buckets)
        counts[state_mb] = buckets
    assert counts == {100: 16, 1_000: 64, 10_000: 256}


@pytest.mark.parametrize(("bucket", "added", "pieces"), [(9, 0, 2), (15, 0, 4), (9, 30, 8), (9, 10_000, 64)])
def test_without_a_budget_a_bucket_is_cut_in_a_power_of_two_that_fits_what_comes(
    bucket: int, added: int, pieces: int
) -> None:
    assert NO_BUDGET.pieces(bucket * MB, added * MB, 1) == pieces


def test_with_a_budget_every_piece_may_grow_to_twice_its_size() -> None:
    largest = BUDGET.largest_bytes(2)
    assert BUDGET.pieces(largest + 1, 0, 1) == 3 and BUDGET.pieces(largest + 1, 2 * largest, 9) == 5
