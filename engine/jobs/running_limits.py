"""Limits of a job that change while it runs: written by whoever changes them, read by its controllers."""

from collections.abc import Callable

from penstock.model.control import NO_LIMITS, Limits
from penstock.model.errors import OptionError


class RunningLimits:
    """The limits of one run, over all its attempts and restores. Any thread may change them."""

    def __init__(self) -> None:
        """Begin with those of its program."""
        self.wanted = NO_LIMITS
        """The limits that hold from the next cycle of the controllers on."""
        self._check: Callable[[Limits], None] | None = None

    def watch(self, check: Callable[[Limits], None]) -> None:
        """Let changes come through; ``check`` raises OptionError for limits that the job cannot have."""
        self._check = check

    def change(self, limits: Limits) -> Limits:
        """Lay limits over those that hold, and return all of them.

        Raises:
            OptionError: the job has no control of load, or the limits are of a query without a contract.
        """
        if self._check is None:
            raise OptionError(
                "the job has no control of load: start it with control=ps.Control(...) (--shed); shed='off' is one, too"
            )
        changed = self.wanted.changed_by(limits)
        self._check(changed)
        self.wanted = changed
        return changed
