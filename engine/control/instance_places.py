"""The places of instances among those of their task, by their numbers, of which some may have no instance."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.control.part_reading import Rows
from penstock.model.columns import Bools
from penstock.model.execution_graph import Task

Numbers = NDArray[np.int64]


class InstancePlaces:
    """The places of the instances of several kinds: of tasks, or of those at one end of edges."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Take the task of each kind."""
        self._ends_at = np.array([task.first_free for task in tasks], np.int64)
        self._first = np.cumsum(self._ends_at) - self._ends_at
        self._place = np.full(int(self._ends_at.sum()), -1, np.int64)
        for first, task in zip(self._first.tolist(), tasks, strict=True):
            self._place[first + np.array(task.numbers)] = np.arange(task.parallelism)

    def of(self, rows: Rows, kind: str) -> Numbers:
        """Return the place of each row's instance, -1 for one that has left and whose part has not heard of it."""
        of, number = rows[kind], rows["number"]
        inside = number < self._ends_at[of]
        return np.where(inside, self._place[np.where(inside, self._first[of] + number, 0)], -1)

    def kept(self, rows: Rows, kind: str) -> tuple[Rows, Numbers, Bools | None]:
        """Return the rows of instances that are there, their places, and which rows these are, None: all."""
        places = self.of(rows, kind)
        kept = places >= 0
        return (rows, places, None) if kept.all() else (rows[kept], places[kept], kept)
