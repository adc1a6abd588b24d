"""Counts by task and cell, as of distances or key groups, that were read at several places, and between two readings.

Pure. A place says the sums of what is there: what has left it takes its counts along.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.engine.control.part_reading import COUNTS, Rows, together
from penstock.model.columns import Floats, Names

Numbers = NDArray[np.int64]

_FELL_MOST = 0.1
"""Counts of a task that fell by more than this part of what others rose are of other instances than before."""


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Counts since what is there began: of each ``cell`` of each ``task``, at each ``place`` of the ``places``."""

    places: Names
    place: Numbers
    task: Numbers
    cell: Numbers
    counts: Floats


_NONE = np.zeros(0, np.int64)
NO_COUNTS = TaskCounts((), _NONE, _NONE, _NONE, np.zeros(0))


def read_counts(places: Sequence[str], parts: Sequence[Rows]) -> TaskCounts:
    """Put together what was read at each place: rows with ``task``, ``cell`` and ``count``."""
    if not any(map(len, parts)):
        return TaskCounts(tuple(places), _NONE, _NONE, _NONE, np.zeros(0))
    rows, place = together(COUNTS, parts), np.repeat(np.arange(len(parts)), [len(each) for each in parts])
    return TaskCounts(
        tuple(places), place, rows["task"].astype(np.int64), rows["cell"].astype(np.int64), rows["count"].copy()
    )


def risen(before: TaskCounts | None, after: TaskCounts, cells: int) -> tuple[Numbers, Floats]:
    """Return tasks, and by row what was counted of the cells of each between two readings (None: since the start).

    Of what was not read before at a place, or was counted by other instances there, nothing is known.
    """
    places = {name: row for row, name in enumerate(after.places)}
    tasks = 1 + int(max(after.task.max(initial=0), 0 if before is None else before.task.max(initial=0)))
    pairs, counts = _by_pair(after, places, tasks, cells)
    if before is not None:
        was_read = _was_read(before, after)[pairs // tasks]
        counts = _changed(pairs, counts, *_by_pair(before, places, tasks, cells), was_read)
    found, row = np.unique(pairs % tasks, return_inverse=True)
    sums = np.zeros((len(found), cells))
    np.add.at(sums, row, counts)
    return found, sums


def _changed(pairs: Numbers, counts: Floats, known: Numbers, then: Floats, was_read: NDArray[np.bool_]) -> Floats:
    """Return by how much counts have risen; 0 of those that nobody knows that of."""
    of = np.searchsorted(known, pairs).clip(0, max(len(known) - 1, 0))
    is_same = known[of] == pairs if len(known) else np.zeros(len(pairs), np.bool_)
    before = np.where(is_same[:, np.newaxis], then[of] if len(known) else 0.0, 0.0)
    change = counts - before
    fell, rose = -np.minimum(change, 0.0).sum(axis=1), np.maximum(change, 0.0).sum(axis=1)
    # A task that had none at a place that was read has begun there.
    is_known = (is_same | was_read) & (fell <= _FELL_MOST * rose)
    return np.where(is_known[:, np.newaxis], np.maximum(change, 0.0), 0.0)


def _was_read(before: TaskCounts, after: TaskCounts) -> NDArray[np.bool_]:
    known = set(before.places)
    return np.array([name in known for name in after.places], np.bool_)


def _by_pair(readings: TaskCounts, places: dict[str, int], tasks: int, cells: int) -> tuple[Numbers, Floats]:
    """Return pairs of place and task as place * tasks + task, ascending, and the counts of each by cell."""
    row = np.array([places.get(name, -1) for name in readings.places], np.int64)[readings.place]
    mine = (row >= 0) & (readings.cell < cells)
    pairs, of = np.unique(row[mine] * tasks + readings.task[mine], return_inverse=True)
    counts = np.zeros((len(pairs), cells))
    np.add.at(counts, (of, readings.cell[mine]), readings.counts[mine])
    return pairs, counts
