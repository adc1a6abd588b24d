"""A job that has read all there is for its run stops at a checkpoint; a restart, with input again, takes that back."""

import pytest

from penstock.engine.checkpoint.events import InjectBarrier, InstanceFailed, Requested, Started, Tick
from tests.engine.checkpoint.checkpoint_support import MS
from tests.engine.checkpoint.test_coordinator import BOTH, SOURCE, play, started


def test_a_stop_for_want_of_input_is_taken_back_by_a_restart() -> None:
    coordinator = started()
    play(coordinator, Requested(then_stop=True, at_end=True))
    assert play(coordinator, Tick(1 * MS)) == [InjectBarrier(1, SOURCE, last=True)]
    play(coordinator, InstanceFailed("sink[0]", 1, "broke"), Started(5 * MS, 2, BOTH, SOURCE))
    assert play(coordinator, Tick(15 * MS)) == [InjectBarrier(2, SOURCE, last=False)]


@pytest.mark.parametrize("first", [True, False])
def test_a_stop_that_was_asked_for_outlives_one_for_want_of_input(first: bool) -> None:
    coordinator = started()
    play(coordinator, Requested(then_stop=True, at_end=first), Requested(then_stop=True, at_end=not first))
    play(coordinator, InstanceFailed("sink[0]", 1, "broke"), Started(5 * MS, 2, BOTH, SOURCE))
    assert play(coordinator, Tick(15 * MS)) == [InjectBarrier(1, SOURCE, last=True)]
