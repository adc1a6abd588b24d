"""A side table indexed by its key: built as a whole, then only read."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.kernels.join import chain_heads, link_rows
from penstock.engine.operators.joins.chains import chained
from penstock.state.keys.arrays import Ints, read_only
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import INTEGER, TableSpec
from penstock.state.stores.memory_store import MemoryStore


class LookupIndex:
    """The rows of a table by key; rows with a null key are left out, for null equals nothing.

    ``columns`` are those the output needs. The index is not keyed state: it is read anew on a restart.
    """

    def __init__(self, table: pa.Table, keys: Sequence[str], codec: KeyCodec, columns: list[str]) -> None:
        """Index the table; may be called on any thread."""
        valid = pa.array(np.ones(table.num_rows, np.bool_))
        for name in keys:
            valid = pc.and_(valid, pc.is_valid(table.column(name).combine_chunks()))
        table = table.filter(valid)
        self._rows = table.select(columns).combine_chunks()
        self._slots = MemoryStore("lookup").table(TableSpec("rows", codec.types, {"newest": INTEGER}))
        batch = codec.encode([table.column(name).combine_chunks() for name in keys])
        # Linked from the last row to the first, so that a chain gives them in the table's order.
        backwards = np.arange(len(batch) - 1, -1, -1)
        slots = self._slots.upsert(batch.take(backwards)).slots
        linked = np.empty(len(batch), np.int64)
        self._newest = self._slots.array("newest")
        link_rows(read_only(slots), 0, self._newest, linked)
        self._order = backwards
        self._older = linked

    def pairs(self, keys: KeyBatch, limit: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield (position among the keys, row of the table) pairs in order of position, ``limit`` at a time.

        The arrays are written again for the next yield.
        """
        heads = chain_heads(read_only(self._slots.find(keys)), read_only(self._newest))
        room = np.empty(limit, np.int64), np.empty(limit, np.int64)
        for at, rows in chained(heads, self._older, room):
            yield at, self._order[rows]

    def take(self, rows: pa.Array) -> pa.RecordBatch:
        """Return the columns in these rows; null where the row is null."""
        columns = [column.take(rows).combine_chunks() for column in self._rows.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._rows.schema)
