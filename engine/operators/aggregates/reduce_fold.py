"""The user's function of a reduce, called row by row, and the rows it has made so far, in state."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import OperatorContext
from penstock.engine.operators.functions.python_rows import dataclass_row, python_rows
from penstock.model.errors import SchemaError
from penstock.model.source_location import user_traceback
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.store import ColumnSpec, FixedColumn, KeyedTable, Positions, Slots, StateStore

Row = dict[str, Any]

ROW_COLUMN: dict[str, ColumnSpec] = {"row": FixedColumn(np.dtype(np.int64), refers="reduced", base=1)}
"""What `ReducedRows` keeps in the table: the id of the reduced row in the log ``reduced``, plus one."""


class Folder:
    """Folds rows with the user's function of two rows."""

    def __init__(self, function: Callable[[Row, Row], Row], fields: pa.Schema) -> None:
        """``fields`` are those of the rows that go in and come out."""
        self._function = function
        self._fields = fields
        self._names = fields.names
        self._expected = set(fields.names)

    def fold(
        self,
        context: OperatorContext,
        rows: pa.RecordBatch,
        entries: Ints,
        cells: Ints,
        reduced: list[Row | None],
    ) -> pa.RecordBatch:
        """Fold row entries[i] into reduced[cells[i]], in order, and return all cells as a batch.

        A cell's first row is taken as it is, and every cell has one. A row for which the function raises goes to the
        dead letters and is no longer counted as folded.

        Raises:
            SchemaError: the function returned something else than a row of the fields.
            BadRecordError: the function raised and the policy is ``fail``.
        """
        records = python_rows(rows, self._names)
        function, expected = self._function, self._expected
        failed: dict[int, str] = {}
        shared = len(entries) > len(records)
        for index, cell in zip(entries.tolist(), cells.tolist(), strict=True):
            before = reduced[cell]
            # Copies, because a function may change its arguments, and raise after that or see the row again.
            row = records[index].copy() if shared else records[index]
            if before is None:
                reduced[cell] = row
                continue
            try:
                result = function(before.copy(), row)
            except Exception as failure:
                failed[index] = user_traceback(failure)
                continue
            if type(result) is not dict:
                result = _as_row(result)
            if result.keys() != expected:
                raise self._misfit(context.name, result)
            reduced[cell] = result
        if failed:
            context.counters.folded -= len(failed)
            context.counters.dead_lettered += len(failed)
            bad = rows.select(self._names).take(pa.array(list(failed), pa.int64()))
            context.dead_letters.reject(context.name, bad, list(failed.values()))
        return self._to_batch(context.name, [row for row in reduced if row is not None])

    def _to_batch(self, name: str, rows: list[Row]) -> pa.RecordBatch:
        arrays = []
        for field in self._fields:
            try:
                arrays.append(pa.array([row[field.name] for row in rows], field.type))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                raise SchemaError(
                    f"the function of {name!r} returned a {field.name!r} that is no {field.type}: {error}"
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self._fields)

    def _misfit(self, name: str, result: Row) -> SchemaError:
        missing = sorted(self._expected - result.keys())
        if missing:
            return SchemaError(f"the function of {name!r} returned a row without {missing[0]!r}")
        unknown = next(key for key in result if key not in self._expected)
        return SchemaError(
            f"the function of {name!r} returned a row with {unknown!r}; it must have the input's columns "
            f"{', '.join(self._names)}"
        )


class ReducedRows:
    """The reduced row of each slot of a table: a row of a log, replaced when it changes."""

    def __init__(self, store: StateStore, table: KeyedTable, fields: pa.Schema) -> None:
        """Open the log; the table, of the same store, has `ROW_COLUMN`."""
        self._table = table
        self._log = store.log("reduced", fields)
        self._names = fields.names

    def has(self, slots: Slots) -> Mask:
        """Return which slots have a row."""
        present: Mask = self._table.array("row")[slots] > 0
        return present

    def read(self, slots: Slots) -> list[Row | None]:
        """Return the rows of these slots as the function takes them; None where there is none."""
        present = np.flatnonzero(self.has(slots))
        rows: list[Row | None] = [None] * len(slots)
        items = python_rows(self.batch(slots[present]), self._names)
        for position, row in zip(present.tolist(), items, strict=True):
            rows[position] = row
        return rows

    def batch(self, slots: Slots) -> pa.RecordBatch:
        """Return the rows of these slots; all have one."""
        return self._log.take(self._table.array("row")[slots] - 1)

    def write(self, slots: Slots, rows: pa.RecordBatch, positions: Positions) -> None:
        """Replace the rows of these slots, each once; ``positions`` say where the slots' keys lie."""
        self.drop(slots)
        self._table.array("row")[slots] = self._log.append(rows, positions) + 1

    def drop(self, slots: Slots) -> None:
        """Forget the rows of these slots."""
        ids = self._table.array("row")[slots]
        self._log.remove(ids[ids > 0] - 1)
        self._table.array("row")[slots] = 0


def _as_row(result: Any) -> Row:
    row = dict(result) if isinstance(result, Mapping) else dataclass_row(result)
    if row is None:
        raise SchemaError(f"a reduce function must return a dict or a dataclass, not {type(result).__name__}")
    return row
