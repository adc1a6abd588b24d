"""The first rows of every key, in an order: top-n and deduplication that keeps the last row.

The result is a changelog, emitted at most once per interval, or in quiet moments.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.operators.descriptions import Words, columns_text, count_text, order_text
from penstock.engine.operators.descriptor import KeyedDescriptor, PlanContext
from penstock.engine.operators.isolate import evaluate
from penstock.engine.operators.key_lookup import KeyLookup
from penstock.engine.operators.ranking.top_counts import RankedRowCounts
from penstock.engine.operators.ranking.top_ranks import RankedRows
from penstock.engine.operators.ranking.top_schema import plan_top
from penstock.engine.operators.state_descriptions import order_words
from penstock.engine.operators.updating_operator import UpdatingOperator
from penstock.model.job_graph import OperatorNode
from penstock.model.keyed_specs import TopSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import Slots, TableSpec


class Top(UpdatingOperator):
    """The first rows of every key, as a changelog.

    Of append-only rows only those that are among the first are kept, of a changelog all. Rows count as folded.
    """

    minds_watermarks = False

    def __init__(self, spec: TopSpec, schema: StreamSchema, name: str) -> None:
        """Check the spec against the input and compile keys and order.

        Raises:
            PlanError: see `plan_top`.
        """
        self._plan = plan_top(spec, schema, name)
        self._interval_us = spec.interval_us
        self._codec = KeyCodec(self._plan.key_types)
        keys = [(f"key{index}", key) for index, (_, key) in enumerate(spec.keys)]
        order = [(f"order{index}", by.expression) for index, by in enumerate(spec.order)]
        self._projection = compile_projection([*keys, *order], schema.fields, name)
        self._order_only = compile_projection(order, schema.fields, name)

    def open(self, context: OperatorContext) -> None:
        """Open the table of keys and the log of rows; order what it holds again."""
        super().open(context)
        self._table = context.state.table(TableSpec("keys", self._plan.key_types))
        self._log = context.state.log("rows", self._plan.input.physical, context.locate_port(0))
        self._lookup = KeyLookup(self._table)
        self._kept: RankedRows | RankedRowCounts
        if self._plan.input.changelog:
            self._kept = RankedRowCounts(self._plan, self._log, self._table, self._order_only)
        else:
            self._kept = RankedRows(self._plan, self._log, self._order_only)
        self._restore()

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Rank one batch; emit if the interval has passed."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        rows, evaluated = evaluate(self.context, self._projection, batch.rows)
        if evaluated is None or not rows.num_rows:
            return
        counters.folded += rows.num_rows
        self._kept.fold(rows, self._order_of(evaluated), self._slots(evaluated))
        yield from self._after(batch)

    def has_pending(self) -> bool:
        """Return whether anything changed since the last emission."""
        return bool(self._kept)

    def _changes(self) -> Iterator[pa.RecordBatch]:
        return self._kept.emit(self.context.batch_rows)

    def _restore(self) -> None:
        ids, step = self._log.live(), self.context.batch_rows
        for start in range(0, ids.size, step):
            part = ids[start : start + step]
            rows = self._log.take(part)
            evaluated = self._projection(rows)
            self._kept.restore(rows, self._order_of(evaluated), self._slots(evaluated), part)
        if isinstance(self._kept, RankedRowCounts):
            self._kept.restored(step)

    def _slots(self, evaluated: pa.RecordBatch) -> Slots:
        keys = self._codec.encode(evaluated.columns[: len(self._plan.key_types)], evaluated.num_rows)
        return np.ascontiguousarray(self._lookup.upsert(keys).slots)

    def _order_of(self, evaluated: pa.RecordBatch) -> Sequence[pa.Array]:
        columns: list[pa.Array] = evaluated.columns
        return columns[len(self._plan.key_types) :]


class TopDescriptor(KeyedDescriptor[TopSpec]):
    """The first rows of every key; what is kept are these rows."""

    spec = TopSpec
    verb = "top"
    operator = Top

    def outputs(self, spec: TopSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the changelog of the first rows; see `plan_top`."""
        return {MAIN: plan_top(spec, inputs[0], name).output}

    def traits(self, spec: TopSpec, context: PlanContext) -> dict[str, str]:
        """Return which rows are kept."""
        return {
            "number of rows": str(spec.rows),
            "order": order_words(spec.order),
            "rank": "none" if spec.rank is None else "a column",
            "ties": "greatest first" if spec.tie_descending else "least first",
        }

    def words(self, spec: TopSpec, node: OperatorNode) -> Words:
        """Say how many rows, of which keys, in which order."""
        rank = () if spec.rank is None else (("rank", spec.rank),)
        headline = f"first {count_text(spec.rows, 'row')} per {columns_text(spec.keys) or 'all rows'}"
        return Words(headline, (("order", order_text(spec.order)), *rank))


TOP = TopDescriptor()
