"""The unbounded inner join of two append-only streams.

Each side keeps the columns the output needs in a row log and, per key, a chain of row ids: a batch walks the other
side's chains, then joins its own. Every pair leaves once, with whichever of its rows came later.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, Notes, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.operators.joins.arrival_sample import ArrivalSample
from penstock.engine.operators.joins.chains import chained
from penstock.engine.operators.joins.join_rows import KeptRows
from penstock.engine.operators.joins.join_side import PairColumns
from penstock.engine.operators.joins.pair_sample import parts_of, side_samplers
from penstock.engine.operators.joins.unbounded_join import UnboundedJoin
from penstock.model.errors import BugError
from penstock.model.join_specs import JoinSpec
from penstock.model.keep_rates import STEPS
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints


class InnerJoin(UnboundedJoin):
    """Joins rows with equal keys, for ever.

    Rows are counted as folded, those with a null key as filtered: null equals nothing, so they are not kept. Of a
    sample of keys a pair leaves at the lesser rate of its two rows.
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
        self._sample = ArrivalSample(side_samplers(spec, left, right, name))

    def open(self, context: OperatorContext) -> None:
        """Open both sides' tables and logs."""
        super().open(context)
        self._sample.open(context)
        named = zip(("left", "right"), self._sides, strict=True)
        self._kept = tuple(KeptRows(context.state, name, side) for name, side in named)
        self._room = np.empty(context.batch_rows, np.int64), np.empty(context.batch_rows, np.int64)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Keep the batch's rows and emit their pairs with the other side's."""
        batch = self._sample.kept(port, batch, self._kept[port].end)
        if not batch.rows.num_rows:
            return
        self.context.counters.rows_in += batch.rows.num_rows
        rows, _ = self._sides[port].read(self.context, batch.rows)
        if not rows.num_rows:
            return
        keys = self._sides[port].encode(rows)
        self.context.counters.folded += len(keys)
        other = self._kept[1 - port]
        heads = other.newest(keys)
        first = self._kept[port].end
        self._kept[port].insert(rows, keys)
        for positions, ids in chained(heads, other.older, self._room):
            if not self._sample:
                yield MAIN, batch.with_rows(self._pairs(port, rows, positions, ids))
                continue
            limits = np.minimum(self._sample.limits(port, positions + first), self._sample.limits(1 - port, ids))
            for places, limit, buckets in parts_of(self.context.sampling_seed, limits, keys.hashes[positions]):
                chosen = slice(None) if places is None else places
                pairs = self._pairs(port, rows, positions[chosen], ids[chosen], buckets)
                yield MAIN, Batch(pairs, limit / STEPS, batch.ingest_ns, batch.opposite_us)

    def notes(self) -> Notes:
        """Return the least rates at which rows came."""
        return {**super().notes(), **self._sample.notes()}

    def _pairs(
        self, port: int, rows: pa.RecordBatch, positions: Ints, ids: Ints, buckets: pa.Array | None = None
    ) -> pa.RecordBatch:
        """Return the pairs of rows at these positions, of a side, with rows that the other one has kept."""
        ours, theirs = rows.take(pa.array(positions)), self._kept[1 - port].take(ids)
        left, right = (theirs, ours) if port else (ours, theirs)
        return self._columns.build(left, right, ids.size, buckets)
