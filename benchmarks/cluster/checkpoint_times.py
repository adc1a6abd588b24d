"""When checkpoints of a job were under way, by whoever looks at it often, and the moments between them."""

import time
from collections.abc import Callable

from penstock.benchmarks.cluster.move_chart import Span
from penstock.dsl.handle import Handle
from penstock.engine.checkpoint.metrics import CheckpointMetrics

PATIENCE_S = 600.0
"""How long the job is waited for."""

LOOK_S = 0.05
"""How often it is looked at."""


class CheckpointTimes:
    """Waits for what happens in a job, and notes each checkpoint that ends meanwhile; jobs may follow each other."""

    def __init__(self, handle: Handle) -> None:
        """Look at a job that has just begun."""
        self.follow(handle)
        self.spans: list[Span] = []
        """When each was under way, from its barriers to its end, in monotonic seconds."""

    def follow(self, handle: Handle) -> None:
        """Look at another job, which has just begun."""
        self.handle, self._committed = handle, 0

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds.

        Raises:
            TimeoutError: it takes too long, or the job is over.
        """
        until_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > until_s or not self.handle.running:
                self.handle.wait(0)
                raise TimeoutError(f"the job did not come so far in {PATIENCE_S:.0f} s")
            time.sleep(LOOK_S)
            self._look()

    def pause(self, seconds: float) -> None:
        """Wait so long."""
        until_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= until_s)

    def next_end(self) -> float:
        """Wait for the next checkpoint to be committed, and return when that was."""
        seen = len(self.spans)
        self.until(lambda: len(self.spans) > seen)
        return self.spans[-1].until_s

    def between(self, behind_s: float) -> None:
        """Wait until so long behind the end of a checkpoint, at a moment at which none is under way."""
        while True:
            self.next_end()
            self.pause(behind_s)
            told = self._told()
            if told.begun == told.committed + told.aborted:
                return

    def before(self, lead_s: float, interval_s: float) -> None:
        """Wait until so long before a checkpoint is due, one ``interval_s`` behind the beginning of the one before."""
        self.next_end()
        due_s = self.spans[-1].from_s + interval_s
        self.until(lambda: time.monotonic() >= due_s - lead_s)

    def _look(self) -> None:
        told = self._told()
        if told.committed > self._committed:
            self._committed, now_s = told.committed, time.monotonic()
            self.spans.append(Span("checkpoint", now_s - (told.last_duration_ns or 0) / 1e9, now_s))

    def _told(self) -> CheckpointMetrics:
        return self.handle.metrics().checkpoints or CheckpointMetrics()
