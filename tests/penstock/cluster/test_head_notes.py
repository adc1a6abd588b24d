"""What heads leave for those that follow: a head that only seemed lost does not end the job of the next one."""

import os
from typing import NoReturn

import pytest

from penstock.cluster.head_actor import FOLLOWED, HeadActor
from penstock.cluster.head_notes import HeadNotes
from penstock.cluster.job_order import HeadState
from penstock.model.control import Limits, QueryLimit
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


def head(number: int, notes: HeadNotes) -> HeadActor:
    """Return a head actor as far as it keeps the end of its job."""
    actor = HeadActor.__new__(HeadActor)
    actor._notes, actor._number = notes, number
    return actor


def test_the_end_of_a_job_is_what_its_newest_head_says(on_ray: RayCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(status: int) -> NoReturn:
        raise SystemExit(status)

    monkeypatch.setattr(os, "_exit", leave)
    notes = HeadNotes("shop", "0123456789abcdef")
    try:
        assert [notes.next_head(), notes.next_head()] == [1, 2]
        with pytest.raises(SystemExit) as left:
            head(1, notes).ended(HeadState.FAILED, None)
        assert left.value.code == FOLLOWED and notes.end(1) is None
        # What one says that has not seen its follower is not what the head after that one hears.
        notes.keep_end(1, HeadState.FAILED, None)
        head(2, notes).ended(HeadState.STOPPED, None)
        assert notes.end(notes.next_head() - 1) == (HeadState.STOPPED, None)
    finally:
        notes.delete()
    assert notes.heads() == 0 and notes.end(2) is None


def test_memory_and_limits_are_there_for_the_head_that_follows(on_ray: RayCluster) -> None:
    notes = HeadNotes("shop", "fedcba9876543210")
    try:
        assert notes.memory() == {} and notes.limits() is None
        limits = Limits("off", {"hot": QueryLimit(0.5, None)})
        notes.keep_memory({"counts": 8 << 20, "totals": None})
        notes.keep_limits(limits, "qod")
        after = HeadNotes("shop", "fedcba9876543210")
        assert after.memory() == {"counts": 8 << 20, "totals": None} and after.limits() == (limits, "qod")
    finally:
        notes.delete()
