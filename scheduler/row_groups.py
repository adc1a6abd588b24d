"""Rows of a snapshot by group, sorted once, as there may be thousands of groups. Called by `flink_er`."""

import numpy as np

from penstock.model.columns import Ints


class RowGroups:
    """The rows of each group; ``group`` is by row."""

    def __init__(self, group: Ints, groups: int) -> None:
        self._order = np.argsort(group, kind="stable").astype(np.int32)
        self._ends = np.searchsorted(group[self._order], np.arange(groups + 1)).tolist()

    def rows(self, group: int) -> Ints:
        """Return the rows of a group, ascending."""
        return self._order[self._ends[group] : self._ends[group + 1]]
