"""The input of running and row-window aggregates from each row: its key, and the values that they aggregate."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import BoundAggregation
from penstock.engine.accumulators.arrays import Rows
from penstock.engine.core.contract import OperatorContext
from penstock.engine.core.event_time import event_times_us
from penstock.engine.operators.aggregates.aggregate_input import RowInput, mask_of, place_of
from penstock.engine.operators.ordered_rows import sort_keys
from penstock.engine.operators.over.schema import OverPlan
from penstock.model.expressions import Expr
from penstock.model.keyed_specs import OverSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import Slots

_AT = pa.field("$at", pa.int64(), nullable=False)


class OverInput(RowInput):
    """The input of one operator.

    ``seen`` are the fields of what aggregates see of a row: its inputs, its filters and its event time.
    """

    def __init__(self, spec: OverSpec, plan: OverPlan, schema: StreamSchema, name: str) -> None:
        """Compile everything against the input's fields."""
        expressions = seen_expressions(spec)
        self._seen = len(expressions)
        self._order = [(place_of(expressions, item.expression), item.descending) for item in spec.order]
        super().__init__(expressions, spec.keys, spec.aggregates, schema, name)
        fields = [] if self._projection is None else list(self._projection.schema)[: self._seen]
        self.seen = pa.schema([*fields, _AT])
        self._codec = KeyCodec(plan.key_types)
        self._timed = plan.timed

    def evaluate(
        self, context: OperatorContext, rows: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, KeyBatch | None, pa.RecordBatch | None]:
        """Return the rows that could be evaluated, their keys and what aggregates see of them, or None."""
        rows, columns = self._computed(context, rows)
        if columns is None:
            return rows, None, None
        seen = [*columns[: self._seen], pa.array(self.times_us(rows))]
        keys = self._codec.encode([columns[index] for index in self._keys], rows.num_rows)
        return rows, keys, pa.RecordBatch.from_arrays(seen, schema=self.seen)

    def times_us(self, rows: pa.RecordBatch) -> Ints:
        """Return the rows' event times, zeros if they have none; do not write to the array."""
        return np.zeros(rows.num_rows, np.int64) if self._time is None else event_times_us(rows, self._time)

    def order_keys(self, rows: pa.RecordBatch) -> list[Ints]:
        """Return arrays whose lexicographic order is the one that was asked for; none for that of event time."""
        if not self._order or self._projection is None:
            return []
        columns = self._projection(rows).columns
        return [key for place, descending in self._order for key in _directed(columns[place], descending)]

    def fold(self, seen: pa.RecordBatch, slots: Slots, into: BoundAggregation, calls: Sequence[int]) -> None:
        """Update these aggregates with what they see of rows."""
        into.update(*self._arguments(seen, slots, calls))

    def follow(
        self, seen: pa.RecordBatch, slots: Slots, into: BoundAggregation, calls: Sequence[int]
    ) -> list[pa.Array]:
        """Update these aggregates row by row and return what they are after each."""
        return into.follow(*self._arguments(seen, slots, calls))

    def _arguments(
        self, seen: pa.RecordBatch, slots: Slots, calls: Sequence[int]
    ) -> tuple[Rows, list[list[pa.Array]], list[Mask | None]]:
        times_us = seen.column(self._seen).to_numpy() if self._timed else None
        used = {index for call in calls if (index := self._filters[call]) is not None}
        masks = {index: mask_of(seen.column(index)) for index in used}
        values = [[seen.column(index) for index in self._values[call]] for call in calls]
        filters = [self._filters[call] for call in calls]
        return Rows(slots, None, times_us), values, [None if index is None else masks[index] for index in filters]


def seen_expressions(spec: OverSpec) -> list[Expr]:
    """Return what aggregates see of a row: the columns ``e0``, ``e1``... of the rows that frames keep, in order."""
    expressions: list[Expr] = []
    for value in (value for _, call in spec.aggregates for value in call.inputs):
        place_of(expressions, value)
    for condition in (call.where for _, call in spec.aggregates if call.where is not None):
        place_of(expressions, condition)
    return expressions


def _directed(column: pa.Array, descending: bool) -> list[Ints]:
    """Return sort keys for a direction; nulls come last in either."""
    keys = sort_keys(column)
    nulls = [1 - keys.pop(0)] if column.null_count and keys else []
    return nulls + [~key if descending else key for key in keys]
