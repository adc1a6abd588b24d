"""Two processes, each on a core of its own, that do the same kind of work from a common start on."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

Request = Mapping[str, Any]
Figures = dict[str, Any]

Task = Callable[[int, Request], Iterator[Figures]]
"""What a side does: it makes ready, yields nothing of interest, and yields its figures once it has run.

A request has the path at which the sides meet as ``meeting``.
"""


class Pair:
    """Sides 0 and 1, each a process that `serve` runs in; they stay for all requests, so that all find them warm."""

    def __init__(self) -> None:
        """Start both."""
        self._folder = TemporaryDirectory(prefix="penstock-")
        self._meetings = 0
        cores = sorted(os.sched_getaffinity(0))
        self._sides = [
            subprocess.Popen(
                [sys.executable, "-m", "penstock.benchmarks.crossing.side", str(side), str(cores[side % len(cores)])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for side in range(2)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for side in self._sides:
            assert side.stdin is not None and side.stdout is not None
            if kind is not None:
                side.kill()
            side.stdin.close()
            side.wait()
            side.stdout.close()
        self._folder.cleanup()

    def run(self, task: str, sides: Sequence[int] = (0, 1), **request: Any) -> list[Figures]:
        """Let sides do what a request says; return the figures of each."""
        self._meetings += 1
        meeting = Path(self._folder.name) / str(self._meetings)
        for side in sides:
            self._tell(side, {"task": task, "meeting": str(meeting), **request})
        for side in sides:
            self._hear(side)
        for side in sides:
            self._tell(side, {})
        return [self._hear(side) for side in sides]

    def _tell(self, side: int, line: Request) -> None:
        stdin = self._sides[side].stdin
        assert stdin is not None
        stdin.write(json.dumps(line) + "\n")
        stdin.flush()

    def _hear(self, side: int) -> Figures:
        stdout = self._sides[side].stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"side {side} ended with code {self._sides[side].wait()}")
        figures: Figures = json.loads(line)
        return figures


def serve(side: int, tasks: Mapping[str, Task]) -> None:
    """Do what lines on standard input ask for until they end."""
    for line in sys.stdin:
        request = json.loads(line)
        steps = tasks[request["task"]](side, request)
        print(json.dumps(next(steps)), flush=True)
        sys.stdin.readline()
        print(json.dumps(next(steps)), flush=True)
        next(steps, None)
