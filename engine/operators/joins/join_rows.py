"""The rows that one append-only side of an unbounded join keeps, for `join` and `incremental_join`."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.join import chain_heads, link_rows
from penstock.engine.operators.joins.join_side import JoinSide
from penstock.model.errors import BugError
from penstock.state.arrays import read_only
from penstock.state.image import positions_of, referring
from penstock.state.keys import KeyBatch
from penstock.state.store import Fixed, Located, StateStore, TableSpec

_OLDER = pa.field("$older", pa.int64(), nullable=False)

Ints = NDArray[np.int64]


class KeptRows:
    """One side's rows in a log, and per key the id of the newest, from which ``older`` leads to the others.

    ``older`` repeats a column of the log as one array indexed by id, which a walk along a chain needs.
    """

    def __init__(self, store: StateStore, name: str, side: JoinSide, columns: list[str]) -> None:
        """Open the table ``name`` and its log; ``columns`` are those that `take` returns."""
        self._columns = columns
        log = f"{name}_rows"
        self._fields = pa.schema([*(side.fields.field(column) for column in columns), referring(_OLDER, log)])
        newest = Fixed(np.dtype(np.int64), refers=log, base=1)
        self._table = store.table(TableSpec(name, side.codec.types, {"newest": newest}))
        self._log = store.log(log, self._fields)
        ids = self._log.live()
        self._end = int(ids[-1]) + 1 if ids.size else 0
        self.older: Ints = np.empty(max(1024, self._end), np.int64)
        if ids.size:
            self.older[ids] = self._log.take(ids, [_OLDER.name]).column(0).to_numpy()

    def newest(self, keys: KeyBatch) -> Ints:
        """Return the id of the newest row of each key, -1 where there is none."""
        return chain_heads(read_only(self._table.find(keys)), read_only(self._table.array("newest")))

    def insert(self, rows: pa.RecordBatch, keys: KeyBatch) -> Located:
        """Keep rows, whose ids go on from those before; return the slots of their keys."""
        first, self._end = self._end, self._end + len(keys)
        older = np.empty(len(keys), np.int64)
        located = self._table.upsert(keys)
        link_rows(read_only(located.slots), first, self._table.array("newest"), older)
        columns = [*rows.select(self._columns).columns, pa.array(older)]
        # The rows may be without their keys.
        ids = self._log.append(pa.RecordBatch.from_arrays(columns, schema=self._fields), positions_of(keys.hashes))
        if ids[0] != first:
            raise BugError(f"the ids of a join's rows go on at {ids[0]} where {first} was expected")
        if self._end > self.older.size:
            grown = np.empty(max(self._end, 2 * self.older.size), np.int64)
            grown[:first] = self.older[:first]
            self.older = grown
        self.older[first : self._end] = older
        return located

    def take(self, ids: Ints) -> pa.RecordBatch:
        """Return the columns the output needs of these rows."""
        return self._log.take(ids, self._columns)
