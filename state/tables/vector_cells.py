"""`VectorColumn` columns in memory: nothing is allocated, cleared or dumped before one of them is written."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.state.store import Slots, VectorCells
from penstock.state.tables.budget import Account

_TYPE = pa.list_(pa.float64())


class MemoryVectorCells(VectorCells):
    """One row of doubles by slot, zero where nothing was written."""

    def __init__(self, width: int, account: Account) -> None:
        self._width = width
        self._account = account
        self._slots = 0
        self._rows: NDArray[np.float64] = np.zeros((0, width))

    @property
    def is_used(self) -> bool:
        """Whether `rows` was ever asked for."""
        return len(self._rows) > 0

    def rows(self) -> NDArray[np.float64]:
        """Return the vectors by slot, allocated with the first call."""
        if len(self._rows) < self._slots:
            (self._rows,) = self._account.longer(self._slots, self._rows)
        return self._rows

    def grow(self, slots: int) -> None:
        """Make room for slots < `slots`, charging for it if there are vectors."""
        if self.is_used:
            (self._rows,) = self._account.longer(slots, self._rows)
        self._slots = max(self._slots, slots)

    def clear(self, slots: Slots) -> None:
        """Make these vectors zero."""
        if self.is_used:
            self._rows[slots] = 0.0

    def dump(self, slots: Slots) -> pa.Array:
        """Return these vectors as lists, null where all is zero."""
        if not self.is_used:
            return pa.nulls(len(slots), _TYPE)
        rows = self._rows[slots]
        written = rows.any(axis=1)
        offsets = np.zeros(len(slots) + 1, np.int32)
        np.cumsum(written * self._width, out=offsets[1:])
        values = pa.array(rows[written].ravel())
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~written))

    def load(self, slots: Slots, cells: pa.Array) -> None:
        """Write vectors that `dump` returned to fresh slots."""
        written = cells.is_valid().to_numpy(zero_copy_only=False)
        if written.any():
            self.rows()[slots[written]] = cells.flatten().to_numpy().reshape(-1, self._width)
