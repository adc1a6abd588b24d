"""The face of one aggregate on a table in memory, for the tests of accumulators."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.engine.accumulators.arrays import Rows
from penstock.model.aggregates import AggregateCall
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import ColumnSpec, KeyedTable, Slots, TableSpec
from penstock.state.stores.memory_store import MemoryStore


def table(columns: Mapping[str, ColumnSpec], size: int) -> tuple[KeyedTable, Slots]:
    """Return a table with these columns and the slots of ``size`` fresh keys, not in order."""
    keys = (pa.int64(),)
    cells = MemoryStore("op").table(TableSpec("t", keys, columns))
    numbers = np.random.default_rng(size).permutation(size + 3)
    slots = cells.upsert(KeyCodec(keys).encode([pa.array(numbers)])).slots
    cells.remove(slots[size:])
    return cells, slots[:size]


class Groups:
    """One aggregate over ``size`` groups, numbered from 0."""

    def __init__(
        self,
        call: AggregateCall,
        types: list[pa.DataType],
        size: int = 4,
        updating: bool = False,
    ) -> None:
        self.types = types
        self.aggregation = Aggregation("op", ["x"], [call], [types], updating)
        self.table, self.slots = table(self.aggregation.columns(), size)
        self.bound = self.aggregation.bind(self.table)
        self.bound.reset(self.slots)

    def update(self, groups: Any, *columns: Any, weights: Any = None, where: Any = None, times: Any = None) -> "Groups":
        """Fold rows in; group -1 leaves a row out."""
        groups = np.asarray(groups, np.int64)
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, kind)
            for column, kind in zip(columns, self.types, strict=True)
        ]
        rows = Rows(
            np.where(groups >= 0, self.slots[groups], -1),
            None if weights is None else np.asarray(weights, np.int8),
            None if times is None else np.asarray(times, np.int64),
        )
        mask = None if where is None else np.asarray(where, np.bool_)
        self.bound.update(rows, [arrays], [mask])
        return self

    def absorb(self, into: Any, groups: Any, other: "Groups | None" = None) -> None:
        """Merge groups[i] of another (default: of this) into into[i]."""
        source = other or self
        into, groups = np.asarray(into, np.int64), np.asarray(groups, np.int64)
        self.bound.absorb(self.slots[into], source.bound, source.slots[groups])

    def result(self, groups: Any = None) -> pa.Array:
        """Return the results of these groups (default: all)."""
        slots = self.slots if groups is None else self.slots[np.asarray(groups, np.int64)]
        (result,) = self.bound.results(slots)
        result.validate(full=True)
        assert result.type == self.aggregation.fields()[0].type
        assert len(result) == len(slots)
        return result
