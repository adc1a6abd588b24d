"""Rows of a snapshot by group, sorted once, as there may be thousands of groups. Called by `flink_er`."""

from itertools import pairwise

import numpy as np

from penstock.model.columns import Ints


class RowGroups:
    """The rows of each group; ``group`` is by row. ``order`` has all rows, those of a group together, ascending."""

    def __init__(self, group: Ints, groups: int) -> None:
        self.order = np.argsort(group, kind="stable").astype(np.int32)
        self._ends: list[int] = np.searchsorted(group[self.order], np.arange(groups + 1)).tolist()

    def within(self, group: int) -> slice:
        """Return where in ``order`` the rows of a group are."""
        return slice(self._ends[group], self._ends[group + 1])

    def lists(self, values: Ints) -> list[list[int]]:
        """Return the values of the rows of each group; ``values`` is by row."""
        ordered, ends = values[self.order].tolist(), self._ends
        return [ordered[begin:end] for begin, end in pairwise(ends)]

    def rows(self, group: int) -> Ints:
        """Return the rows of a group, ascending."""
        return self.order[self._ends[group] : self._ends[group + 1]]
