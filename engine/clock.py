"""The real clock, for the shells; everything below takes a `Clock` and never asks the machine."""

import time


class SystemClock:
    """Monotonic and wall time of this machine."""

    def monotonic_ns(self) -> int:
        """Return a time that never goes back, for durations."""
        return time.monotonic_ns()

    def wall_us(self) -> int:
        """Return microseconds since the epoch."""
        return time.time_ns() // 1_000
