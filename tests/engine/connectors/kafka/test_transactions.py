"""Exactly once is decided by markers: crashes, lost answers and zombies at every point, against a model of a broker."""

import gc
from collections.abc import Iterator
from functools import partial
from random import Random

import pytest

from penstock.engine.connectors.kafka.receipts import Marker, Receipt
from penstock.engine.connectors.kafka.settlement import settle
from penstock.engine.connectors.kafka.transactions import (
    TRIES,
    Broke,
    Commit,
    Committed,
    Fenced,
    Found,
    GiveUp,
    Look,
    Open,
    Opened,
    ProducerState,
    Publish,
    Rest,
    Send,
    Sent,
    Take,
    TransactionalId,
)
from penstock.model.errors import BugError, FatalError, FencedError, PenstockError, RetryableError
from penstock.model.failpoints import arm
from tests.engine.connectors.kafka.broker_model import Death, Process, World, failed, finish

# A process that dies closes nothing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KINDS = ("before", "after")


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)
    gc.collect()


def die_at(step: int) -> None:
    passed = [0]

    def pass_by(name: str) -> None:
        passed[0] += 1
        if passed[0] > step:
            raise Death

    arm(pass_by)


def faults(draw: Random, share: float) -> list[str]:
    """Whether and how each of the next calls fails."""
    return [draw.choice(KINDS) if draw.random() < share else "no" for _ in range(60)]


@pytest.mark.parametrize("seed", range(60))
def test_no_crash_and_no_lost_answer_loses_or_repeats(seed: int) -> None:
    """One life of a job after the other, each with its parallelism, lost answers and a death at some point."""
    draw = Random(seed)
    world = World()
    for _ in range(draw.randrange(8)):
        world.broker.faults[:] = faults(draw, draw.choice([0.0, 0.1, 0.3]))
        process = Process(world, draw.randint(1, 3))
        die_at(draw.randrange(80))
        try:
            for _ in range(draw.randrange(1, 30)):
                error = failed(partial(process.step, draw.randrange(5)))
                if error is not None:
                    assert isinstance(error, RetryableError), error
                    break
        except Death:
            pass
        arm(None)
    end = finish(world)
    assert sorted(world.broker.values) == list(range(end))


@pytest.mark.parametrize("seed", range(100))
def test_processes_at_the_same_time_are_told_and_nothing_is_silently_wrong(seed: int) -> None:
    """Several starts of one job share checkpoints and ids; each works on until it notices."""
    draw = Random(seed)
    world = World()
    processes: list[Process] = []
    for _ in range(draw.randrange(10, 80)):
        # Two that begin anew at the same time are two jobs: what the first has published stays.
        if not processes or (world.checkpoints and len(processes) < 3 and draw.random() < 0.15):
            processes.append(Process(world, draw.randint(1, 3)))
        process = draw.choice(processes)
        world.broker.faults[:] = faults(draw, draw.choice([0.0, 0.0, 0.3]))
        if failed(partial(process.step, draw.randrange(1, 4))) is not None:
            processes.remove(process)
    try:
        end = finish(world)
    except FatalError as error:
        assert "--accept-duplicates" in str(error) or "is gone" in str(error)
        end = finish(world, accept=True)
        assert set(world.broker.values) <= set(range(end))
    else:
        assert sorted(world.broker.values) == list(range(end))


def test_a_zombie_is_told_and_writes_nothing() -> None:
    world = World()
    first = Process(world, 2)
    for _ in range(4):
        first.step(3)
    second = Process(world, 1)
    second.step(0)
    for _ in range(3):
        second.step(3)
    published = list(world.broker.values)
    with pytest.raises(FencedError, match=r"another run has taken over: .*'id-0' was taken over by"):
        first.step(0)
    assert world.broker.values == published
    second.step(0)
    assert sorted(world.broker.values) == list(range(6))


def test_an_older_checkpoint_is_refused_unless_duplicates_are_accepted() -> None:
    world = World()
    process = Process(world, 3)
    for _ in range(9):
        process.step(3)
    assert sorted(world.broker.values) == list(range(6))
    with pytest.raises(FatalError, match=r"up to checkpoint 2 is published .* --accept-duplicates"):
        Process(world, 1, epoch=1).step(0)
    # Nobody who is refused has disturbed anything.
    assert finish(world) == 9 and sorted(world.broker.values) == list(range(9))
    again = Process(world, 1, epoch=1, accept=True)
    for _ in range(5):
        again.step(3)
    assert set(world.broker.values) == set(range(9))
    # From here on nothing comes twice again.
    before = len(world.broker.values)
    del world.checkpoints[2], world.checkpoints[3]
    assert finish(world) > 0 and len(world.broker.values) > before


@pytest.mark.parametrize(
    ("marker", "says"),
    [
        (None, "is missing"),
        (Marker("other", 9, "other"), "used by another run"),
        (Marker("run", 4, "other"), "used by another run"),
        (Marker("run", 6, "start"), "published .* already"),
    ],
)
def test_what_cannot_be_told_is_refused(marker: Marker | None, says: str) -> None:
    receipts = [Receipt("run", "start", "id-0", 5, 7, "file", 1, "digest")]
    with pytest.raises(FatalError, match=says):
        settle(5, receipts, {"id-0": marker}, start="new")
    accepted = settle(5, receipts, {"id-0": marker}, start="new", accept_duplicates=True)
    assert accepted.claim == Marker("new", 5, "new") and accepted.doubts == ("id-0",)
    # What is not kept any more was published.
    assert accepted.publishes["id-0"] == Publish(accepted.claim, tuple(receipts), claim=True, may_be_gone=True)


