"""Rounds of a move as the head carries them out, with task managers and a clock as a test says."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

from penstock.engine.checkpoint import events as ev
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.executors.managers.managed_moves import ROUND_NS
from penstock.engine.jobs.attempt import Struck
from penstock.engine.moves.live_changes import live_change
from penstock.engine.moves.movable import is_source, refusal
from penstock.engine.moves.move_orders import AskedMove, MoveOrder
from penstock.engine.plan.recut import recut
from penstock.model.config import CheckpointOptions
from penstock.model.errors import RetryableError, WorkerLostError
from tests.engine.executors.managers.scripted_managers import Scene, obey
from tests.engine.support import ManualClock


class Rounds:
    """An attempt whose task managers do what a round asks for, or nothing at all."""

    def __init__(self, folder: Path, *, silent: bool = False) -> None:
        self.clock = ManualClock()
        self.silent = silent
        self.rounds = 0
        self.over: list[int] = []
        self.unanswered: dict[str, ms.SendMarkers] = {}
        self.scene = Scene(folder, clock=self.clock, answer=self.answer)
        coordinator = CheckpointCoordinator(CheckpointOptions(interval_ms=10_000, directory="somewhere"))
        self.session = Mock(spec=CheckpointSession, stopped=None, coordinator=coordinator, begun=0, committed_epoch=0)
        self.session.take_failure.return_value = None
        self.session.due_ns.side_effect = coordinator.due_ns
        self.session.hold_barriers.side_effect = lambda *, held: coordinator.on(ev.BarriersHeld(held))
        coordinator.on(ev.Started(0, 1, frozenset({"a", "b"}), frozenset({"a"})))
        self.coordinator = coordinator

    def answer(self, name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        if isinstance(order, ms.RoundOver) and name == "tm-0":
            self.over.append(order.move)
        if not isinstance(order, ms.SendMarkers):
            return obey(name, order)
        if self.silent:
            self.unanswered[name] = order
            return []
        return self.done(name, order)

    def done(self, name: str, order: ms.SendMarkers) -> Sequence[ms.ToHead]:
        """Return what a task manager says that has done a round."""
        said: list[ms.ToHead] = [ms.MarkersSent(order.move, 1)]
        if name == "tm-0":
            self.rounds += 1
            ((giver, taker),) = {(giver, taker) for _, giver, taker in order.groups}
            said.append(ms.StateGiven(order.move, self.task, giver, taker, 1_000))
            said.append(ms.StateInstalled(order.move, self.task, giver, taker, 1, 5_000_000))
        return said

    def end_round(self, attempt: ManagedAttempt, took_ns: int) -> None:
        """Let the round under way end once it has taken so long, with managers that are silent."""
        before = len(self.over)
        while len(self.unanswered) < 2:
            assert self.go_on(attempt) is None
        self.clock.advance_ns(took_ns)
        orders, self.unanswered = self.unanswered, {}
        for name, order in orders.items():
            for message in self.done(name, order):
                self.scene.launcher.managers[name].say(message)
        while len(self.over) == before:
            assert self.go_on(attempt) is None

    def ask(self, attempt: ManagedAttempt) -> AskedMove:
        graph, places = attempt.graph, attempt.places()
        moving = [task for task in graph.tasks if refusal(graph, task.id) is None and not is_source(graph, task)]
        (self.task,) = map(graph.name, moving)
        name = next(name for task in moving for name in graph.instances(task) if places[name] == "tm-0")
        return attempt._moving._moves._orders.ask(MoveOrder(name, "tm-1"))

    def go_on(self, attempt: ManagedAttempt, passed_ns: int = 0) -> Struck | None:
        self.clock.advance_ns(passed_ns)
        looks = iter([False, False, True])
        return attempt.proceed(lambda: next(looks), 0, None)


def test_a_round_that_does_not_end_strikes_its_task_after_a_minute_and_the_order_fails(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path, silent=True)
    with rounds.scene.head:
        attempt = rounds.scene.attempt(rounds.session)
        asked = rounds.ask(attempt)
        assert rounds.go_on(attempt) is None
        assert rounds.go_on(attempt, ROUND_NS - 1) is None
        struck = rounds.go_on(attempt, 1)
        assert struck is not None and struck.tasks is not None and isinstance(struck.error, WorkerLostError)
        assert str(struck.error) == "move 1 has not ended within 60 s"
        attempt.take_down(None, struck.error)
        error = asked.answer.exception(0)
        assert isinstance(error, RetryableError) and "has not ended within 60 s" in str(error)
        rounds.session.hold_barriers.assert_called_with(held=False)


def test_a_checkpoint_that_has_been_due_for_an_interval_goes_between_two_rounds(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path, silent=True)
    with rounds.scene.head:
        attempt = rounds.scene.attempt(rounds.session)
        asked = rounds.ask(attempt)
        # It has been due for an interval by the time that the first round is over.
        rounds.end_round(attempt, 21_000_000_000)
        rounds.silent = False
        for _ in range(5):
            rounds.go_on(attempt)
        assert rounds.rounds == 1 and not asked.answer.done()
        (inject,) = rounds.coordinator.on(ev.Tick(rounds.clock.monotonic_ns()))
        assert isinstance(inject, ev.InjectBarrier)
        rounds.session.begun = inject.epoch
        for _ in range(5):
            rounds.go_on(attempt)
        assert rounds.rounds == 1
        for name in ("a", "b"):
            rounds.coordinator.on(ev.InstanceSnapshotted(name, 1, inject.epoch))
        rounds.coordinator.on(ev.UploadFinished(inject.epoch))
        # The answer may be there before a task manager's thread has taken the word that the last round is over.
        while not asked.answer.done() or len(rounds.over) < rounds.rounds:
            assert rounds.go_on(attempt) is None
        summary = asked.answer.result()
        assert summary.checkpoints == 1 and summary.rounds == rounds.rounds == len(rounds.over)
        assert summary.pause_ms == (5.0, 5.0) and summary.buckets == summary.rounds
        attempt.take_down(None, RetryableError("over"))


def test_one_that_is_only_due_waits_for_the_move(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path)
    with rounds.scene.head:
        attempt = rounds.scene.attempt(rounds.session)
        rounds.clock.advance_ns(11_000_000_000)
        asked = rounds.ask(attempt)
        while not asked.answer.done():
            assert rounds.go_on(attempt) is None
        assert asked.answer.result().checkpoints == 0 and rounds.rounds > 1
        (inject,) = rounds.coordinator.on(ev.Tick(rounds.clock.monotonic_ns()))
        assert isinstance(inject, ev.InjectBarrier)
        attempt.take_down(None, RetryableError("over"))


def test_behind_a_round_nothing_moves_and_no_checkpoint_begins_for_as_long_as_it_took(tmp_path: Path) -> None:
    rounds, round_ns = Rounds(tmp_path, silent=True), 40_000_000
    with rounds.scene.head:
        attempt = rounds.scene.attempt(rounds.session)
        rounds.clock.advance_ns(11_000_000_000)
        rounds.ask(attempt)
        rounds.end_round(attempt, round_ns)
        over_ns = rounds.clock.monotonic_ns()
        assert rounds.go_on(attempt, round_ns - 1) is None
        assert attempt._moving.due_ns == over_ns + round_ns
        assert not rounds.unanswered and not rounds.coordinator.on(ev.Tick(rounds.clock.monotonic_ns()))
        assert rounds.go_on(attempt, 1) is None
        while len(rounds.unanswered) < 2:
            assert rounds.go_on(attempt) is None
        assert {order.move for order in rounds.unanswered.values()} == {2}
        attempt.take_down(None, RetryableError("over"))


def test_one_that_fails_between_two_rounds_lets_barriers_go(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path, silent=True)
    with rounds.scene.head:
        attempt = rounds.scene.attempt(rounds.session)
        asked = rounds.ask(attempt)
        rounds.end_round(attempt, 40_000_000)
        rounds.session.hold_barriers.assert_called_with(held=True)
        attempt.take_down(None, RetryableError("over"))
        rounds.session.hold_barriers.assert_called_with(held=False)
        assert isinstance(asked.answer.exception(0), RetryableError)
        assert attempt._moving.due_ns is None


def test_instances_that_come_behind_a_move_are_built_while_barriers_are_held(tmp_path: Path) -> None:
    """The move that is under way when they are asked for lets barriers go as it ends."""
    rounds = Rounds(tmp_path)
    with rounds.scene.head:
        attempt = rounds.scene.attempt(rounds.session)
        asked = rounds.ask(attempt)
        assert rounds.go_on(attempt) is None
        graph = attempt.graph
        (task,) = [task for task in graph.tasks if graph.name(task) == rounds.task]
        wanted = dict.fromkeys((graph.node(each).name for each in task.operators), task.parallelism + 1)
        attempt._moving.begin(live_change(graph, recut(graph, wanted, 128)), lambda done: None)
        while not asked.answer.done():
            assert rounds.go_on(attempt) is None
        while not rounds.session.widen_sinks.called:
            assert rounds.go_on(attempt) is None
        rounds.session.hold_barriers.assert_called_with(held=True)
        assert not rounds.coordinator.on(ev.Tick(rounds.clock.monotonic_ns() + 60_000_000_000))
        attempt.take_down(None, RetryableError("over"))
        rounds.session.hold_barriers.assert_called_with(held=False)
