"""Batches of their own keep rates, and an aggregation that takes them in, for the tests of weighted accumulators."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import Aggregation, BoundAggregation
from penstock.engine.accumulators.arrays import RowQuality, Rows
from penstock.engine.accumulators.estimates import Sample
from penstock.engine.operators.aggregates.estimate_schema import estimate_fields
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec
from penstock.model.windows import Count, Windowing
from penstock.state.store import KeyedTable, Slots
from tests.engine.accumulators.accumulators_support import table

CALLS: dict[str, AggregateCall] = {
    "n": AggregateCall("count"),
    "known": AggregateCall("count", (col("x"),)),
    "big": AggregateCall("count").filter(col("x") > 2),
    "total": AggregateCall("sum", (col("x"),)),
    "average": AggregateCall("mean", (col("x"),)),
}


@dataclass(frozen=True)
class Part:
    """Rows of one batch: the group and value (None: null) of each, and the batch's keep rate."""

    groups: list[int]
    values: list[float | None]
    keep: float = 1.0

    @property
    def weight(self) -> float:
        """How many rows each stands for."""
        return 1.0 / self.keep


class SampledGroups:
    """Aggregates over ``size`` groups, numbered from 0."""

    def __init__(
        self,
        calls: dict[str, AggregateCall] | None = None,
        kind: pa.DataType | None = None,
        size: int = 4,
        sample: Sample = Sample.ESTIMATED,
        updating: bool = False,
    ) -> None:
        self.sample = sample
        self.calls = CALLS if calls is None else calls
        self.kind = pa.float64() if kind is None else kind
        types = [[self.kind] * len(call.inputs) for call in self.calls.values()]
        self.aggregation = Aggregation(
            "op", list(self.calls), list(self.calls.values()), types, updating, sample=sample
        )
        self.table, self.slots = self._table(size)
        self.bound = self.bind(self.table, self.slots)

    def _table(self, size: int) -> tuple[KeyedTable, Slots]:
        return table(self.aggregation.columns(), size)

    def bind(self, cells: KeyedTable, slots: Slots) -> BoundAggregation:
        bound = self.aggregation.bind(cells)
        bound.reset(slots)
        return bound

    def fold(
        self, part: Part, signs: Sequence[int] | None = None, quality: RowQuality | None = None
    ) -> "SampledGroups":
        """Fold a batch in; filters are of values above 2."""
        x = pa.array(part.values, self.kind)
        above = np.array([value is not None and value > 2 for value in part.values], np.bool_)
        rows = Rows(
            self.slots[np.array(part.groups, np.int64)],
            None if signs is None else np.array(signs, np.int8),
            keep=part.keep,
            quality=quality,
        )
        calls = self.calls.values()
        self.bound.update(
            rows, [[x] * len(call.inputs) for call in calls], [None if call.where is None else above for call in calls]
        )
        return self

    def absorb(self, other: "SampledGroups") -> None:
        """Merge every group of another into that of the same number."""
        self.bound.absorb(self.slots, other.bound, other.slots)

    def results(self) -> list[dict[str, object]]:
        """Return the results of all groups as dictionaries."""
        arrays = self.bound.results(self.slots)
        fields = self.aggregation.fields()
        if self.aggregation.estimates is not None:
            window = None if self.sample is Sample.ESTIMATED else Windowing(Count(2))
            fields += estimate_fields(AggregateSpec((), tuple(self.calls.items()), window), fields)
        for array, field in zip(arrays, fields, strict=True):
            array.validate(full=True)
            assert array.type == field.type, field
            assert field.nullable or not array.null_count, field
        rows: list[dict[str, object]] = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)).to_pylist()
        return rows
