"""User-defined aggregates: the user's columns and methods behind the accumulator contract."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import Rows, bitmap, kept_rows, signs_of, taken
from penstock.engine.accumulators.cells import Accumulator, Cells
from penstock.engine.kernels.accumulate import add_counts
from penstock.model.aggregates import UserAggregate
from penstock.model.errors import UserError
from penstock.model.schema import to_arrow_type
from penstock.state.keys.arrays import Mask, read_only
from penstock.state.store import INTEGER, FixedColumn, KeyedTable, Slots


def user_defined(aggregate: UserAggregate) -> Accumulator:
    """Run a user's aggregate on the rows whose inputs are all known; a group without such rows
    answers null.

    Raises:
        SchemaError: its result type has no columnar counterpart.
        TypeError: a state column is not a numpy dtype.
    """
    columns = {f"user.{name}": FixedColumn(np.dtype(dtype)) for name, dtype in aggregate.state.items()}
    result_type = to_arrow_type(aggregate.result_type)
    return Accumulator(
        {**columns, "count": INTEGER},
        result_type,
        lambda table, prefix: UserCells(table, prefix, aggregate, result_type),
        retractable=aggregate.can_retract,
    )


class UserCells(Cells):
    """The user's state columns, and how many rows went in."""

    def __init__(self, table: KeyedTable, prefix: str, aggregate: UserAggregate, result_type: pa.DataType) -> None:
        super().__init__(table, prefix)
        self.aggregate = aggregate
        self.result_type = result_type

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the user's columns as they are now."""
        return {name: self.array(f"user.{name}") for name in self.aggregate.state}

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Call the user's `update` with the rows that came and `retract` with those that went."""
        signs = signs_of(rows, where, values)
        add_counts(read_only(rows.slots), signs, self.array("count"))
        kept = kept_rows(rows.slots, signs)
        slots: Slots = taken(rows.slots, kept)
        inputs = [taken(array, kept) for array in values]
        inserted = retracted = None
        if signs.shape[0]:
            signs = taken(signs, kept)
            inserted, retracted = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
        if inserted is None or inserted.size:
            self.aggregate.update(self.state(), taken(slots, inserted), [taken(array, inserted) for array in inputs])
        if retracted is not None and retracted.size:
            self.aggregate.retract(self.state(), taken(slots, retracted), [taken(array, retracted) for array in inputs])

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Call the user's `merge`."""
        theirs = self.peer(other)
        self.aggregate.merge(self.state(), into, theirs.state(), slots)
        self.add(("count",), into, theirs, slots)

    def result(self, slots: Slots) -> pa.Array:
        """Call the user's `result` for the groups that have rows.

        Raises:
            UserError: it answered with another number of values or another type.
        """
        valid = self.array("count")[slots] > 0
        present = slots[valid]
        answer = self.aggregate.result(self.state(), present)
        name = type(self.aggregate).__name__
        try:
            array = answer if isinstance(answer, pa.Array) else pa.array(answer)
            array = array.cast(self.result_type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise UserError(f"{name}.result must return values of type {self.result_type}: {error}") from error
        if len(array) != len(present):
            raise UserError(
                f"{name}.result returned {len(array)} values for {len(present)} groups; return one per group"
            )
        if len(present) == len(slots):
            return array
        places = np.maximum(np.cumsum(valid) - 1, 0)
        indices = pa.Array.from_buffers(pa.int64(), len(slots), [bitmap(valid), pa.py_buffer(places)])
        return array.take(indices)
