"""What is said of checkpoints that fail, once for each cause, and when they work again. `checkpoint_session` tells."""

from collections.abc import Callable

from penstock.engine import checkpoint_events as ev
from penstock.engine.operators.contract import Clock
from penstock.engine.repeated_failures import RepeatedFailures
from penstock.model.errors import CheckpointError


class CheckpointNews:
    """The news of one job's checkpoints."""

    def __init__(self, clock: Clock, warn: Callable[[str], None]) -> None:
        """``warn`` takes each line."""
        self._clock = clock
        self._warn = warn
        self._failures = RepeatedFailures()
        self._retentions = RepeatedFailures()

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


def too_many_failed(command: ev.FailJob, committed_epoch: int | None) -> CheckpointError:
    """Return the error that ends the job; ``committed_epoch`` is the last one that all sinks committed."""
    many = "a checkpoint" if command.in_row == 1 else f"{command.in_row} checkpoints in a row"
    begins = "where this run began" if committed_epoch is None else f"at checkpoint {committed_epoch}"
    return CheckpointError(
        f"{many} could not be completed, the last one because: {command.reason.rstrip('.')}. Mend that and start the "
        f"job again, which then goes on {begins}; max_failed_checkpoints says how many may fail"
    )
