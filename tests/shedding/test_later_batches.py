"""Batches of which little waits are left for a later check, but none for long, and none where there is time for all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.shedding.later_batches import MOST_MS, PART, left_for_later
from tests.papers_cases import cases

BATCHES = st.lists(st.tuples(st.floats(0.0, 1e3), st.floats(0.0, 2 * MOST_MS)), max_size=40)


@settings(max_examples=cases())
@given(BATCHES, st.floats(1.0, 1e4))
def test_what_is_left_is_small_and_has_not_waited_long_and_the_rest_fills_the_room(
    batches: list[tuple[float, float]], room: float
) -> None:
    work, waited_ms = (np.array([batch[place] for batch in batches]) for place in (0, 1))
    later = left_for_later(work, waited_ms, room)
    assert (work[later] < room / PART).all() and (waited_ms[later] < MOST_MS).all()
    if later.any():
        assert work[~later].sum() >= room


def test_small_batches_are_left_beside_large_ones() -> None:
    work = np.array([9.0, 60.0, 9.0, 60.0, 9.0])
    assert left_for_later(work, np.array([0.0, 0.0, MOST_MS, 0.0, np.inf]), 100.0).tolist() == [
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("large", [0.0, 50.0])
def test_nothing_is_left_that_there_is_time_for(large: float) -> None:
    assert not left_for_later(np.array([5.0, large]), np.zeros(2), 100.0).any()
