"""Checkpoints that fail: how many may, how soon one is tried again; what is heard from those who do not run."""

from dataclasses import replace

import pytest

from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.events import (
    AbortEpoch,
    AlignmentFailed,
    Command,
    CommitFailed,
    Committed,
    Event,
    FailJob,
    InjectBarrier,
    InstanceEnded,
    InstanceFailed,
    InstanceSnapshotted,
    Requested,
    Tick,
    UploadFailed,
)
from penstock.engine.checkpoint.states import CheckpointState
from tests.engine.checkpoint.checkpoint_support import MS, OPTIONS
from tests.engine.checkpoint.test_coordinator import SOURCE, acks, answers, play, started


def fails(coordinator: CheckpointCoordinator, epoch: int) -> list[Command]:
    """Let the upload of the checkpoint that is due now fail."""
    due_ns = coordinator.due_ns()
    assert due_ns is not None
    return play(coordinator, Tick(due_ns), *acks(epoch), UploadFailed(epoch, "disk full"))[2:]


def test_too_many_checkpoints_in_a_row_that_fail_end_the_job() -> None:
    coordinator = started(options=replace(OPTIONS, max_failed=3))
    assert [fails(coordinator, epoch) for epoch in (1, 2)] == [
        [AbortEpoch(1, "disk full", 1)],
        [AbortEpoch(2, "disk full", 2)],
    ]
    due_ns = coordinator.due_ns()
    assert due_ns is not None
    play(coordinator, Tick(due_ns), *acks(3), *answers(3))
    for epoch in (4, 5):
        assert not any(isinstance(command, FailJob) for command in fails(coordinator, epoch)), "one came between"
    assert fails(coordinator, 6) == [AbortEpoch(6, "disk full", 3), FailJob("disk full", 3)]


def test_checkpoints_that_an_instance_takes_with_it_are_no_failed_ones() -> None:
    coordinator = started(options=replace(OPTIONS, max_failed=1))
    (aborted,) = play(coordinator, Tick(10 * MS), InstanceFailed("sink[0]", 1, "broke"))[1:]
    assert isinstance(aborted, AbortEpoch) and aborted.in_row == 0


def test_the_last_checkpoint_of_a_job_that_is_to_stop_is_tried_again_soon_and_not_for_long() -> None:
    options = replace(OPTIONS, interval_ms=3_600_000)
    coordinator = started(options=options)
    play(coordinator, Requested(then_stop=True))
    times_ns, commands = [], []
    for epoch in (1, 2, 3):
        times_ns.append(coordinator.due_ns())
        commands += fails(coordinator, epoch)
    assert times_ns == [0, 1_000 * MS, 2_000 * MS]
    assert [command for command in commands if isinstance(command, FailJob)] == [FailJob("disk full", 3)]


@pytest.mark.parametrize("state", [CheckpointState.READY, CheckpointState.ALIGNING, CheckpointState.COMMITTING])
@pytest.mark.parametrize(
    "event",
    [
        InstanceSnapshotted("sink[0]", 2, 1),
        InstanceSnapshotted("sink[0]", 7, 9),
        InstanceSnapshotted("nobody[0]", 1, 1),
        AlignmentFailed("sink[0]", 2, 1),
        AlignmentFailed("nobody[0]", 1, 1),
        InstanceEnded("sink[0]", 2, 0),
        InstanceEnded("nobody[0]", 1, 0),
        InstanceFailed("sink[0]", 2, "broke"),
        InstanceFailed("nobody[0]", 1, "broke"),
        Committed(1, 2),
        CommitFailed(1, 2, "no"),
    ],
)
def test_what_comes_from_an_attempt_that_does_not_run_is_dropped_and_counted(
    event: Event, state: CheckpointState
) -> None:
    coordinator = started()
    if state is not CheckpointState.READY:
        play(coordinator, Tick(10 * MS))
    if state is CheckpointState.COMMITTING:
        play(coordinator, *acks(1), *answers(1)[:2])
    assert coordinator.state is state
    assert play(coordinator, event) == []
    assert (coordinator.state, coordinator.statistics().dropped) == (state, 1)
    assert "dropped" in coordinator.log[-1]


def test_a_barrier_that_an_instance_will_never_pass_ends_its_checkpoint_at_once() -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS), acks(1)[0])
    (aborted,) = play(coordinator, AlignmentFailed("sink[0]", 1, 1))
    assert isinstance(aborted, AbortEpoch) and aborted.epoch == 1 and "sink[0]" in aborted.reason
    assert coordinator.state is CheckpointState.READY
    assert play(coordinator, AlignmentFailed("source[0]", 1, 1)) == [], "it is given up already"
    assert play(coordinator, Tick(20 * MS)) == [InjectBarrier(2, SOURCE, last=False)]
    play(coordinator, *acks(2))
    assert play(coordinator, AlignmentFailed("sink[0]", 1, 1)) == []
