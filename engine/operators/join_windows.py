"""The rows of a window join's closing windows: from panes, under which each row is kept once, to (row, window) pairs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.operators.pane_windows import PaneWindows

Ints = NDArray[np.int64]

GROUP_ROWS = 1 << 20
"""About how many rows of overlapping windows are joined at a time."""


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Rows of closing windows: positions among the waiting rows, and the window of each; a row may repeat."""

    positions: Ints
    windows: Ints


def shared_windows(
    windows: PaneWindows, left: Ints, right: Ints, first: int, closed: int
) -> Iterator[tuple[WindowRows, WindowRows]]:
    """Yield the rows of both sides, given by their panes, in the windows [first, closed) that have rows on both sides.

    Windows come in groups of about `GROUP_ROWS` rows; tumbling ones, where a row is in one window only and nothing
    has to be copied, all at once and even without rows on one side. Every pane is one of [first, closed).
    """
    if windows.per_window == windows.per_hop == 1:
        yield WindowRows(np.arange(left.size), left), WindowRows(np.arange(right.size), right)
        return
    orders = [np.argsort(panes, kind="stable") for panes in (left, right)]
    panes = (left[orders[0]], right[orders[1]])
    candidates = _windows_of(windows, min(panes, key=len), first, closed)
    low = candidates * windows.per_hop
    starts = [np.searchsorted(side, low) for side in panes]
    counts = [np.searchsorted(side, low + windows.per_window) - start for side, start in zip(panes, starts, strict=True)]
    shared = np.flatnonzero((counts[0] > 0) & (counts[1] > 0))
    group = np.cumsum((counts[0] + counts[1])[shared]) // GROUP_ROWS
    for chosen in np.split(shared, np.flatnonzero(np.diff(group)) + 1):
        if chosen.size:
            one, other = (
                WindowRows(order[ranges(start[chosen], count[chosen])], np.repeat(candidates[chosen], count[chosen]))
                for order, start, count in zip(orders, starts, counts, strict=True)
            )
            yield one, other


def ranges(starts: Ints, counts: Ints) -> Ints:
    """Return starts[0], starts[0] + 1, ... (counts[0] numbers), then the same for the next."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)


def _windows_of(windows: PaneWindows, panes: Ints, first: int, closed: int) -> Ints:
    """Return the windows in [first, closed) that have one of these (ascending) panes, ascending."""
    distinct = np.unique(panes)
    low = np.maximum(-((windows.per_window - 1 - distinct) // windows.per_hop), _within_int64(first))
    high = np.minimum(distinct // windows.per_hop, _within_int64(closed - 1))
    return np.unique(ranges(low, np.maximum(high - low + 1, 0)))


def _within_int64(window: int) -> int:
    return max(-(1 << 62), min(1 << 62, window))
