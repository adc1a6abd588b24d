"""The clocks that executors hand in; everything below takes a `Clock` and never asks the machine."""

import time


class SystemClock:
    """Monotonic and wall time of this machine."""

    def monotonic_ns(self) -> int:
        """Return a time that never goes back, for durations."""
        return time.monotonic_ns()

    def wall_us(self) -> int:
        """Return microseconds since the epoch."""
        return time.time_ns() // 1_000


def process_cpu_ns() -> int:
    """Return the time that all threads of this process have used on any core."""
    return time.process_time_ns()


def thread_cpu_ns() -> int:
    """Return the time that the calling thread has used on a core."""
    return time.thread_time_ns()


class ManualClock:
    """A clock that stands still until it is moved, for tests."""

    def __init__(self, monotonic_ns: int = 0, wall_us: int = 1_760_000_000_000_000) -> None:
        """Start at these times."""
        self._monotonic_ns = monotonic_ns
        self._wall_us = wall_us

    def monotonic_ns(self) -> int:
        """Return the time for durations."""
        return self._monotonic_ns

    def wall_us(self) -> int:
        """Return microseconds since the epoch."""
        return self._wall_us

    def advance_ns(self, duration_ns: int) -> None:
        """Move both times on."""
        self._monotonic_ns += duration_ns
        self._wall_us += duration_ns // 1_000

    def advance_us(self, duration_us: int) -> None:
        """Move both times on."""
        self.advance_ns(duration_us * 1_000)

    def set_wall_us(self, wall_us: int) -> None:
        """Set the wall clock alone, forwards or back."""
        self._wall_us = wall_us
