"""The rows that one append-only side of an unbounded join keeps, for `join` and `incremental_join`."""

import numpy as np
import pyarrow as pa

from penstock.engine.kernels.join import chain_heads, link_rows
from penstock.engine.operators.joins.join_side import JoinSide
from penstock.model.errors import BugError
from penstock.state.keys.arrays import Ints, grown, read_only
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import INTEGER, SlotLookup, StateStore, TableSpec


class KeptRows:
    """One side's rows in a log, and per key the id of the newest, from which ``older`` leads to the others.

    Only the rows outlast the operator: they have their keys with them, and to chain them anew when it opens takes no
    longer than to read the chains, which would be most of what is stored.
    """

    def __init__(self, store: StateStore, name: str, side: JoinSide) -> None:
        """Open the table ``name`` and its log."""
        self._columns = side.needed
        self._table = store.table(TableSpec(name, side.codec.types, {"head": INTEGER}, lasting=False))
        self._log = store.log(f"{name}_rows", side.fields, side.locate)
        self._end = 0
        ids = self._log.live()
        self.older: Ints = np.empty(max(1024, ids.size), np.int64)
        # A store that outlived another operator has its chains, which led through an array of that operator's.
        self._table.remove(self._table.live())
        if ids.size:
            keys = side.encode(self._log.take(ids, list(dict.fromkeys(side.keys))))
            self._table.expect(keys)
            self._chain(keys)

    @property
    def end(self) -> int:
        """The id of the next row."""
        return self._end

    def newest(self, keys: KeyBatch) -> Ints:
        """Return the id of the newest row of each key, -1 where there is none."""
        return chain_heads(read_only(self._table.find(keys)), read_only(self._table.array("head")))

    def insert(self, rows: pa.RecordBatch, keys: KeyBatch) -> SlotLookup:
        """Keep rows of the side's fields, whose ids go on from those before; return the slots of their keys."""
        first = self._end
        located = self._chain(keys)
        ids = self._log.append(rows)
        if ids[0] != first:
            raise BugError(f"the ids of a join's rows go on at {ids[0]} where {first} was expected")
        return located

    def take(self, ids: Ints) -> pa.RecordBatch:
        """Return the columns the output needs of these rows."""
        return self._log.take(ids, self._columns)

    def _chain(self, keys: KeyBatch) -> SlotLookup:
        """Put the rows that have these keys, the next ones, before those that are chained."""
        first, self._end = self._end, self._end + len(keys)
        located = self._table.upsert(keys)
        self.older = grown(self.older, first, self._end)
        link_rows(read_only(located.slots), first, self._table.array("head"), self.older[first : self._end])
        return located
