"""Rows that are in memory already as a source, and a sink that keeps them there. Called by the DSL and by tests."""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from penstock.engine.connectors.arrow_capsule import arrow_schema, batches_of, is_arrow, normal_schema
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.partitions import numbered, partition_number
from penstock.engine.connectors.positions import read_position
from penstock.engine.connectors.text.text_values import to_column
from penstock.model.connectors import ENDED, Read, Reader, Source
from penstock.model.errors import SchemaError, UserError

if TYPE_CHECKING:
    from penstock.model.expressions import Expr

__all__ = ["MemorySink", "MemorySource"]

_TURNS = 8
"""How often the partitions of one source take turns, at least."""

_TURN_ROWS = 32_768
"""The most rows of a turn."""


class _Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The next row of the whole table, and how many rows that has."""

    row: int
    rows: int


class MemorySource(Source):
    """The rows of one or several Arrow objects, or of a list of dicts."""

    in_caller = True

    def __init__(self, data: Any, schema: pa.Schema | None = None) -> None:
        """Take the rows; a stream is read to its end now.

        ``data`` is anything with the Arrow PyCapsule interface, a list of such, or a list of dicts (missing fields
        are null; without ``schema`` their types are inferred).

        Raises:
            SchemaError: the rows do not fit the schema, or it is none of these.
        """
        batches, own = _batches(data, schema)
        self._table = pa.Table.from_batches(batches, own).combine_chunks()

    @property
    def schema(self) -> pa.Schema:
        """The fields of the rows."""
        return self._table.schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Deal the rows out in turns."""
        return numbered(parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        """Open one partition."""
        start = _Position(0, self._table.num_rows) if position is None else read_position(self, position, _Position)
        if start.rows != self._table.num_rows:
            raise UserError(
                f"the rows in memory have changed since reading stopped: there were {start.rows}, and now there are "
                f"{self._table.num_rows}; bring the old rows back, or start the job anew"
            )
        return _MemoryReader(self._table, *partition_number(partition), start.row)

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> "MemorySource":
        """Keep only these columns."""
        restricted = copy(self)
        restricted._table = self._table.select(list(columns))
        return restricted

    def describe(self) -> str:
        """Say how many rows there are."""
        return f"memory, {self._table.num_rows:,} rows"


class _MemoryReader(Reader):
    """Reads every n-th turn of rows. Position: `_Position`."""

    def __init__(self, table: pa.Table, partition: int, partitions: int, position: int) -> None:
        self._table = table
        self._rows = int(table.num_rows)
        share = -(-self._rows // (_TURNS * partitions))
        self._turn = self._rows if partitions == 1 else max(1, min(_TURN_ROWS, share))
        self._skip = self._turn * (partitions - 1)
        self._next = max(position, partition * self._turn)

    def read(self, max_rows: int) -> Read:
        """Return the next rows of the turn."""
        if self._next >= self._rows:
            return ENDED
        turn_end = (self._next // self._turn + 1) * self._turn
        rows = min(max_rows, turn_end - self._next, self._rows - self._next)
        batches = self._table.slice(self._next, rows).to_batches()
        # A column over 2 GiB of text stays in several chunks, so the slice may be cut there.
        batch = batches[0]
        self._next += int(batch.num_rows)
        if self._next == turn_end:
            self._next += self._skip
        return Read(batch, ended=self._next >= self._rows)

    def position(self) -> dict[str, int]:
        """Return the next row."""
        return {"row": self._next, "rows": self._rows}


def _batches(data: Any, schema: pa.Schema | None) -> tuple[list[pa.RecordBatch], pa.Schema]:
    if is_arrow(data):
        own = schema if schema is not None else arrow_schema(data)
        return list(batches_of(data, own)), own
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        if data and all(is_arrow(item) for item in data):
            own = schema if schema is not None else arrow_schema(data[0])
            return [batch for item in data for batch in batches_of(item, own)], own
        if all(isinstance(item, dict) for item in data) and (data or schema is not None):
            return _from_dicts(data, schema)
    raise SchemaError(
        "rows in memory are an object with the Arrow PyCapsule interface (pyarrow, polars, pandas, DuckDB), a list of "
        f"such, or a list of dicts, with schema=... if it is empty; not {type(data).__name__}"
    )


def _from_dicts(data: Sequence[dict[str, Any]], schema: pa.Schema | None) -> tuple[list[pa.RecordBatch], pa.Schema]:
    try:
        if schema is None:
            names = list(dict.fromkeys(name for item in data for name in item))
            columns = [pa.array([item.get(name) for item in data]) for name in names]
            table = pa.table(columns, names)
            own = normal_schema(table.schema)
            return list(batches_of(table, own)), own
        columns = [to_column([item.get(field.name) for item in data], field.type) for field in schema]
        table = pa.table(columns, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"the rows do not fit the schema: {error}") from None
    return table.to_batches(), schema
