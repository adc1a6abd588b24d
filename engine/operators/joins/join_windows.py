"""The rows of a window join's closing windows: from panes, under which each row is kept once, to windows."""

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.engine.operators.aggregates.pane_windows import PaneWindows
from penstock.engine.operators.row_chunks import ChunkRows
from penstock.state.keys.arrays import Ints

GROUP_ROWS = 1 << 20
"""About how many rows of overlapping windows are joined at a time."""


def shared_windows(
    windows: PaneWindows, left: Sequence[ChunkRows], right: Sequence[ChunkRows], first: int, closed: int
) -> Iterator[tuple[Sequence[ChunkRows], Sequence[ChunkRows]]]:
    """Yield the rows of both sides, placed by pane, in the windows [first, closed) that have rows on both sides.

    In what is yielded rows are placed by window and may repeat. Windows come in groups of about `GROUP_ROWS` rows;
    tumbling ones, where a pane is a window, all at once as they are, even without rows on one side. Every pane is one
    of [first, closed).
    """
    if windows.per_window == windows.per_hop == 1:
        yield left, right
        return
    sides = (ChunkRows.concat(left).in_order(), ChunkRows.concat(right).in_order())
    candidates = _windows_of(windows, min((side.at for side in sides), key=len), first, closed)
    low = candidates * windows.per_hop
    starts = [np.searchsorted(side.at, low) for side in sides]
    stops = [np.searchsorted(side.at, low + windows.per_window) for side in sides]
    counts = [stop - start for start, stop in zip(starts, stops, strict=True)]
    shared = np.flatnonzero((counts[0] > 0) & (counts[1] > 0))
    group = np.cumsum((counts[0] + counts[1])[shared]) // GROUP_ROWS
    for chosen in np.split(shared, np.flatnonzero(np.diff(group)) + 1):
        if chosen.size:
            one, other = (
                _place(side, candidates[chosen], start[chosen], count[chosen])
                for side, start, count in zip(sides, starts, counts, strict=True)
            )
            yield [one], [other]


def _place(side: ChunkRows, windows: Ints, starts: Ints, counts: Ints) -> ChunkRows:
    rows = _ranges(starts, counts)
    return ChunkRows(side.ids[rows], np.repeat(windows, counts), side.words[rows])


def _windows_of(windows: PaneWindows, panes: Ints, first: int, closed: int) -> Ints:
    """Return the windows in [first, closed) that have one of these (ascending) panes, ascending."""
    distinct = np.unique(panes)
    low = np.maximum(-((windows.per_window - 1 - distinct) // windows.per_hop), _within_int64(first))
    high = np.minimum(distinct // windows.per_hop, _within_int64(closed - 1))
    return np.unique(_ranges(low, np.maximum(high - low + 1, 0)))


def _ranges(starts: Ints, counts: Ints) -> Ints:
    """Return starts[0], starts[0] + 1, ... (counts[0] numbers), then the same for the next."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    rows: Ints = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return rows


def _within_int64(window: int) -> int:
    return max(-(1 << 62), min(1 << 62, window))
