"""An attempt on task managers: errors on its own side, and what is left of it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployment, Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.pool import News
from penstock.engine.executors.managers.task_manager import TaskManager
from penstock.engine.transport.meeting import MeetingPlace
from penstock.model.errors import RetryableError
from tests.engine.executors.managers.scripted_managers import Scene


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
    def fail(place: MeetingPlace, *arguments: object) -> None:
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
