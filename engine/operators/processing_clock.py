"""Processing time that never goes back, for windows with ``clock="processing"``."""

from penstock.engine.elements import START_OF_TIME_US
from penstock.engine.operators.contract import Clock


class ProcessingClock:
    """The wall clock as a watermark: monotone, in microseconds since the epoch."""

    def __init__(self, clock: Clock) -> None:
        """Read this clock."""
        self._clock = clock
        self._latest_us = START_OF_TIME_US

    def now_us(self) -> int:
        """Return processing time; the same as before while the wall clock is set back."""
        self._latest_us = max(self._latest_us, self._clock.wall_us())
        return self._latest_us

    def due_ns(self, time_us: int) -> int:
        """Return the monotonic time at which processing time will reach ``time_us``, as far as can be told now."""
        return self._clock.monotonic_ns() + max(0, time_us - self.now_us()) * 1_000
