"""The checkpoint coordinator: rule by rule, and under every order of events."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.events import (
    AbortEpoch,
    AlignmentFailed,
    BarriersHeld,
    Command,
    CommitFailed,
    CommitSinks,
    Committed,
    DrainRequested,
    EndSources,
    Event,
    InjectBarrier,
    InstanceEnded,
    InstanceFailed,
    InstanceSnapshotted,
    Publish,
    Published,
    PublishFailed,
    Requested,
    RetainCheckpoints,
    Started,
    StartUpload,
    Stop,
    Tick,
    UploadFailed,
    UploadFinished,
)
from penstock.engine.checkpoint.states import TRANSITIONS, CheckpointState
from penstock.model.config import CheckpointOptions
from penstock.model.errors import BugError
from tests.engine.checkpoint.checkpoint_support import MS, OPTIONS, World

BOTH = frozenset({"source[0]", "sink[0]"})
SOURCE = frozenset({"source[0]"})


def started(
    restored: int | None = None, last_epoch: int = 0, options: CheckpointOptions = OPTIONS
) -> CheckpointCoordinator:
    coordinator = CheckpointCoordinator(options)
    coordinator.on(Started(0, 1, BOTH, SOURCE, restored, last_epoch))
    return coordinator


def play(coordinator: CheckpointCoordinator, *events: Event) -> list[Command]:
    return [command for event in events for command in coordinator.on(event)]


def acks(epoch: int, attempt: int = 1) -> list[Event]:
    return [InstanceSnapshotted(name, attempt, epoch, f"{name} at {epoch}") for name in sorted(BOTH)]


def answers(epoch: int) -> list[Event]:
    return [UploadFinished(epoch), Published(epoch), Committed(epoch, 1)]


def ends(delivered: int = 0) -> list[Event]:
    return [InstanceEnded(name, 1, delivered, f"{name} at its end") for name in sorted(BOTH)]


def test_a_checkpoint_from_barrier_to_commit() -> None:
    coordinator = started()
    assert coordinator.due_ns() == 10 * MS
    assert play(coordinator, Tick(9 * MS)) == []
    assert play(coordinator, Tick(10 * MS)) == [InjectBarrier(1, SOURCE, last=False)]
    first, second = acks(1)
    assert play(coordinator, first) == []
    assert play(coordinator, second) == [
        StartUpload(1, None, {"source[0]": "source[0] at 1", "sink[0]": "sink[0] at 1"})
    ]
    assert play(coordinator, UploadFinished(1)) == [Publish(1, None)]
    assert play(coordinator, Published(1)) == [CommitSinks(1, 1)]
    assert play(coordinator, Committed(1, 1)) == [RetainCheckpoints(1, 2)]
    assert coordinator.statistics().committed_epoch == 1


def test_the_next_checkpoint_waits_for_the_commit_of_the_one_before() -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS), *acks(1))
    assert play(coordinator, Tick(30 * MS)) == []
    play(coordinator, UploadFinished(1), Published(1), Tick(40 * MS), Committed(1, 1))
    assert play(coordinator, Tick(40 * MS)) == [InjectBarrier(2, SOURCE, last=False)]


def test_a_checkpoint_that_takes_too_long_is_given_up_and_the_next_one_follows() -> None:
    coordinator = started()
    first, second = acks(1)
    play(coordinator, Tick(10 * MS), first, first)
    aborted, begun = play(coordinator, Tick(110 * MS))
    assert aborted == AbortEpoch(1, "it took longer than 100 ms", 1)
    assert begun == InjectBarrier(2, SOURCE, last=False)
    assert play(coordinator, second) == []
    statistics = coordinator.statistics()
    assert (statistics.aborted, statistics.dropped) == (1, 2)
    assert statistics.last_abort == "epoch 1: it took longer than 100 ms"
    assert play(coordinator, *acks(2))[0].epoch == 2  # type: ignore[union-attr]


def test_a_manifest_under_way_is_waited_for_however_long_it_takes() -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS), *acks(1), UploadFinished(1))
    assert coordinator.due_ns() is None
    assert play(coordinator, Tick(10_000 * MS)) == []
    assert play(coordinator, Published(1)) == [CommitSinks(1, 1)]


@pytest.mark.parametrize("failure", [UploadFailed(1, "disk full"), PublishFailed(1, "disk full")])
def test_a_failed_upload_or_manifest_gives_the_epoch_up(failure: Event) -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS), *acks(1))
    if isinstance(failure, PublishFailed):
        play(coordinator, UploadFinished(1))
    assert play(coordinator, failure) == [AbortEpoch(1, "disk full", 1)]
    assert play(coordinator, Tick(20 * MS)) == [InjectBarrier(2, SOURCE, last=False)]


def test_a_savepoint_is_taken_at_once_and_again_if_it_was_given_up() -> None:
    coordinator = started()
    play(coordinator, Requested("before-upgrade"))
    assert coordinator.due_ns() == 0
    assert play(coordinator, Tick(1 * MS), *acks(1))[1].savepoint == "before-upgrade"  # type: ignore[union-attr]
    play(coordinator, UploadFailed(1, "no"))
    assert play(coordinator, Tick(10 * MS)) == [], "not before the interval is over"
    commands = play(coordinator, Tick(11 * MS), *acks(2), *answers(2))
    assert Publish(2, "before-upgrade") in commands
    assert play(coordinator, Tick(12 * MS)) == []


def test_a_stop_takes_a_checkpoint_commits_it_and_then_stops() -> None:
    coordinator = started()
    play(coordinator, Requested("bye", then_stop=True), Requested(then_stop=True))
    assert play(coordinator, Tick(1 * MS)) == [InjectBarrier(1, SOURCE, last=True)]
    commands = play(coordinator, *acks(1), *answers(1))
    assert commands[1:] == [Publish(1, "bye"), CommitSinks(1, 1), RetainCheckpoints(1, 2), Stop(1, ended=False)]
    assert coordinator.state is CheckpointState.OVER
    assert play(coordinator, Requested(then_stop=True), Tick(100 * MS), *ends(1)) == []


def test_a_stop_waits_for_the_checkpoint_under_way_and_for_other_savepoints() -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS), Requested(then_stop=True), Requested("a"), Requested("b"))
    assert play(coordinator, *acks(1), *answers(1))[-1] == RetainCheckpoints(1, 2)
    assert play(coordinator, Tick(10 * MS)) == [InjectBarrier(2, SOURCE, last=False)]
    play(coordinator, *acks(2), *answers(2))
    assert play(coordinator, Tick(10 * MS)) == [InjectBarrier(3, SOURCE, last=True)]
    assert play(coordinator, *acks(3), *answers(3))[-1] == Stop(3, ended=False)


def test_when_all_inputs_have_ended_a_last_checkpoint_commits() -> None:
    coordinator = started()
    assert play(coordinator, *ends()) == []
    commands = play(coordinator, Tick(1 * MS), *answers(1))
    assert commands == [
        StartUpload(1, None, {"source[0]": "source[0] at its end", "sink[0]": "sink[0] at its end"}),
        Publish(1, None), CommitSinks(1, 1), RetainCheckpoints(1, 2), Stop(1, ended=True),
    ]  # fmt: skip


def test_an_ended_instance_counts_as_having_delivered_later_barriers_only() -> None:
    coordinator = started()
    source_ack = InstanceSnapshotted("source[0]", 1, 1, "source at the barrier")
    play(coordinator, Tick(10 * MS), InstanceEnded("source[0]", 1, 1, "source at its end"))
    assert play(coordinator, InstanceSnapshotted("sink[0]", 1, 1, "sink at the barrier")) == []
    assert play(coordinator, source_ack) == [
        StartUpload(1, None, {"source[0]": "source at the barrier", "sink[0]": "sink at the barrier"})
    ]
    play(coordinator, *answers(1))
    assert play(coordinator, Tick(20 * MS)) == [], "no source is left to send a barrier"
    play(coordinator, InstanceEnded("sink[0]", 1, 1, "sink at its end"))
    assert play(coordinator, Tick(20 * MS)) == [
        StartUpload(2, None, {"source[0]": "source at its end", "sink[0]": "sink at its end"})
    ]
    assert play(coordinator, *answers(2))[-1] == Stop(2, ended=True)


def test_an_epoch_that_all_instances_end_into_is_the_last() -> None:
    coordinator = started()
    commands = play(coordinator, Tick(10 * MS), *ends(), *answers(1))
    assert commands[-1] == Stop(1, ended=True)


def test_an_epoch_that_an_instance_passed_before_its_end_is_not_the_last() -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS), *ends(delivered=1))
    assert play(coordinator, *acks(1), *answers(1))[-1] == RetainCheckpoints(1, 2)
    assert play(coordinator, Tick(10 * MS), *answers(2))[-1] == Stop(2, ended=True)


def test_a_stop_that_meets_the_end_says_what_was_committed() -> None:
    coordinator = started()
    play(coordinator, Requested(then_stop=True), Tick(1 * MS), *ends(delivered=1))
    assert play(coordinator, *acks(1), *answers(1))[-1] == Stop(1, ended=False)


def test_a_drain_ends_the_sources_also_after_a_restart() -> None:
    coordinator = started()
    assert play(coordinator, DrainRequested(), DrainRequested()) == [EndSources(SOURCE)]
    play(coordinator, InstanceFailed("sink[0]", 1, "broke"))
    assert play(coordinator, Started(5 * MS, 2, BOTH, SOURCE)) == [EndSources(SOURCE)]


def test_epochs_go_on_after_a_restart() -> None:
    coordinator = started(restored=7, last_epoch=9)
    assert coordinator.state is CheckpointState.COMMITTING
    play(coordinator, Committed(7, 1))
    assert play(coordinator, Tick(10 * MS)) == [InjectBarrier(10, SOURCE, last=False)]
    assert play(coordinator, InstanceFailed("sink[0]", 1, "broke"))[0] == AbortEpoch(
        10, "instance sink[0] failed: broke"
    )
    assert play(coordinator, Started(20 * MS, 2, BOTH, SOURCE, restored=7)) == [], "7 is committed already"
    assert play(coordinator, Tick(30 * MS)) == [InjectBarrier(11, SOURCE, last=False)]


def test_what_was_published_is_committed_after_a_restart() -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS), *acks(1), UploadFinished(1), InstanceFailed("sink[0]", 1, "broke"))
    assert coordinator.state is CheckpointState.HALTING_AT_PUBLISH
    assert play(coordinator, Published(1)) == []
    assert coordinator.state is CheckpointState.HALTED
    assert play(coordinator, Started(20 * MS, 2, BOTH, SOURCE, restored=1)) == [CommitSinks(1, 2)]
    play(coordinator, CommitFailed(1, 2, "no"))
    assert play(coordinator, Started(30 * MS, 3, BOTH, SOURCE, restored=1)) == [CommitSinks(1, 3)]
    assert play(coordinator, CommitFailed(1, 2, "no")) == [], "a repetition"
    assert play(coordinator, Committed(1, 3)) == [RetainCheckpoints(1, 2)]


def test_acknowledgements_of_an_earlier_attempt_are_dropped() -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS), InstanceFailed("sink[0]", 1, "broke"), Started(20 * MS, 2, BOTH, SOURCE))
    play(coordinator, Tick(30 * MS))
    assert play(coordinator, *acks(2, attempt=1), InstanceFailed("sink[0]", 1, "broke"), *ends()) == []
    assert coordinator.statistics().dropped == 5
    assert play(coordinator, *acks(2, attempt=2))[0].epoch == 2  # type: ignore[union-attr]


def test_a_region_restarts_alone() -> None:
    coordinator = CheckpointCoordinator(OPTIONS)
    both = frozenset({"a[0]", "b[0]"})
    play(coordinator, Started(0, 1, both, both), InstanceEnded("b[0]", 1, 0, "b"), InstanceFailed("a[0]", 1, "broke"))
    play(coordinator, Started(1 * MS, 2, frozenset({"a[0]"}), frozenset({"a[0]"})))
    assert play(coordinator, Tick(11 * MS)) == [InjectBarrier(1, frozenset({"a[0]"}), last=False)]
    assert play(coordinator, InstanceSnapshotted("a[0]", 2, 1, "a")) == [
        StartUpload(1, None, {"a[0]": "a", "b[0]": "b"})
    ]


def test_without_a_directory_checkpoints_are_taken_at_the_end_only() -> None:
    coordinator = started(options=CheckpointOptions(interval_ms=10))
    assert coordinator.due_ns() is None
    assert play(coordinator, Tick(1_000 * MS)) == []
    assert play(coordinator, *ends(), Tick(1_000 * MS), *answers(1))[-1] == Stop(1, ended=True)


@pytest.mark.parametrize(
    "event",
    [
        UploadFinished(1),
        Published(2),
        Committed(1, 1),
        InstanceSnapshotted("sink[0]", 1, 2),
        AlignmentFailed("sink[0]", 1, 2),
        Started(0, 2, BOTH, SOURCE),
    ],
)
def test_the_impossible_raises_with_the_events_before(event: Event) -> None:
    coordinator = started()
    play(coordinator, Tick(10 * MS))
    with pytest.raises(BugError) as raised:
        coordinator.on(event)
    assert any("InjectBarrier(epoch=1" in note for note in raised.value.__notes__)


def test_every_state_has_a_row_and_every_state_but_the_first_is_reached() -> None:
    assert TRANSITIONS.keys() == set(CheckpointState)
    reached = {state for row in TRANSITIONS.values() for follows in row.values() for state in follows}
    assert reached == set(CheckpointState)


def act(world: World, action: int, choice: int) -> None:
    """Let one thing happen that can happen at any time."""
    member = world.members[choice % len(world.members)]
    match action:
        case 0:
            world.tick((1, 10, 50, 100)[choice % 4])
        case 1 | 2 | 3:
            for item in world.members[choice % len(world.members) :]:
                world.step(item)
        case 4 | 5:
            world.deliver(choice)
        case 6:
            world.repeat(choice)
        case 7 | 8:
            world.answer(True)
        case 9:
            world.answer(choice % 3 > 0)
        case 10:
            world.restart()
        case 11:
            world.fail(member)
        case 12:
            for item in world.members if choice % 3 == 0 else [member]:
                world.end(item)
        case 13:
            world.request((Requested(), Requested("s"), Requested(then_stop=True), DrainRequested())[choice % 4])
        case 14:
            if choice % 4 == 0:
                world.crash(manifest_got_there=choice % 8 == 0)
        case _:
            world.go_on()


ACTIONS = st.lists(st.tuples(st.integers(0, 29), st.integers(0, 39)), max_size=60)


@settings(max_examples=400)
@given(ACTIONS)
def test_in_any_order_of_events_nothing_is_published_or_committed_too_early(actions: Sequence[tuple[int, int]]) -> None:
    world = World()
    for action, choice in actions:
        act(world, action, choice)
    world.finish_fairly()
    assert world.stop is not None


def test_no_barrier_is_sent_while_barriers_are_held() -> None:
    coordinator = started()
    assert play(coordinator, BarriersHeld(True), Requested(), Tick(10**12)) == []
    assert coordinator.due_ns() is None
    commands = play(coordinator, BarriersHeld(False), Tick(10**12))
    assert [type(command) for command in commands] == [InjectBarrier]


def test_a_barrier_that_is_under_way_may_come_to_its_end_while_barriers_are_held() -> None:
    coordinator = started()
    play(coordinator, Requested(), Tick(10**12), BarriersHeld(True))
    assert [type(command) for command in play(coordinator, *acks(1))] == [StartUpload]


def test_the_last_checkpoint_of_a_job_that_has_ended_needs_no_barrier() -> None:
    coordinator = started()
    ended = [InstanceEnded(name, 1, 0) for name in sorted(BOTH)]
    commands = play(coordinator, BarriersHeld(True), *ended, Tick(10**12))
    assert [type(command) for command in commands] == [StartUpload]
