"""The unbounded inner join of two append-only streams.

Each side keeps the columns the output needs in a row log and, per key, a chain of row ids: a batch walks the other
side's chains, then joins its own. Every pair leaves once, with whichever of its rows came later.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.operators.joins.chains import chained
from penstock.engine.operators.joins.join_rows import KeptRows
from penstock.engine.operators.joins.join_side import PairColumns
from penstock.engine.operators.joins.unbounded_join import UnboundedJoin
from penstock.model.errors import BugError
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema


class InnerJoin(UnboundedJoin):
    """Joins rows with equal keys, for ever.

    Rows are counted as folded, those with a null key as filtered: null equals nothing, so they are not kept.
    """

    def __init__(self, spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs and compile the keys.

        Raises:
            PlanError: see `join_output`.
        """
        super().__init__(spec, left, right, name)
        if self._output.changelog:
            raise BugError(f"join {name!r} has a changelog as result, which an incremental join keeps")
        self._columns = PairColumns(spec.output, self._output.fields)

    def open(self, context: OperatorContext) -> None:
        """Open both sides' tables and logs."""
        super().open(context)
        named = zip(("left", "right"), self._sides, strict=True)
        self._kept = tuple(KeptRows(context.state, name, side) for name, side in named)
        self._room = np.empty(context.batch_rows, np.int64), np.empty(context.batch_rows, np.int64)

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
        for positions, ids in chained(heads, other.older, self._room):
            ours, theirs = rows.take(pa.array(positions)), other.take(ids)
            left, right = (theirs, ours) if port else (ours, theirs)
            yield MAIN, batch.with_rows(self._columns.build(left, right, ids.size))
