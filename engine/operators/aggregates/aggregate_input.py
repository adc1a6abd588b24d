"""The input of an aggregate operator: a batch's keys, inputs and filters, compiled together and evaluated once.

Called by the group, window and session aggregates.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.aggregation import BoundAggregation
from penstock.engine.accumulators.arrays import RowQuality, Rows
from penstock.engine.core.contract import OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.expressions.values import bits
from penstock.engine.operators.aggregates.row_checksums import add_to_checksums
from penstock.engine.operators.changelog import weights_of
from penstock.engine.operators.isolate import evaluate
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import Expr
from penstock.model.job_graph import AggregateSpec, Keys
from penstock.model.result_columns import ACCURACY, BIASED, SAMPLE
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.keys.batch_keys import KeyBatch, KeyCodec
from penstock.state.store import KeyedTable, Slots


class RowInput:
    """The keys of rows and what aggregates see of them: expressions compiled together, of which equal ones are one."""

    def __init__(
        self,
        expressions: list[Expr],
        keys: Keys,
        calls: Sequence[tuple[str, AggregateCall]],
        schema: StreamSchema,
        name: str,
    ) -> None:
        """Compile everything against the input's fields, behind the ``expressions`` that have their places.

        Raises:
            PlanError: an expression does not fit the input.
        """
        place = partial(place_of, expressions)
        self._keys = [place(key) for _, key in keys]
        self._values = [[place(value) for value in call.inputs] for _, call in calls]
        self._filters = [None if call.where is None else place(call.where) for _, call in calls]
        columns = [(f"e{index}", expression) for index, expression in enumerate(expressions)]
        self._projection = compile_projection(columns, schema.fields, name) if columns else None
        self._time = schema.time

    def _computed(self, context: OperatorContext, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[pa.Array] | None]:
        """Return the rows that could be evaluated and their values; None if there are none.

        The others are counted and handed to the dead letters, which may raise `BadRecordError`.
        """
        if self._projection is None:
            return rows, []
        rows, projected = evaluate(context, self._projection, rows)
        return rows, None if projected is None else projected.columns


class AggregateInput(RowInput):
    """The input of one aggregate."""

    def __init__(self, spec: AggregateSpec, schema: StreamSchema, name: str, key_types: Sequence[pa.DataType]) -> None:
        """Compile; ``key_types`` may begin with types of leading key columns."""
        super().__init__([], spec.keys, spec.aggregates, schema, name)
        self._codec = KeyCodec(key_types)
        self._changelog = schema.changelog
        self._of_results = spec.estimates and ACCURACY in schema.fields.names
        told = [name for name in SAMPLE if spec.estimates and name in schema.fields.names]
        self._buckets = told[0] if told else None

    def evaluate(self, context: OperatorContext, batch: Batch) -> tuple[pa.RecordBatch, "EvaluatedRows | None"]:
        """Return the rows that could be evaluated and what came out; None if there are none."""
        rows, columns = self._computed(context, batch.rows)
        if columns is None:
            return rows, None
        weights = weights_of(rows) if self._changelog else None
        evaluated = EvaluatedRows(self, rows.num_rows, columns, weights, batch.keep)
        if self._of_results:
            evaluated.quality = quality_of(rows)
        if self._buckets is not None and batch.keep < 1.0:
            evaluated.buckets = rows.column(self._buckets).to_numpy()
        return rows, evaluated

    def times_us(self, rows: pa.RecordBatch) -> Ints | None:
        """Return the rows' event times, None when the input has none."""
        return None if self._time is None else event_times_us(rows, self._time)

    def encode(self, columns: Sequence[pa.Array], count: int, leading: Sequence[pa.Array]) -> KeyBatch:
        """Encode the keys of ``count`` evaluated rows, after the leading key columns."""
        return self._codec.encode([*leading, *(columns[index] for index in self._keys)], count)

    def fold(self, columns: Sequence[pa.Array], rows: Rows, into: BoundAggregation) -> None:
        """Update aggregates with evaluated rows."""
        masks = {index: mask_of(columns[index]) for index in self._filters if index is not None}
        values = [[columns[index] for index in inputs] for inputs in self._values]
        into.update(rows, values, [None if index is None else masks[index] for index in self._filters])


class EvaluatedRows:
    """The columns computed from some rows."""

    __slots__ = ("_columns", "_input", "buckets", "count", "keep", "quality", "weights")

    def __init__(
        self,
        input: AggregateInput,
        count: int,
        columns: Sequence[pa.Array],
        weights: NDArray[np.int8] | None,
        keep: float = 1.0,
        quality: RowQuality | None = None,
    ) -> None:
        self._input = input
        self._columns = columns
        self.count = count
        self.weights = weights
        self.keep = keep
        self.quality = quality
        self.buckets: NDArray[np.uint8] | None = None

    def keys(self, *leading: pa.Array) -> KeyBatch:
        """Return the rows' keys, encoded; ``leading`` are the key columns that the operator adds in front."""
        return self._input.encode(self._columns, self.count, leading)

    def take(self, rows: Ints) -> "EvaluatedRows":
        """Return these rows; they may repeat."""
        indices = pa.array(rows)
        columns = [column.take(indices) for column in self._columns]
        weights = None if self.weights is None else self.weights[rows]
        quality = None if self.quality is None else self.quality.take(rows)
        taken = EvaluatedRows(self._input, len(rows), columns, weights, self.keep, quality)
        taken.buckets = None if self.buckets is None else self.buckets[rows]
        return taken

    def fold(self, slots: Slots, times_us: Ints | None, into: BoundAggregation) -> None:
        """Update the aggregates of each row's slot (-1: leave the row out)."""
        self._input.fold(
            self._columns, Rows(slots, self.weights, times_us, self.keep, self.quality, self.buckets), into
        )

    def add_to_checksums(self, table: KeyedTable, slots: Slots, times_us: Ints | None) -> None:
        """Fold the rows of a changelog into the checksums of their slots."""
        if self.weights is not None:
            add_to_checksums(table, slots, self._columns, times_us, self.weights)


def place_of(expressions: list[Expr], expression: Expr) -> int:
    """Return where an expression is in a list, at whose end it is put if it is not there."""
    for index, other in enumerate(expressions):
        if other.same_as(expression):
            return index
    expressions.append(expression)
    return len(expressions) - 1


def quality_of(rows: pa.RecordBatch) -> RowQuality | None:
    """Return how good rows are that carry the columns of results; None: all of them are exact."""
    missing = 1.0 - rows.column(ACCURACY).to_numpy()
    flaws = bits(rows.column(BIASED)) | (missing > 0.0)
    return RowQuality(missing, flaws.astype(np.float64)) if flaws.any() else None


def mask_of(column: pa.Array) -> Mask:
    """Return True where a condition is true; null is not."""
    return np.zeros(len(column), np.bool_) if pa.types.is_null(column.type) else bits(column)
