"""The order to a task manager to end in order, as its process gets it. Imports next to nothing: it may come early."""

from collections.abc import Callable


class LeaveOrder:
    """The order to end in order, which the process may get before its task manager can take it."""

    def __init__(self) -> None:
        """Begin without one."""
        self.is_given = False
        """True once it was given."""
        self._act: Callable[[], None] | None = None

    def when_given(self, act: Callable[[], None]) -> None:
        """Call this when the order is given, at once if it was; it only sets or puts, for a signal handler calls it."""
        self._act = act
        if self.is_given:
            act()

    def give(self) -> None:
        """Give it; further ones change nothing."""
        if self.is_given:
            return
        self.is_given = True
        if self._act is not None:
            self._act()
