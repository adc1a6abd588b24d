"""Processing time that never goes back, for windows with ``clock="processing"``."""

from collections.abc import Sequence

from penstock.engine.core.contract import Clock, Notes
from penstock.engine.core.elements import START_OF_TIME_US

_LATEST = "clock_us"


class ProcessingClock:
    """The wall clock as a watermark: monotone, in microseconds since the epoch, also from one run to the next."""

    def __init__(self, clock: Clock, restored: Sequence[Notes] = ()) -> None:
        """Read this clock; it is never behind the clocks of which ``restored`` has the `notes`."""
        self._clock = clock
        self._latest_us = max((int(notes[_LATEST] or 0) for notes in restored), default=START_OF_TIME_US)

    @property
    def latest_us(self) -> int:
        """The last value of `now_us`, `START_OF_TIME_US` before its first call."""
        return self._latest_us

    def notes(self) -> Notes:
        """Return what a restart must know."""
        return {_LATEST: self._latest_us}

    def now_us(self) -> int:
        """Return processing time; the same as before while the wall clock is set back."""
        self._latest_us = max(self._latest_us, self._clock.wall_us())
        return self._latest_us

    def due_ns(self, time_us: int) -> int:
        """Return the monotonic time at which processing time will reach ``time_us``, as far as can be told now."""
        return self._clock.monotonic_ns() + max(0, time_us - self.now_us()) * 1_000
