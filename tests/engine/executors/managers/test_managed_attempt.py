"""An attempt on task managers: errors on its own side, and what is left of it."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.engine.checkpoint import events as ev
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.core.job_events import Stuck, TaskManagerJoined, TaskManagerLost, WellAgain
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployment, Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.executors.managers.pool_news import News
from penstock.engine.executors.managers.task_manager import TaskManager
from penstock.engine.transport.meeting import MeetingPlace
from penstock.model.errors import RetryableError
from tests.engine.executors.managers.scripted_managers import Scene, obey


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def test_an_error_of_the_head_strikes_the_job_which_may_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(head: Head) -> Iterator[News]:
        raise RetryableError("no descriptor is free")

    scene = Scene(tmp_path)
    with scene.head:
        attempt = scene.attempt()
        with monkeypatch.context() as patched:
            patched.setattr(Head, "news", fail)
            struck = attempt.proceed(lambda: False, None, None)
        assert struck is not None and struck.tasks is None
        assert str(struck.error) == "no descriptor is free"
        attempt.take_down(None, struck.error)


def test_an_attempt_that_cannot_be_started_leaves_no_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(deployments: Deployments, new: list[Deployment]) -> None:
        raise RetryableError("not now")

    scene = Scene(tmp_path)
    with scene.head:
        monkeypatch.setattr(Deployments, "start", fail)
        with pytest.raises(RetryableError, match="not now"):
            scene.attempt()
        for manager in scene.launcher.managers.values():
            assert isinstance(manager.heard[-1], ms.TakeDown)


def test_a_head_that_cannot_listen_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(place: MeetingPlace, *arguments: object, **options: object) -> None:
        raise OSError("no port is free")

    before = descriptors(), set(threading.enumerate())
    monkeypatch.setattr(MeetingPlace, "__init__", fail)
    with pytest.raises(OSError, match="no port"):
        Scene(tmp_path)
    assert (descriptors(), set(threading.enumerate())) == before


def test_what_is_left_is_closed_though_something_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = TaskManager.close

    def fail(manager: TaskManager) -> None:
        close(manager)
        raise OSError("cannot be closed")

    before = descriptors()
    monkeypatch.setattr(TaskManager, "close", fail)
    with pytest.raises(OSError, match="cannot be closed"):
        Scene(tmp_path).head.close()
    assert descriptors() == before


def test_what_becomes_of_task_managers_is_told(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    with scene.head:
        attempt = scene.attempt()
        assert set(attempt.places().values()) == {"tm-0", "tm-1"}
        assert set(scene.told) == {TaskManagerJoined("tm-0"), TaskManagerJoined("tm-1")}
        long_step = ms.StuckInStep("slow[0]", 60.0, "pipeline.py:3")
        scene.launcher.managers["tm-0"].say(long_step)
        run_until(attempt, lambda: Stuck in map(type, scene.told))
        stuck = next(event for event in scene.told if isinstance(event, Stuck))
        assert stuck.task_manager == "tm-0" and "slow[0], pipeline.py:3" in stuck.text
        scene.launcher.managers["tm-0"].say(ms.OutOfStep("slow[0]", 61.0))
        run_until(attempt, lambda: WellAgain in map(type, scene.told))
        scene.launcher.kill("tm-1")
        run_until(attempt, lambda: TaskManagerLost in map(type, scene.told))
        assert TaskManagerLost("tm-1", "it was killed") in scene.told
        run_until(attempt, lambda: TaskManagerJoined("tm-2") in scene.told)
        attempt.take_down(None, RetryableError("it is over"))


def run_until(attempt: ManagedAttempt, condition: Callable[[], bool]) -> None:
    """Let an attempt go on, whatever strikes it."""
    while not condition():
        attempt.proceed(condition, None, None)


@pytest.mark.parametrize("silent", [True, False])
def test_who_is_lost_behind_the_last_commit_takes_only_its_last_figures_along(tmp_path: Path, silent: bool) -> None:
    def answer(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
        if isinstance(order, ms.Finish) and name == "tm-0":
            if not silent:
                scene.launcher.managers[name].say(ms.Finished(None))
            scene.launcher.kill(name)
            return []
        return obey(name, order)

    session = Mock(spec=CheckpointSession)
    session.stopped, session.committed_epoch = None, 0
    session.take_failure.return_value = None

    def commit() -> None:
        """Commit the last checkpoint in the same turn in which the loss of a task manager is heard of."""
        scene.launcher.kill("tm-1")
        while scene.head.pool.has("tm-1"):
            attempt._take_news()
        session.stopped = ev.Stop(1, ended=True)

    session.turn.side_effect = commit
    scene = Scene(tmp_path, answer=answer)
    with scene.head:
        attempt = scene.attempt(session)
        assert attempt.proceed(lambda: False, None, None) is None
        attempt.finish()
        assert attempt.metrics().ledger.missing == (("tm-0", "tm-1") if silent else ("tm-1",))
