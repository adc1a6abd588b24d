"""The CPU that the process of a task manager may use: its loop rests once that is used up. Pure.

An operating system that bounds containers does the same; this needs no rights, and any share of a core will do.
"""

SAVED_NS = 1_000_000_000
"""So long what was not used stays: a checkpoint that takes more for a moment than the share makes nobody rest."""

FIRST_NS = 100_000_000
"""This much time of the share is there at first."""

REST_NS = 25_000_000
"""A loop that rests begins again with what comes in so long: with next to nothing it would stop again at once."""


class CpuShare:
    """An account of CPU, which fills with time and is emptied by what the process uses."""

    def __init__(self) -> None:
        """Begin without a bound."""
        self.throttled_ns = 0
        """How long the loop has rested in all."""
        self._cores: float | None = None
        self._left_ns = 0.0
        self._seen_ns = self._used_ns = 0

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound, so that the CPU of the process must be known."""
        return self._cores is not None

    def set(self, cores: float | None, now_ns: int, cpu_ns: int) -> None:
        """Let the process use so many cores from now on, None: as many as it likes; ``cpu_ns`` is what it has used."""
        if cores is not None and self._cores is None:
            self._seen_ns, self._used_ns, self._left_ns = now_ns, cpu_ns, cores * FIRST_NS
        self._cores = cores

    def forgive(self, now_ns: int, cpu_ns: int) -> None:
        """Take what the process has used until now as none of its share."""
        self._seen_ns, self._used_ns = now_ns, cpu_ns

    def rest_ns(self, now_ns: int, cpu_ns: int) -> int:
        """Return how long the loop is to rest now, 0: it may work; ``cpu_ns`` is what the process has used."""
        cores = self._cores
        if cores is None:
            return 0
        left_ns = self._left_ns + cores * (now_ns - self._seen_ns) - (cpu_ns - self._used_ns)
        self._left_ns = min(left_ns, cores * SAVED_NS)
        self._seen_ns, self._used_ns = now_ns, cpu_ns
        if self._left_ns > 0:
            return 0
        return int((cores * REST_NS - self._left_ns) / cores)
