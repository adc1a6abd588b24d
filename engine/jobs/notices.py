"""Notices of a job with checkpoints: what it goes on from, what it waits for, and that it is back."""

from collections.abc import Callable, Sequence

from penstock.engine.core.contract import Clock
from penstock.engine.core.repeated_failures import RepeatedFailures
from penstock.engine.jobs.end_of_input import passed_over
from penstock.engine.jobs.restart_policy import is_retryable
from penstock.engine.jobs.status import error_sentence
from penstock.engine.restore.notices import restored_text
from penstock.engine.restore.restorer import missing_sinks
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.config import RestartOptions
from penstock.model.execution_graph import ExecutionGraph


class JobNotices:
    """The news of one job, each a line."""

    def __init__(self, job: str, clock: Clock, warn: Callable[[str], None], restarts: RestartOptions) -> None:
        """``warn`` takes each line."""
        self._job = job
        self._clock = clock
        self._warn = warn
        self._patience_s = restarts.start_timeout_ms / 1_000
        self._tries = RepeatedFailures()
        self._is_adopted = False

    def begins(self, graph: ExecutionGraph, restored: RestoredState | None, strays: Sequence[str]) -> None:
        """Say what the job begins with, unless it was `adopted`; ``strays`` are manifests that are none of its own."""
        if self._is_adopted:
            return
        tries = self._tries.end(self._clock.monotonic_ns())
        if tries is not None:
            self._warn(f"STARTED: {self._job!r} could begin after {tries.lasted_ns / 1e9:.0f} s")
        for path in strays:
            self._warn(
                f"STRAY FILE: {path!r} of {self._job!r} has a number that no checkpoint comes to; it is left alone, "
                "delete it"
            )
        if restored is None:
            self._warn(f"BEGUN: {self._job!r} goes on from no checkpoint, so it begins at its beginning")
            return
        self._warn(restored_text(self._job, restored, self._clock.wall_us()))
        for text in passed_over(graph.graph, restored):
            self._warn(text)
        missing = missing_sinks(graph, restored)
        if missing is not None:
            self._warn(missing)

    def adopted(self, managers: int, attempt: int, epoch: int) -> None:
        """Say that instances of the run before go on, behind a checkpoint."""
        self._is_adopted = True
        self._tries.end(self._clock.monotonic_ns())
        self._warn(
            f"ADOPTED: {self._job!r} goes on with {managers} task manager{'' if managers == 1 else 's'} of the run "
            f"before (attempt {attempt}), behind checkpoint {epoch}; nothing is built anew"
        )

    def not_adopted(self, reason: str) -> None:
        """Say why task managers of the run before are not gone on with."""
        self._warn(f"NOT ADOPTED: {self._job!r} is built anew, from its last checkpoint: {reason}")

    def not_restored(self, error: BaseException, has_run: bool) -> None:
        """Say why an attempt could not begin, if another follows."""
        if not is_retryable(error):
            return
        text = self._tries.add(_sentence(error), self._clock.monotonic_ns())
        if text is None:
            return
        if has_run:
            self._warn(f"NOT BACK YET: {self._job!r} is tried again, ever more seldom; {text}")
        elif self._patience_s:
            self._warn(f"NOT STARTED YET: {self._job!r} is tried again for {self._patience_s:g} s in all; {text}")

    def restarted(self, tasks: Sequence[str], epoch: int | None, error: BaseException) -> None:
        """Say what began again (no ``tasks``: everything), from which checkpoint, and after which error."""
        what = f"{', '.join(map(repr, tasks))}, while the rest ran on," if tasks else "the job"
        where = "the beginning" if epoch is None else f"epoch {epoch}"
        tries = self._tries.end(self._clock.monotonic_ns())
        lasted = "" if tries is None else f"; it took {tries.lasted_ns / 1e9:.0f} s and {tries.count + 1} tries"
        self._warn(f"RESTARTED: {what} from {where}, after {error_sentence(error)}{lasted}")

    def rescaled(self, text: str) -> None:
        """Say that it goes on with other numbers of instances."""
        self._tries.end(self._clock.monotonic_ns())
        self._warn(f"RESCALED: {self._job!r} goes on with {text}")

    def not_begun(self) -> None:
        """Say that a stop came before anything ran."""
        self._warn(f"STOPPED: {self._job!r} had not begun; what it has from before stands as it was")


def _sentence(error: BaseException) -> str:
    return str(error) or type(error).__name__
