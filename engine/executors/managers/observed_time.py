"""Time in which whoever waits for others could hear them: while its process stood still it could not. Pure.

A process that was stopped, swapped out or held up by code that keeps the interpreter lock wakes up with a clock that
has run on. What it holds against others must be time in which it listened.
"""

MOST_UNSEEN_NS = 2_500_000_000
"""The most that counts of the time between two looks; they lie a second apart at most while a process runs."""


class ObservedTime:
    """A clock that runs as another one does, but by `MOST_UNSEEN_NS` at most between two looks at it."""

    def __init__(self, now_ns: int) -> None:
        """Begin at 0 with a look, at the time of the other clock."""
        self.now_ns = 0
        """The time of the last look, by this clock."""
        self._looked_ns = now_ns

    def look(self, now_ns: int) -> int:
        """Look at the time of the other clock, which must not go back; return by how much this one has run on."""
        passed_ns = min(now_ns - self._looked_ns, MOST_UNSEEN_NS)
        self._looked_ns = now_ns
        self.now_ns += passed_ns
        return passed_ns
