"""The start of an attempt's instances, all of them or a region."""

from dataclasses import dataclass

from penstock.engine.restore.state_assignment import RestoredState


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """The number of the attempt, counted from 1, and the checkpoint it goes on from (None: nothing).

    ``last_epoch`` is the greatest that was published before, 0 if none was: an instance that ends before its first
    barrier contributes to the epoch behind it.
    """

    attempt: int = 1
    restored: RestoredState | None = None
    last_epoch: int = 0

    @property
    def epoch(self) -> int:
        """The epoch it goes on from, 0 for nothing."""
        return 0 if self.restored is None else self.restored.epoch


FIRST = AttemptStart()
"""The start of a job without checkpoints."""
