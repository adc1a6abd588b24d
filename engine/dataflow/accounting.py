"""The account of an instance's time, five kinds that add up to the wall clock, and of the time that rows spend there.

The controllers read only these figures, so an instance is always in exactly one `Activity`.
"""

from dataclasses import dataclass
from enum import Enum


class Activity(Enum):
    """Activities of an instance, one at a time."""

    BUSY = "busy"
    REMOTE_WAIT = "remote_wait"
    CORE_WAIT = "core_wait"
    INPUT_WAIT = "input_wait"
    OUTPUT_WAIT = "output_wait"


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Nanoseconds per activity since the instance started; their sum is the wall time.

    ``busy_ns``: inside operators. ``remote_wait_ns``: could go on only when calls to the outside are answered.
    ``core_wait_ns``: had input and room but another instance had the core. ``input_wait_ns``: nothing to do.
    ``output_wait_ns``: an output was full.
    """

    busy_ns: int
    remote_wait_ns: int
    core_wait_ns: int
    input_wait_ns: int
    output_wait_ns: int

    @property
    def wall_ns(self) -> int:
        """The sum of all."""
        return self.busy_ns + self.remote_wait_ns + self.core_wait_ns + self.input_wait_ns + self.output_wait_ns

    @property
    def saturation(self) -> float:
        """The share of time in which the instance worked or wanted the core, in [0, 1]: 1.0 is a bottleneck."""
        return (self.busy_ns + self.core_wait_ns) / self.wall_ns if self.wall_ns else 0.0


class Accounting:
    """Adds up the activities of one instance; the loop tells it about every change."""

    __slots__ = ("_held", "_held_since_ns", "_row_ns", "_since_ns", "_spent_ns", "activity", "cpu_ns", "steps")

    def __init__(self, now_ns: int) -> None:
        """Start waiting for input."""
        self.activity = Activity.INPUT_WAIT
        self.cpu_ns: int | None = None
        """The time of the loop's thread on a core in steps of the instance; None: not measured."""
        self.steps = 0
        """The steps that it began; the rest of a cut one is none. Each takes time of its own, however few its rows."""
        self._since_ns = self._held_since_ns = now_ns
        self._spent_ns = dict.fromkeys(Activity, 0)
        self._held = self._row_ns = 0

    def begin(self, now_ns: int) -> None:
        """Forget what was spent and count from now on."""
        self.cpu_ns = None
        self.steps = self._row_ns = 0
        self._since_ns = self._held_since_ns = now_ns
        self._spent_ns = dict.fromkeys(Activity, 0)

    def enter(self, activity: Activity, now_ns: int) -> None:
        """Close the current activity at ``now_ns`` and begin another (or the same)."""
        self._spent_ns[self.activity] += now_ns - self._since_ns
        self._since_ns = now_ns
        self.activity = activity

    def hold(self, rows: int, now_ns: int) -> None:
        """Count so many rows as being here, waiting or worked on, from ``now_ns`` on."""
        self._row_ns += self._held * (now_ns - self._held_since_ns)
        self._held, self._held_since_ns = rows, now_ns

    def row_ns(self, now_ns: int) -> int:
        """Return the time up to ``now_ns`` that all rows together have spent here.

        Divided by the rows that came it is the mean wait and service of one (Little's law).
        """
        return self._row_ns + self._held * (now_ns - self._held_since_ns)

    def add_cpu(self, cpu_ns: int) -> None:
        """Count time of the loop's thread on a core."""
        self.cpu_ns = (self.cpu_ns or 0) + cpu_ns

    def spent_ns(self, now_ns: int) -> list[int]:
        """Return the totals up to ``now_ns``, in the order of `Activity`."""
        running = self._spent_ns.copy()
        running[self.activity] += now_ns - self._since_ns
        return [*running.values()]

    def spent(self, now_ns: int) -> TimeSpent:
        """Return the totals up to ``now_ns``."""
        return TimeSpent(*self.spent_ns(now_ns))
