"""Task managers that were told to end go behind a checkpoint, and one at a time or all together."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.departures import SETTLE_NS, Checkpoint, Departures, Release, Restart, Step
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.executors.managers.pool import LEAVE_BEHIND_CHECKPOINT_NS, LEAVE_NS, LOOK_NS
from penstock.engine.jobs.attempt import Struck
from penstock.engine.jobs.restart_policy import RestartPolicy
from penstock.model.config import RestartOptions
from penstock.model.errors import RetryableError, WorkerLeftError, WorkerLostError
from tests.engine.executors.managers.scripted_managers import Scene, obey
from tests.engine.support import ManualClock


def look(departures: Departures, hosting: Sequence[str], begun: int, committed: int, since_ns: int) -> list[Step]:
    return departures.look({"tm-0": 1_000}, hosting, begun, committed, 1_000 + since_ns)


def test_one_that_hosts_nothing_goes_at_once() -> None:
    assert look(Departures(), ["tm-1"], 3, 3, 0) == [Release("tm-0")]


def test_one_with_instances_goes_behind_a_checkpoint_that_began_since() -> None:
    departures, both = Departures(), ["tm-0", "tm-1"]
    # The head may have been told as well.
    assert look(departures, both, 3, 3, SETTLE_NS - 1) == []
    assert look(departures, both, 4, 3, SETTLE_NS) == [Checkpoint("tm-0")]
    # That which was in flight when it was told is not the one.
    assert look(departures, both, 5, 4, SETTLE_NS) == []
    assert look(departures, both, 5, 5, SETTLE_NS) == [Restart("tm-0")]
    assert look(departures, both, 6, 6, SETTLE_NS) == []
    assert look(departures, ["tm-1"], 6, 6, SETTLE_NS) == [Release("tm-0")]


def test_several_have_a_checkpoint_in_common() -> None:
    departures = Departures()
    told = {"tm-0": 0, "tm-1": 0}
    assert len(departures.look(told, list(told), 1, 1, SETTLE_NS)) == 2
    assert departures.look(told, list(told), 2, 2, SETTLE_NS) == [Restart("tm-0"), Restart("tm-1")]


def test_to_go_as_told_is_no_failure() -> None:
    policy = RestartPolicy(RestartOptions(attempts=1))
    assert [policy.failed(0, WorkerLeftError("it leaves")) for _ in range(3)] == [0, 0, 0]
    assert policy.failures == 0
    assert policy.failed(0, WorkerLostError("it is lost")) is not None and policy.failed(0) is None


class Told:
    """An attempt with checkpoints as a test says, whose first task manager is told to end."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.scene = Scene(folder, clock=self.clock, answer=self.answer)
        self.session = Mock(spec=CheckpointSession, stopped=None)
        self.session.take_failure.return_value = None
        self.session.due_ns.return_value = None
        self.commit(1)

    def answer(self, name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        if isinstance(order, ms.Leave):
            self.scene.launcher.end(name)
        return obey(name, order)

    def commit(self, epoch: int) -> None:
        self.session.begun = epoch
        self.session.committed_epoch = epoch

    def tell(self, attempt: ManagedAttempt) -> None:
        self.scene.launcher.managers["tm-0"].say(ms.LeaveAsked())
        self.go_on(attempt)
        while not self.scene.head.pool.leaving():
            self.go_on(attempt)

    def go_on(self, attempt: ManagedAttempt, passed_ns: int = 0) -> Struck | None:
        self.clock.advance_ns(passed_ns)
        looks = iter([False, False, True])
        return attempt.proceed(lambda: next(looks), 0, None)


def test_what_it_hosts_is_struck_behind_the_checkpoint_and_it_goes_once_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(tmp_path, monkeypatch)
    with told.scene.head as head:
        attempt = told.scene.attempt(told.session)
        told.tell(attempt)
        assert list(head.pool.live()) == ["tm-1"]
        told.session.request.assert_not_called()
        assert told.go_on(attempt, SETTLE_NS) is None
        told.session.request.assert_called_once_with()
        # A checkpoint may take longer than the wait for a head that is told as well.
        assert told.go_on(attempt, LEAVE_NS) is None and head.pool.has("tm-0")
        told.commit(2)
        struck = told.go_on(attempt)
        assert struck is not None and isinstance(struck.error, WorkerLeftError)
        assert str(struck.error) == "task manager 'tm-0' leaves, as it was told to end"
        attempt.take_down(None, struck.error)
        heard = told.scene.launcher.managers["tm-0"].heard
        told.scene.attempt(told.session).take_down(None, struck.error)
        assert any(isinstance(order, ms.Leave) for order in heard)
        assert not any(isinstance(order, ms.Deploy) and order.attempt > 1 for order in heard)


def test_one_whose_checkpoint_does_not_come_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    with told.scene.head as head:
        attempt = told.scene.attempt(told.session)
        told.tell(attempt)
        told.go_on(attempt, SETTLE_NS)
        struck = told.go_on(attempt, LEAVE_BEHIND_CHECKPOINT_NS + LOOK_NS)
        assert struck is not None and "is lost: it was told to end (SIGTERM)" in str(struck.error)
        assert not head.pool.has("tm-0")
        attempt.take_down(None, struck.error)


def test_nothing_moves_while_the_job_ends_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    with told.scene.head as head:
        attempt = told.scene.attempt(told.session)
        told.tell(attempt)
        attempt.stop()
        told.go_on(attempt)
        assert head.pool.leaving() == {} and set(head.pool.live()) == {"tm-0", "tm-1"}
        told.go_on(attempt, 100 * SETTLE_NS)
        attempt.take_down(None, RetryableError("over"))
