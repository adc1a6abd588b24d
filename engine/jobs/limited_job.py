"""What jobs of all kinds have in common for whoever changes their limits, or moves their instances."""

from penstock.engine.jobs.attempt import AttemptContext
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.engine.moves.move_orders import MoveOrders
from penstock.model.control import Limits


class LimitedJob:
    """A job whose limits and places may be changed while it runs."""

    _context: AttemptContext

    @property
    def limits(self) -> RunningLimits:
        """The limits of its queries; from any thread."""
        return self._context.limits

    @property
    def moves(self) -> MoveOrders:
        """What is to move, and has moved; from any thread."""
        return self._context.moves

    def change_limits(self, change: Limits) -> Limits:
        """Lay limits over those that hold, and return all of them; see `RunningLimits.change`."""
        return self._context.limits.change(change)
