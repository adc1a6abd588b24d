"""Tumbling and hopping windows as runs of panes: arithmetic between times, panes, windows and watermarks.

Window j is [j * hop + offset, j * hop + offset + size) in microseconds. A row is folded once, into its pane.
"""

from dataclasses import dataclass

import numpy as np

from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.kernels.panes import assign_panes
from penstock.model.windows import Hopping, Tumbling
from penstock.state.keys.arrays import Ints, read_only


@dataclass(frozen=True, slots=True)
class PaneWindows:
    """The windows of one operator; window j is the panes [j * per_hop, j * per_hop + per_window)."""

    size_us: int
    hop_us: int
    offset_us: int
    lateness_us: int
    per_hop: int
    per_window: int

    @classmethod
    def of(cls, window: Tumbling | Hopping, lateness_us: int) -> "PaneWindows":
        """Cut a window's hop into one pane, or into two where the size is no multiple of it."""
        hop_us = window.size_us if isinstance(window, Tumbling) else window.hop_us
        whole, cut_us = divmod(window.size_us, hop_us)
        per_hop, per_window = (2, 2 * whole + 1) if cut_us else (1, whole)
        return cls(window.size_us, hop_us, window.offset_us, lateness_us, per_hop, per_window)

    def panes(self, times_us: Ints) -> tuple[Ints, int]:
        """Return the pane of each time, and the smallest of them."""
        panes = np.empty(len(times_us), np.int64)
        cut_us = self.size_us % self.hop_us
        smallest = assign_panes(read_only(times_us), self.hop_us, cut_us, self.offset_us, panes)
        return panes, int(smallest)

    def open_from(self, watermark_us: int) -> int:
        """Return the first window that is not over at this watermark."""
        return (watermark_us - self.lateness_us - self.size_us - self.offset_us) // self.hop_us + 1

    def over_at_us(self, window: int) -> int:
        """Return the watermark at which a window is over."""
        return self.ends_us(window) + self.lateness_us

    def first_pane(self, window: int) -> int:
        """Return the first pane of a window: earlier panes belong to earlier windows only."""
        return _within_time(window * self.per_hop)

    def end_pane(self, window: int) -> int:
        """Return the first pane after a window."""
        return _within_time(window * self.per_hop + self.per_window)

    def first_window(self, pane: int) -> int:
        """Return the first window that has this pane."""
        return -((self.per_window - 1 - pane) // self.per_hop)

    def ends_us(self, windows: int) -> int:
        """Return where a window ends."""
        return windows * self.hop_us + self.offset_us + self.size_us

    def ends_of(self, windows: Ints) -> Ints:
        """Return where windows end."""
        return windows * self.hop_us + (self.offset_us + self.size_us)


def _within_time(pane: int) -> int:
    return max(START_OF_TIME_US, min(END_OF_TIME_US, pane))
