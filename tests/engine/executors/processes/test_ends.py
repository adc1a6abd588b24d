"""Nothing is left of task managers: they end with their head, however it ends, and with their launcher."""

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from penstock.engine.checkpoint.run_scratch import RunScratch
from tests.contracts.executors.metered import until
from tests.engine.executors.processes.started import WAIT_S, Started, have_ended, started, watched
from tests.long_cases import but_for

ROOT = Path(__file__).resolve().parents[4]
DEAF = "tests.engine.executors.processes.deaf_stand_in"

GONE_WITHIN_S = 5.0
"""How long a task manager may outlive its head."""


@contextmanager
def head(stdin: int = subprocess.PIPE, **plan: object) -> Iterator["subprocess.Popen[str]"]:
    """Run a head in a process of its own, and in a session if it has a terminal."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.engine.executors.processes.head", json.dumps(plan)],
        cwd=ROOT,
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session="terminal" in plan,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: "subprocess.Popen[str]") -> list[int]:
    assert process.stdout is not None
    return list(json.loads(process.stdout.readline()))


@pytest.mark.parametrize("words", [[], ["stop"], ["hold"]], ids=["well", "stopped", "holding the interpreter lock"])
def test_task_managers_end_when_their_head_is_killed(words: list[str]) -> None:
    with head(managers=[words, words]) as process, watched(line(process)) as processes:
        process.kill()
        assert have_ended(processes, GONE_WITHIN_S)


def test_task_managers_that_do_not_look_at_their_link_end_when_their_head_is_killed() -> None:
    with head(managers=[[], []], service=DEAF) as process, watched(line(process)) as processes:
        process.kill()
        assert have_ended(processes, GONE_WITHIN_S)


def test_a_task_manager_ends_when_its_link_is_closed_by_a_head_that_lives() -> None:
    with started("tm-0") as each:
        each.drop("tm-0")
        ended = each.launcher.ended("tm-0", WAIT_S)
        assert ended is not None and ended.startswith("it ended since it saw no head")


def test_a_process_that_begins_after_its_head_has_ended_ends_at_once(tmp_path: Path) -> None:
    # A Python that begins when the head is gone, which it sees nowhere but in the number of its parent.
    slow, gone = tmp_path / "python", tmp_path / "gone"
    slow.write_text(f'#!/bin/sh\nwhile [ ! -e {gone} ]; do :; done\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    with head(managers=[[]], service=DEAF, executable=str(slow)) as process, watched(line(process)) as processes:
        process.kill()
        process.wait()
        gone.touch()
        assert have_ended(processes, WAIT_S)


def test_ctrl_c_at_the_terminal_reaches_the_head_alone() -> None:
    terminal, other_end = pty.openpty()
    try:
        managers = [["record interrupts"], ["record interrupts"]]
        with head(other_end, managers=managers, terminal=True) as process, watched(line(process)) as processes:
            os.write(terminal, b"\x03")
            assert line(process) == [0, 0]
            assert process.wait(WAIT_S) == 0
            assert have_ended(processes, WAIT_S)
    finally:
        os.close(terminal)
        os.close(other_end)


def test_folders_of_killed_task_managers_are_swept_by_the_next_one(tmp_path: Path) -> None:
    words = ["scratch", str(tmp_path)]
    with head(managers=[words, words, ["stop"]]) as process, watched(line(process)) as processes:
        left = set(tmp_path.glob("scratch/*"))
        assert len(left) == 2
        living = RunScratch(tmp_path)
        living.claim()
        assert set(tmp_path.glob("scratch/*")) == {*left, living.path}
        process.kill()
        assert have_ended(processes, GONE_WITHIN_S)
    with started("tm-0") as each:
        own = each.ask("tm-0", *words)
        assert {str(path) for path in tmp_path.glob("scratch/*")} == {own, str(living.path)}
    living.close()


@pytest.mark.slow
@pytest.mark.parametrize("turns", but_for([2, 20], [2], "a hundred starts; ten stay"))
def test_nothing_is_left_after_starts_and_ends(turns: int) -> None:
    def held() -> tuple[int, int, list[int]]:
        children = [process.pid for process in psutil.Process().children(recursive=True)]
        return len([*Path("/proc/self/fd").iterdir()]), threading.active_count(), children

    before = held()
    for turn in range(turns):
        each = Started()
        names = [f"tm-{number}" for number in range(5)]
        each.start(*names)
        each.say(names[turn % 5], "leave")
        each.launcher.kill(names[(turn + 1) % 5])
        each.launcher.forget(names[(turn + 2) % 5])
        each.close()
        # A thread that ends with a link may do so a moment later.
        until(lambda: held() == before)
