"""Turns by shares: deterministic, smooth, and in the end as much as was wanted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.dataflow.weighted_turns import WeightedTurns

SHARES = st.lists(st.integers(0, 7), min_size=1, max_size=6).filter(any)


def dealt(shares: list[int], batches: list[int], first: int = 0) -> list[int]:
    """Return who gets each batch of so many rows."""
    turns, places = WeightedTurns(shares, first), []
    for rows in batches:
        places.append(turns.next)
        turns.give(rows)
    return places


@given(SHARES, st.lists(st.integers(1, 1_000), max_size=200), st.integers(0, 20))
def test_nobody_is_ever_far_from_its_share(shares: list[int], batches: list[int], first: int) -> None:
    got = [0] * len(shares)
    most, given_rows = max(batches, default=0), 0
    for place, rows in zip(dealt(shares, batches, first), batches, strict=True):
        got[place] += rows
        given_rows += rows
        for number, share in enumerate(shares):
            wanted = given_rows * share / sum(shares)
            assert got[number] - wanted <= most * (1 + 1e-9)
            assert wanted - got[number] <= most * max(len(shares) - 1, 0) * (1 + 1e-9) + 1e-6
            assert share or not got[number]


@given(SHARES, st.integers(0, 20))
def test_batches_of_one_size_are_dealt_out_exactly_in_each_cycle(shares: list[int], first: int) -> None:
    places = dealt(shares, [100] * (3 * sum(shares)), first)
    assert [places.count(number) for number in range(len(shares))] == [3 * share for share in shares]
    assert places == dealt(shares, [100] * (3 * sum(shares)), first)


def test_turns_are_spread_and_do_not_come_in_runs() -> None:
    assert dealt([3, 1], [10] * 8) == [0, 1, 0, 0, 0, 1, 0, 0]
    assert dealt([1, 1], [10] * 4, first=1) == [1, 0, 1, 0]


def test_only_the_proportion_counts() -> None:
    batches = [7, 3, 9, 1, 1, 40, 2, 8] * 5
    assert dealt([2, 1, 4], batches) == dealt([20, 10, 40], batches)


@pytest.mark.parametrize("shares", [[0, 5], [0, 0, 1]])
def test_who_has_no_share_has_no_turn(shares: list[int]) -> None:
    assert set(dealt(shares, [5] * 9)) == {len(shares) - 1}
