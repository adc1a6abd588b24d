"""The unbounded inner join of two append-only streams (engine.md 2 and 6).

Each side keeps the columns the output needs in a row log and, per key, a chain of row ids: a batch walks the other
side's chains, then joins its own. Every pair leaves once, with whichever of its rows came later.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.elements import Batch
from penstock.engine.kernels.join import chain_heads, expand_chains, link_rows
from penstock.engine.operators.contract import MAIN, Emission, Operator, OperatorContext
from penstock.engine.operators.join_schema import join_output, key_types, side_columns
from penstock.engine.operators.join_side import JoinSide
from penstock.model.errors import BugError
from penstock.model.job_graph import JoinSpec
from penstock.model.schema import StreamSchema
from penstock.state.arrays import read_only
from penstock.state.keys import KeyBatch
from penstock.state.store import Fixed, StateStore, TableSpec

_OLDER = pa.field("$older", pa.int64(), nullable=False)

Ints = NDArray[np.int64]


class InnerJoin(Operator):
    """Joins rows with equal keys, for ever.

    Rows are counted as folded, those with a null key as filtered: null equals nothing, so they are not kept.
    """

    def __init__(self, spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs and compile the keys.

        Raises:
            PlanError: see `join_output`.
        """
        self._output = join_output(spec, left, right, name)
        self._columns = [(side, column) for _, side, column in spec.output]
        types = key_types(spec, left, right, name)
        self._needed = (side_columns(spec, 0), side_columns(spec, 1))
        self._sides = (
            JoinSide(left, self._needed[0], spec.left_keys, types, name),
            JoinSide(right, self._needed[1], spec.right_keys, types, name),
        )

    def open(self, context: OperatorContext) -> None:
        """Open both sides' tables and logs."""
        super().open(context)
        self._kept = tuple(
            _KeptRows(context.state, name, side, columns)
            for name, side, columns in zip(("left", "right"), self._sides, self._needed, strict=True)
        )
        self._row_out = np.empty(context.batch_rows, np.int64)
        self._id_out = np.empty(context.batch_rows, np.int64)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Keep the batch's rows and emit their pairs with the other side's."""
        self.context.counters.rows_in += batch.rows.num_rows
        rows, _ = self._sides[port].read(self.context, batch.rows)
        if not rows.num_rows:
            return
        keys = self._sides[port].encode(rows)
        self.context.counters.folded += len(keys)
        other = self._kept[1 - port]
        heads = other.newest(keys)
        self._kept[port].insert(rows, keys)
        for positions, ids in self._pairs(heads, other.older):
            matched = (rows.take(pa.array(positions)), other.take(ids))
            left_right = matched if port == 0 else matched[::-1]
            columns = [left_right[side].column(column) for side, column in self._columns]
            yield MAIN, batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=self._output.fields))

    def _pairs(self, heads: Ints, older: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield (position in the batch, id on the other side), ``batch_rows`` pairs at a time, in reused arrays."""
        row = at = -1
        while True:
            filled, row, at = expand_chains(read_only(heads), read_only(older), row, at, self._row_out, self._id_out)
            if filled:
                yield self._row_out[:filled], self._id_out[:filled]
            if filled < self._row_out.size:
                return


class _KeptRows:
    """One side's rows in a log, and per key the id of the newest, from which ``older`` leads to the others.

    ``older`` repeats a column of the log as one array indexed by id, which a walk along a chain needs.
    """

    def __init__(self, store: StateStore, name: str, side: JoinSide, columns: list[str]) -> None:
        self._columns = columns
        self._fields = pa.schema([*(side.fields.field(column) for column in columns), _OLDER])
        self._table = store.table(TableSpec(name, side.codec.types, {"newest": Fixed(np.dtype(np.int64))}))
        self._log = store.log(f"{name}_rows", self._fields)
        ids = self._log.live()
        self._end = int(ids[-1]) + 1 if ids.size else 0
        self.older: Ints = np.empty(max(1024, self._end), np.int64)
        if ids.size:
            self.older[ids] = self._log.take(ids, [_OLDER.name]).column(0).to_numpy()

    def newest(self, keys: KeyBatch) -> Ints:
        """Return the id of the newest row of each key, -1 where there is none."""
        return chain_heads(read_only(self._table.find(keys)), read_only(self._table.array("newest")))

    def insert(self, rows: pa.RecordBatch, keys: KeyBatch) -> None:
        """Keep rows; their ids go on from those before."""
        first, self._end = self._end, self._end + len(keys)
        older = np.empty(len(keys), np.int64)
        slots = self._table.upsert(keys).slots
        link_rows(read_only(slots), first, self._table.array("newest"), older)
        ids = self._log.append(
            pa.RecordBatch.from_arrays([*rows.select(self._columns).columns, pa.array(older)], schema=self._fields)
        )
        if ids[0] != first:
            raise BugError(f"the ids of a join's rows go on at {ids[0]} where {first} was expected")
        if self._end > self.older.size:
            grown = np.empty(max(self._end, 2 * self.older.size), np.int64)
            grown[:first] = self.older[:first]
            self.older = grown
        self.older[first : self._end] = older

    def take(self, ids: Ints) -> pa.RecordBatch:
        """Return the columns the output needs of these rows."""
        return self._log.take(ids, self._columns)
