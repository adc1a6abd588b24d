"""The window specifications of the job graph, which group rows in time.

A time window is the half-open interval [start, end) of event time in microseconds since the epoch.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.durations import format_microseconds
from penstock.model.errors import OptionError


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size, side by side: [k * size + offset, (k + 1) * size + offset)."""

    size_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        if self.size_us <= 0:
            raise OptionError(f"a tumbling window needs a size above zero, got {self.size_us} us")

    def __str__(self) -> str:
        return f"tumbling {format_microseconds(self.size_us)}"


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of one size that start every hop; a row is in each window that covers it."""

    size_us: int
    hop_us: int
    offset_us: int = 0

    def __post_init__(self) -> None:
        if self.size_us <= 0 or self.hop_us <= 0:
            raise OptionError(
                f"a hopping window needs size and hop above zero, got {self.size_us} and {self.hop_us} us"
            )
        if self.hop_us > self.size_us:
            raise OptionError("a hopping window's hop must not exceed its size: rows would fall between windows")

    def __str__(self) -> str:
        return f"hopping {format_microseconds(self.size_us)} every {format_microseconds(self.hop_us)}"


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that end after a gap without rows; a row exactly one gap after the last still joins.

    [first row, last row + gap) per key.
    """

    gap_us: int

    def __post_init__(self) -> None:
        if self.gap_us <= 0:
            raise OptionError(f"a session window needs a gap above zero, got {self.gap_us} us")

    def __str__(self) -> str:
        return f"session gap {format_microseconds(self.gap_us)}"


@dataclass(frozen=True, slots=True)
class Count:
    """Windows of a number of rows per key, in event-time order; an incomplete last window is emitted at the end."""

    rows: int

    def __post_init__(self) -> None:
        if self.rows <= 0:
            raise OptionError(f"a count window needs at least one row, got {self.rows}")

    def __str__(self) -> str:
        return f"count {self.rows}"


@dataclass(frozen=True, slots=True)
class Global:
    """One window over everything, over when the input ends."""

    def __str__(self) -> str:
        return "global"


class WindowAssigner(ABC):
    """Base class of custom time windows.

    Subclass it, and give an instance to ``.window(...)``. The engine calls `assign` once per batch, on the
    worker's thread; it must be a pure function of the times.
    """

    @abstractmethod
    def assign(self, times_us: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return (row, start_us, end_us): three arrays of one length, one entry per (row, window) pair.

        ``row`` indexes `times_us`, ascending. Every window must contain its row: start <= time < end. A row
        without any entry belongs to no window and is counted as filtered.
        """

    def __str__(self) -> str:
        return type(self).__name__


Window = Tumbling | Hopping | Session | Count | Global | WindowAssigner


@dataclass(frozen=True, slots=True)
class Emission:
    """The emission of a window's result: ``final`` (once, when it is over), ``updates`` or ``every`` (a changelog).

    ``interval_us`` is the least processing time between two emissions of an updating result (None: what the job's
    ``emit_interval`` says).
    """

    mode: str = "final"
    interval_us: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("final", "updates"):
            raise OptionError(f"emission is 'final', 'updates' or every=..., not {self.mode!r}")


@dataclass(frozen=True, slots=True)
class Windowing:
    """A window, its allowed lateness, its clock ('event' or 'processing') and its emission."""

    window: Window
    lateness_us: int = 0
    clock: str = "event"
    emission: Emission = Emission()

    def __post_init__(self) -> None:
        if self.clock not in ("event", "processing"):
            raise OptionError(f"a window's clock is 'event' or 'processing', not {self.clock!r}")
        if self.lateness_us < 0:
            raise OptionError("allowed lateness must not be negative")
