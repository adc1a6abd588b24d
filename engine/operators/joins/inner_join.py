"""The unbounded inner join of two append-only streams.

Each side keeps the columns the output needs in a row log and, per key, a chain of row ids: a batch walks the other
side's chains, then joins its own. Every pair leaves once, with whichever of its rows came later.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, Operator, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.kernels.join import expand_chains
from penstock.engine.operators.joins.join_rows import KeptRows
from penstock.engine.operators.joins.join_schema import join_output, key_types, side_columns
from penstock.engine.operators.joins.join_side import JoinSide
from penstock.model.errors import BugError
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints, read_only


class InnerJoin(Operator):
    """Joins rows with equal keys, for ever.

    Rows are counted as folded, those with a null key as filtered: null equals nothing, so they are not kept.
    """

    minds_watermarks = False

    def __init__(self, spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs and compile the keys.

        Raises:
            PlanError: see `join_output`.
        """
        self._output = join_output(spec, left, right, name)
        if self._output.changelog:
            raise BugError(f"join {name!r} has a changelog as result, which an incremental join keeps")
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
            KeptRows(context.state, name, side, columns)
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

    def due_us(self) -> int | None:
        """Return None: pairs wait for no watermark."""
        return None

    def _pairs(self, heads: Ints, older: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield (position in the batch, id on the other side), ``batch_rows`` pairs at a time, in reused arrays."""
        row = at = -1
        while True:
            filled, row, at = expand_chains(read_only(heads), read_only(older), row, at, self._row_out, self._id_out)
            if filled:
                yield self._row_out[:filled], self._id_out[:filled]
            if filled < self._row_out.size:
                return
