"""Processes of a run: started with their orders, heard by the notes that they write, and waited for."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.model.errors import FatalError

MOST_S = 900.0
"""No process of a run lasts longer."""

_LOOK_S = 0.1


@contextmanager
def started(module: str, orders: str, notes: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process of this package with orders, whose stdin stays open; it is ended if the block fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"penstock.benchmarks.papers.real.{module}", str(notes)],
        stdin=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(orders + "\n")
        process.stdin.flush()
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def wait(process: "subprocess.Popen[str]", work_s: float = 0.0) -> None:
    """Wait for a process that must not fail; its work takes so long by itself.

    Raises:
        FatalError: it failed, or goes on for too long.
    """
    try:
        failed = process.wait(work_s + MOST_S)
    except subprocess.TimeoutExpired:
        raise FatalError(f"a process of the run has not ended within {work_s + MOST_S:g} s") from None
    if failed:
        raise FatalError("a process of the run failed; its own words stand above")


def end(process: "subprocess.Popen[str]") -> None:
    """Close the stdin of a process, by which it is told to end, and wait for it.

    Raises:
        FatalError: it failed, or goes on for too long.
    """
    assert process.stdin is not None
    process.stdin.close()
    wait(process)


def is_so_within(
    process: "subprocess.Popen[str]", notes: Path, limit_s: float, holds: Callable[[Mapping[str, Any]], bool]
) -> bool:
    """Wait until the latest line of a process's notes is as it should be, and return whether it was within this time.

    Raises:
        FatalError: the process has ended.
    """
    until_s = time.monotonic() + limit_s
    while process.poll() is None:
        if notes.exists() and any(map(holds, lines(notes)[-1:])):
            return True
        if time.monotonic() >= until_s:
            return False
        time.sleep(_LOOK_S)
    raise FatalError("a process of the run failed; its own words stand above")


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of notes."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]
