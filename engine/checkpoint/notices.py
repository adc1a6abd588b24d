"""Notices of checkpoints that fail, once for each cause, and of their recovery. Called by `checkpoint.session`."""

from collections.abc import Callable

from penstock.engine.checkpoint import events as ev
from penstock.engine.checkpoint.states import STAGES, CheckpointState
from penstock.engine.core.contract import Clock
from penstock.engine.core.repeated_failures import RepeatedFailures
from penstock.model.errors import CheckpointError

SLOW_NS = 30_000_000_000
"""How long a checkpoint may be in one stage before that is said."""

STOP_COMMIT_NS = 5_000_000_000
"""How long a job that was told to stop waits for sinks to commit: the next start does it if they do not."""


class CheckpointNotices:
    """The news of one job's checkpoints."""

    def __init__(self, clock: Clock, warn: Callable[[str], None]) -> None:
        """``warn`` takes each line."""
        self._clock = clock
        self._warn = warn
        self._failures = RepeatedFailures()
        self._retentions = RepeatedFailures()
        self._stage = CheckpointState.HALTED
        self._since_ns = 0
        self._looked_at = False
        self._slow = False

    def look(self, stage: CheckpointState, epoch: int, now_ns: int) -> None:
        """Say once that a checkpoint does not come out of a stage, and that it has; called at every turn."""
        if stage is not self._stage:
            if self._slow:
                self._warn(f"CHECKPOINT GOES ON: number {epoch}, after {(now_ns - self._since_ns) / 1e9:.0f} s")
            self._stage, self._since_ns = stage, now_ns
            self._looked_at = self._slow = False
        elif not self._looked_at and now_ns - self._since_ns >= SLOW_NS:
            self._looked_at, self._slow = True, stage in STAGES
            if self._slow:
                self._warn(f"CHECKPOINT SLOW: number {epoch}, for {SLOW_NS // 1_000_000_000} s by now: {stage.value}")

    def given_up(self, command: ev.AbortEpoch) -> None:
        """Say why a checkpoint failed; one that an instance took with it is told of with the restart."""
        if not command.in_row:
            return
        text = self._failures.add(command.reason, self._clock.monotonic_ns())
        if text is not None:
            self._warn(f"CHECKPOINT GIVEN UP: number {command.epoch}: {text}")

    def committed(self, epoch: int) -> None:
        """Say that checkpoints work again, if they did not."""
        failed = self._failures.end(self._clock.monotonic_ns())
        if failed is not None:
            many = "one was" if failed.count == 1 else f"{failed.count} in a row were"
            self._warn(f"CHECKPOINTS GO ON: number {epoch} is complete, after {many} given up")

    def not_retained(self, reason: str) -> None:
        """Say why old checkpoints could not be deleted."""
        text = self._retentions.add(reason, self._clock.monotonic_ns())
        if text is not None:
            self._warn(f"OLD CHECKPOINTS STAY: they could not be deleted, which is tried again. {text}")

    def retained(self) -> None:
        """Say that old checkpoints are deleted again, if they were not."""
        failed = self._retentions.end(self._clock.monotonic_ns())
        if failed is not None:
            self._warn("OLD CHECKPOINTS GO AGAIN: those that stayed are deleted")

    def commits_too_long(self, stop_ns: int, now_ns: int) -> bool:
        """Return whether a job that was told to stop at ``stop_ns`` has waited long enough for its sinks to commit."""
        committing = self._stage is CheckpointState.COMMITTING
        return committing and now_ns - max(stop_ns, self._since_ns) >= STOP_COMMIT_NS


def not_committed(epoch: int) -> CheckpointError:
    """Return the error that ends a job that was told to stop while its sinks hang."""
    return CheckpointError(
        f"the job was told to stop, and its sinks have not committed checkpoint {epoch} within "
        f"{STOP_COMMIT_NS // 1_000_000_000} s: the checkpoint is complete, and the next start commits it"
    )


def too_many_failed(command: ev.FailJob, committed_epoch: int | None) -> CheckpointError:
    """Return the error that ends the job; ``committed_epoch`` is the last one that all sinks committed."""
    many = "a checkpoint" if command.in_row == 1 else f"{command.in_row} checkpoints in a row"
    begins = "where this run began" if committed_epoch is None else f"at checkpoint {committed_epoch}"
    return CheckpointError(
        f"{many} could not be completed, the last one because: {command.reason.rstrip('.')}. Mend that and start the "
        f"job again, which then goes on {begins}; max_failed_checkpoints says how many may fail"
    )
