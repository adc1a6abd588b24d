"""Failpoints armed by the environment."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.engine.core.failpoint_settings import (
    ONCE,
    VARIABLE,
    ArmedPoints,
    FailpointSetting,
    arm_from,
    parse_settings,
)
from penstock.model import failpoints
from penstock.model.errors import OptionError, RetryableError
from penstock.model.failpoint_names import MEANINGS

POINT = "job.loaded"


def test_settings_are_read() -> None:
    assert parse_settings("job.loaded:2, sink.clear:1:raise,sink.clear:3:say") == (
        FailpointSetting("job.loaded", 2),
        FailpointSetting("sink.clear", 1, "raise"),
        FailpointSetting("sink.clear", 3, "say"),
    )


def test_settings_are_written_as_they_are_read() -> None:
    settings = (
        FailpointSetting("job.loaded", 2),
        FailpointSetting("sink.clear", 1, "raise"),
        FailpointSetting("sink.clear", 1, "kill", "tm-3"),
    )
    assert parse_settings(",".join(map(str, settings))) == settings


@pytest.mark.parametrize("text", ["job.loaded", "job.loaded:0", "job.loaded:x", "job.loaded:1:fly", "job.loaded:1:"])
def test_another_form_is_refused(text: str) -> None:
    if text.endswith(":"):
        assert parse_settings(text) == (FailpointSetting(POINT, 1),)
        return
    with pytest.raises(OptionError, match="NAME:NTH"):
        parse_settings(text)


def test_a_name_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"did you mean job\.loaded\?"):
        parse_settings("job.loadd:1")


def test_the_nth_passing_raises_and_no_other() -> None:
    armed = ArmedPoints((FailpointSetting(POINT, 2, "raise"),))
    armed(POINT)
    armed("sink.clear")
    with pytest.raises(RetryableError, match=VARIABLE):
        armed(POINT)
    armed(POINT)


def test_nothing_is_armed_when_the_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(action: object) -> None:
        raise AssertionError("armed")

    monkeypatch.setattr("penstock.engine.core.failpoint_settings.arm", refuse)
    arm_from({})
    arm_from({VARIABLE: ""})


def test_the_counts_go_on_in_a_second_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.core.failpoint_settings._armed_with", "")
    try:
        arm_from({VARIABLE: f"{POINT}:2:raise"})
        failpoints.failpoint(POINT)
        arm_from({VARIABLE: f"{POINT}:2:raise"})
        with pytest.raises(RetryableError):
            failpoints.failpoint(POINT)
    finally:
        failpoints.arm(None)


def raising(text: str, manager: str, once: str = "") -> bool:
    """Return whether a process arms and fails at the point."""
    arm_from({VARIABLE: text, ONCE: once}, manager)
    try:
        failpoints.failpoint(POINT)
    except RetryableError:
        return True
    return False


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Give what makes this a process that has armed nothing."""

    def begin() -> None:
        monkeypatch.setattr("penstock.engine.core.failpoint_settings._armed_with", "")
        failpoints.arm(None)

    begin()
    yield begin
    failpoints.arm(None)


def test_a_point_is_for_one_process(fresh: Callable[[], None]) -> None:
    striking = set()
    for setting in (f"{POINT}:1:raise", f"tm-1/{POINT}:1:raise", f"tm-*/{POINT}:1:raise", f"head/{POINT}:1:raise"):
        for manager in ("", "tm-0", "tm-1", "head"):
            fresh()
            if raising(setting, manager):
                striking.add((setting.partition(POINT)[0], manager))
    assert striking == {("", ""), ("tm-1/", "tm-1"), ("tm-*/", "tm-0"), ("tm-*/", "tm-1"), ("head/", "head")}


def test_one_task_manager_only_fails_at_a_point_that_strikes_once(tmp_path: Path, fresh: Callable[[], None]) -> None:
    struck = []
    for manager in ("tm-0", "tm-1", "tm-2"):
        fresh()
        struck.append(raising(f"tm-*/{POINT}:1:raise", manager, str(tmp_path)))
    assert struck == [True, False, False]
    assert [path.name for path in tmp_path.iterdir()] == [POINT]


def test_a_head_actor_that_follows_one_which_died_at_a_point_passes_it(
    tmp_path: Path, fresh: Callable[[], None]
) -> None:
    struck = []
    for _ in range(2):
        fresh()
        struck.append(raising(f"head/{POINT}:1:raise", "head", str(tmp_path)))
    assert struck == [True, False]


def test_all_failpoints_are_listed() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", "failpoints", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == dict(MEANINGS)