@pytest.mark.parametrize("marker", [None, Marker("old", 5, "old"), Marker("old", 0, "old")])
def test_a_sink_that_a_checkpoint_does_not_know_begins_behind_it(marker: Marker | None) -> None:
    settled = settle(5, [], {"id-0": marker}, start="new")
    # It has published nothing, so an older checkpoint may still be restored.
    assert settled.claim == Marker("new", 0, "new") and settled.doubts == ()
    assert settled.publishes == {"id-0": Publish(settled.claim, claim=True)}


def test_a_sink_that_has_published_behind_a_checkpoint_that_does_not_know_it_is_refused() -> None:
    markers = {"id-0": Marker("run", 6, "start"), "id-1": None}
    with pytest.raises(FatalError, match=r"up to checkpoint 6 is published .*'id-0' already, and checkpoint 5, which"):
        settle(5, [], markers, start="new")
    accepted = settle(5, [], markers, start="new", accept_duplicates=True)
    assert accepted.claim == Marker("new", 0, "new") and accepted.doubts == ("id-0",)
    assert settle(None, [], markers, start="new").doubts == ()


def test_an_id_that_is_new_needs_no_marker() -> None:
    receipts = [Receipt("run", "start", "id-0", 5, 7, "file", 1, "digest")]
    markers = {"id-0": Marker("run", 5, "start"), "id-1": None, "id-2": Marker("old", 99, "old")}
    settled = settle(5, receipts, markers, start="new")
    assert settled.claim == Marker("run", 5, "new")
    for publish in settled.publishes.values():
        assert publish.marker == settled.claim and publish.claim and publish.receipts == ()


def taken(marker: Marker | None) -> TransactionalId:
    machine = TransactionalId("id")
    assert machine.on(Take()) == Open()
    assert machine.on(Opened()) == Look()
    assert machine.on(Found(marker)) == Rest()
    return machine


BEFORE, AFTER = Marker("run", 1, "s"), Marker("run", 2, "s")


def test_an_unknown_outcome_is_looked_up_with_another_producer() -> None:
    for found, then in ((AFTER, Rest()), (BEFORE, Send(Publish(AFTER)))):
        machine = taken(BEFORE)
        assert machine.on(Publish(AFTER)) == Send(Publish(AFTER))
        assert machine.on(Sent()) == Commit()
        assert machine.on(Broke("timed out")) == Open()
        assert machine.on(Opened()) == Look()
        assert machine.on(Found(found)) == then


def test_who_is_fenced_looks_who_has_written_before_it_opens_again() -> None:
    machine = taken(BEFORE)
    machine.on(Publish(AFTER))
    assert machine.on(Fenced()) == Look()
    assert machine.on(Found(BEFORE)) == Open()
    machine.on(Opened())
    assert machine.on(Found(BEFORE)) == Send(Publish(AFTER))
    assert machine.on(Fenced()) == Look()
    command = machine.on(Found(Marker("run", 1, "another")))
    assert isinstance(command, GiveUp) and isinstance(command.error, FatalError)
    assert machine.state is ProducerState.LOST


def test_a_broker_that_lost_a_commit_is_named_and_nobody_else_blamed() -> None:
    machine = taken(BEFORE)
    machine.on(Publish(AFTER))
    machine.on(Sent())
    assert machine.on(Committed()) == Rest()
    machine.on(Publish(Marker("run", 3, AFTER.start)))
    machine.on(Broke("timed out"))
    machine.on(Opened())
    command = machine.on(Found(Marker("run", 1, AFTER.start)))
    assert isinstance(command, GiveUp) and machine.state is ProducerState.DOWN
    said = f"the output up to checkpoint {AFTER.epoch} is committed .* says so up to 1 only: the broker lost a commit"
    with pytest.raises(FatalError, match=said):
        raise command.error


def test_a_start_that_is_overtaken_may_try_again() -> None:
    machine = taken(BEFORE)
    machine.on(Publish(AFTER, claim=True))
    machine.on(Fenced())
    command = machine.on(Found(Marker("run", 1, "another")))
    assert isinstance(command, GiveUp) and isinstance(command.error, RetryableError)


def test_it_gives_up_after_some_tries() -> None:
    machine = taken(BEFORE)
    machine.on(Publish(AFTER))
    for _ in range(TRIES - 1):
        assert machine.on(Broke("no answer")) == Open()
    command = machine.on(Broke("no answer"))
    assert isinstance(command, GiveUp) and isinstance(command.error, RetryableError)
    # The same call may work later, and goes on from what was known.
    assert machine.on(Publish(AFTER)) == Open()


def test_the_impossible_is_a_bug() -> None:
    with pytest.raises(BugError, match=r"Committed cannot come in state READY"):
        taken(BEFORE).on(Committed())
    with pytest.raises(BugError, match=r"published again"):
        taken(BEFORE).on(Publish(BEFORE))
    with pytest.raises(BugError, match=r"never read"):
        TransactionalId("id").marker  # noqa: B018
    assert issubclass(BugError, PenstockError)
