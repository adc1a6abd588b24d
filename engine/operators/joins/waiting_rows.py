"""Rows that wait for the one row of their key, for `unique_key_join`: all of a key leave together.

They lie in a log, linked from the newest to the oldest of each key. Ids only grow, and what leads from one to the next
is an array by id, so rows that wait long are now and then given new ids.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.kernels.join import chain_heads, link_rows
from penstock.engine.operators.joins.chains import chained
from penstock.engine.operators.joins.join_side import JoinSide
from penstock.model.errors import BugError
from penstock.state.keys.arrays import Ints, grown, read_only
from penstock.state.store import KeyedTable, Slots, StateStore
from penstock.state.tables.image import referring

_OLDER = "$older"
_LEAST_SPAN, _SPARSE = 65_536, 4
"""Ids are given anew when there are this many, and this many times as many as rows."""


class WaitingRows:
    """Rows of one side. The table's column ``newest`` has the id + 1 of each key's newest row, 0: none waits."""

    def __init__(self, store: StateStore, name: str, side: JoinSide, table: KeyedTable) -> None:
        """Open the log ``name``, which keeps all columns of the side, its keys among them."""
        self._table = table
        older = referring(pa.field(_OLDER, pa.int64(), nullable=False), name)
        self._fields = pa.schema([*side.fields, older])
        self._log = store.log(name, self._fields, side.locate)
        ids = self._log.live()
        self._live = ids.size
        self._first = int(ids[0]) if ids.size else 0
        self._end = int(ids[-1]) + 1 if ids.size else 0
        # By id less `_first`: less `_first`, the id of the row before, negative for none.
        self._older: Ints = np.empty(max(1_024, self._end - self._first), np.int64)
        if ids.size:
            self._older[ids - self._first] = self._log.take(ids, [_OLDER]).column(0).to_numpy() - self._first

    def insert(self, rows: pa.RecordBatch, slots: Slots) -> None:
        """Let rows wait, whose keys have these slots."""
        count = rows.num_rows
        if self._end - self._first + count > max(_LEAST_SPAN, _SPARSE * (self._live + count)):
            self._renumber()
        older = np.empty(count, np.int64)
        link_rows(read_only(slots), self._end, self._table.array("newest"), older)
        self._append(rows, older)

    def newest(self, slots: Slots) -> Ints:
        """Return the number of the newest row of each slot for `chains`, negative where none waits."""
        heads: Ints = chain_heads(read_only(slots), read_only(self._table.array("newest"))) - self._first
        return np.maximum(heads, -1)

    def chains(self, heads: Ints, most: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield (position in ``heads``, number of a row), at most ``most`` at a time, in reused arrays."""
        return chained(heads, self._older, (np.empty(most, np.int64), np.empty(most, np.int64)))

    def take(self, numbers: Ints, columns: Sequence[str]) -> pa.RecordBatch:
        """Return these columns of rows."""
        return self._log.take(numbers + self._first, columns)

    def let_go(self, slots: Slots, heads: Ints) -> None:
        """Forget all rows of these slots, which have the newest rows ``heads``."""
        released = np.concatenate([ids.copy() for _, ids in self.chains(heads, 1 << 16)]) + self._first
        self._table.array("newest")[slots] = 0
        self._log.remove(np.sort(released))
        self._live -= released.size

    def _append(self, rows: pa.RecordBatch, older: Ints) -> None:
        columns = [*rows.columns, pa.array(older)]
        ids = self._log.append(pa.RecordBatch.from_arrays(columns, schema=self._fields))
        if ids[0] != self._end:
            raise BugError(f"the ids of a join's rows go on at {ids[0]} where {self._end} was expected")
        before, self._end = self._end - self._first, self._end + rows.num_rows
        after = self._end - self._first
        self._older = grown(self._older, before, after)
        self._older[before:after] = older - self._first
        self._live += rows.num_rows

    def _renumber(self) -> None:
        """Store all rows again, with ids that follow each other."""
        ids, first = self._log.live(), self._end
        self._first = first
        if not ids.size:
            return
        rows = self._log.take(ids)
        self._log.remove(ids)
        older = rows.column(_OLDER).to_numpy()
        newest = self._table.array("newest")
        slots = np.flatnonzero(newest > 0)
        newest[slots] = np.searchsorted(ids, newest[slots] - 1) + first + 1
        self._live = 0
        self._append(rows.drop_columns([_OLDER]), np.where(older < 0, -1, np.searchsorted(ids, older) + first))
