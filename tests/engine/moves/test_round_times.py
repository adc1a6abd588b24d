"""A long move and checkpoints let each other through: both coordinators, and any order of what happens."""

import random
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.checkpoint import events as ce
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.states import TRAVELLING
from penstock.engine.moves import move_events as me
from penstock.engine.moves.move_coordinator import MoveCoordinator
from penstock.engine.moves.round_times import MOST_REST_NS, may_begin, rest_ns
from penstock.model.config import CheckpointOptions
from penstock.model.ids import TaskId

TASK = TaskId(1)
NAMES = frozenset({"source[0]", "keyed[0]", "keyed[1]"})
ROUNDS = 12


class Both:
    """A job that takes checkpoints, and moves something without an end, in rounds."""

    def __init__(self, interval_ms: int) -> None:
        options = CheckpointOptions(interval_ms=interval_ms, timeout_ms=10**9, directory="somewhere")
        self.checkpoints = CheckpointCoordinator(options)
        self.moves = MoveCoordinator()
        self.now_ns = 0
        self.answers: deque[ce.Event] = deque()
        self.due_answers: deque[me.MoveEvent] = deque()
        self.begun_at_round: list[int] = []
        self.begun = self.committed = 0
        self.begun_ns: list[int] = []
        self.checkpoint(ce.Started(0, 1, NAMES, frozenset({"source[0]"})))

    def checkpoint(self, event: ce.Event) -> None:
        for command in self.checkpoints.on(event):
            match command:
                case ce.InjectBarrier():
                    assert self.moves.moving is None
                    self.begun += 1
                    self.begun_ns.append(self.now_ns)
                    self.answers += [ce.InstanceSnapshotted(name, 1, command.epoch) for name in sorted(NAMES)]
                case ce.StartUpload():
                    self.answers.append(ce.UploadFinished(command.epoch))
                case ce.Publish():
                    self.answers.append(ce.Published(command.epoch))
                case ce.CommitSinks():
                    self.answers.append(ce.Committed(command.epoch, 1))
                case ce.RetainCheckpoints():
                    self.committed += 1
                case _:
                    raise AssertionError(f"{command} was not to be expected")

    def is_pressing(self) -> bool:
        pressing_ns = self.checkpoints.pressing_ns()
        return pressing_ns is not None and pressing_ns <= self.now_ns

    def move(self, event: me.MoveEvent) -> None:
        for command in self.moves.on(event):
            match command:
                case me.HoldBarriers() | me.LetBarriersGo():
                    self.checkpoint(ce.BarriersHeld(isinstance(command, me.HoldBarriers)))
                case me.SendMarkers():
                    assert self.checkpoints.state not in TRAVELLING
                    said = command.reroute.move, "keyed", 0, 1
                    self.due_answers += [me.MarkersSent(said[0], 1), me.StateGiven(*said), me.StateInstalled(*said)]
                case me.MoveDone():
                    self.go_on()

    def look(self) -> None:
        """Let the job do what a turn of its head does, in the same order."""
        self.checkpoint(ce.Tick(self.now_ns))
        if self.moves.moving is None:
            self.go_on()

    def go_on(self) -> None:
        """Begin the next round, if there is one and it may."""
        if len(self.begun_at_round) == ROUNDS:
            return
        before = self.begun_at_round[-1] if self.begun_at_round else 0
        pressing, travelling = self.is_pressing(), self.checkpoints.state in TRAVELLING
        if may_begin(travelling=travelling, pressing=pressing, let_through=self.begun > before):
            # One that was pressing when the round before ended has begun since.
            assert not pressing or self.begun > before
            self.begun_at_round.append(self.begun)
            self.move(me.MoveWanted(TASK, ((len(self.begun_at_round) % 8, 0, 1),), ((TASK, "keyed"),)))


@given(st.integers(1, 20), st.integers(0, 1 << 32))
def test_no_epoch_is_given_up_and_neither_starves_the_other(interval_ms: int, seed: int) -> None:
    both, dice = Both(interval_ms), random.Random(seed)
    while len(both.begun_at_round) < ROUNDS:
        choices = ["time"]
        choices += ["checkpoint"] if both.answers else []
        choices += ["move"] if both.due_answers else []
        match dice.choice(choices):
            case "time":
                both.now_ns += dice.randint(1, 10) * 1_000_000
            case "checkpoint":
                both.checkpoint(both.answers.popleft())
            case "move":
                both.move(both.due_answers.popleft())
        both.look()
    assert both.checkpoints.statistics().aborted == 0
    between = [after - before for before, after in zip(both.begun_at_round, both.begun_at_round[1:], strict=False)]
    assert max(between) <= 1


def test_a_checkpoint_goes_between_every_two_rounds_of_a_move_that_is_slower_than_its_interval() -> None:
    both = Both(interval_ms=10)
    while len(both.begun_at_round) < ROUNDS:
        if both.answers:
            both.checkpoint(both.answers.popleft())
        elif both.due_answers:
            both.now_ns += 30_000_000
            both.move(both.due_answers.popleft())
        both.look()
    assert both.begun_at_round == list(range(ROUNDS))
    assert both.committed >= ROUNDS - 2


def test_rounds_that_are_quick_put_a_checkpoint_off_by_an_interval_at_most() -> None:
    interval_ms, round_ms = 50, 12
    both = Both(interval_ms)
    while len(both.begun_at_round) < ROUNDS or both.due_answers:
        if both.answers:
            both.checkpoint(both.answers.popleft())
        elif both.due_answers:
            both.now_ns += round_ms * 1_000_000 // 3
            both.move(both.due_answers.popleft())
        both.look()
    # The first is due after an interval, and goes when it has been due for another.
    assert 2 * interval_ms <= both.begun_ns[0] / 1e6 <= 2 * interval_ms + round_ms


def test_a_savepoint_is_not_put_off() -> None:
    both = Both(interval_ms=1_000)
    both.look()
    both.checkpoint(ce.Requested("soon", then_stop=False))
    while both.due_answers:
        both.move(both.due_answers.popleft())
    assert both.is_pressing() and len(both.begun_at_round) == 1
    both.look()
    assert both.begun == 1


@given(st.integers(0, 60_000_000_000))
def test_others_have_the_cores_behind_a_round_for_as_long_as_it_took_or_a_second(round_ns: int) -> None:
    assert rest_ns(round_ns) == min(round_ns, MOST_REST_NS)
    assert MOST_REST_NS == 1_000_000_000
