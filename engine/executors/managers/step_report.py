"""Reports of steps of the worker loop that take long, with the user's line that they are in, or that they compile.

A thread of the task manager looks now and then. While the user's code holds the interpreter lock it cannot, and nothing
is said: then the head knows only that the process is silent and uses a core.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from penstock.engine.core.contract import Clock
from penstock.engine.dataflow import worker as loop
from penstock.engine.dataflow.worker import Worker
from penstock.engine.executors.managers.messages import OutOfStep, StuckInStep
from penstock.model.source_location import user_line_inside

LONGEST_NS = 5_000_000_000
"""From when on a step is spoken of."""

LOOK_S = 1.0
"""How often the thread looks."""

COMPILES = "it compiles kernels, as the first run on a machine does (penstock warm compiles them beforehand)"
"""Stands in place of the user's line in a step that takes long because of this."""

StepReport = StuckInStep | OutOfStep


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the loop: the instance that is in it, and when it began, by the monotonic clock."""

    instance: str
    began_ns: int


def step_of(worker: Worker) -> Step | None:
    """Return the step that a loop is in, None while it is in none; by any thread.

    A step that has raised counts as one that goes on, until its instance is removed.
    """
    # The instance first: read the other way round, a step's beginning could be taken for that of the next one.
    at, began_ns = worker.at, worker.stepped_ns
    return None if at is None or began_ns is None else Step(at.name, began_ns)


class LongSteps:
    """The steps that have taken long, each reported once when it has and once when it is over. Pure."""

    def __init__(self, longest_ns: int = LONGEST_NS) -> None:
        """Begin with a loop that is in no step."""
        self._longest_ns = longest_ns
        self._reported: Step | None = None

    def look(self, now_ns: int, step: Step | None, line: Callable[[], str]) -> list[StepReport]:
        """Return what is to be reported of the step that the loop is in now; ``line`` returns the user's line in it."""
        reports: list[StepReport] = []
        reported = self._reported
        if reported is not None and (step is None or step.began_ns != reported.began_ns):
            ended_ns = now_ns if step is None else step.began_ns
            reports.append(OutOfStep(reported.instance, (ended_ns - reported.began_ns) / 1e9))
            self._reported = None
        if self._reported is None and step is not None and now_ns - step.began_ns >= self._longest_ns:
            reports.append(StuckInStep(step.instance, (now_ns - step.began_ns) / 1e9, line()))
            self._reported = step
        return reports


class StepWatch:
    """A thread that looks at the loop of the thread that makes it, and tells of its long steps."""

    def __init__(
        self,
        step: Callable[[], Step | None],
        tell: Callable[[StepReport], None],
        clock: Clock,
        *,
        longest_ns: int = LONGEST_NS,
        look_s: float = LOOK_S,
    ) -> None:
        """Begin. ``step`` returns the step that the loop is in; it and ``tell`` are called by the thread."""
        self._step, self._tell, self._clock = step, tell, clock
        self._look_s = look_s
        self._steps = LongSteps(longest_ns)
        self._loop = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-steps", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._look_s):
            step = self._step()
            for report in self._steps.look(self._clock.monotonic_ns(), step, self._line):
                self._tell(report)

    def _line(self) -> str:
        frame = sys._current_frames().get(self._loop)
        return COMPILES if is_compiling(frame) else user_line_inside(frame, loop.__name__)


def is_compiling(frame: FrameType | None) -> bool:
    """Return whether a thread whose innermost frame this is compiles a kernel."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("numba.core.compiler"):
            return True
        frame = frame.f_back
    return False
