"""The bounded memory of a state machine: what it was told lately, attached to the error when it is told the impossible.

The checkpoint coordinator and the life cycle of a job keep one each.
"""

from collections import deque

from penstock.model.errors import BugError


class EventLog:
    """The last ``length`` entries of one state machine."""

    def __init__(self, machine: str, length: int = 64) -> None:
        """``machine`` names it in errors."""
        self._machine = machine
        self._entries: deque[str] = deque(maxlen=length)

    @property
    def entries(self) -> tuple[str, ...]:
        """The entries, oldest first."""
        return tuple(self._entries)

    def add(self, entry: str) -> None:
        """Remember an entry; the oldest one may go."""
        self._entries.append(entry)

    def bug(self, sentence: str) -> BugError:
        """Return the error to raise; the entries are its notes."""
        error = BugError(f"{self._machine}: {sentence}; please report it")
        error.add_note(f"What the {self._machine} was told before, oldest first:")
        for entry in self._entries:
            error.add_note(f"  {entry}")
        return error
