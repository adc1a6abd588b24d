"""What jobs of all kinds have in common for whoever changes their limits."""

from penstock.engine.jobs.attempt import AttemptContext
from penstock.engine.jobs.running_limits import RunningLimits


class LimitedJob:
    """A job whose limits may be changed while it runs."""

    _context: AttemptContext

    @property
    def limits(self) -> RunningLimits:
        """The limits of its queries; from any thread."""
        return self._context.limits
