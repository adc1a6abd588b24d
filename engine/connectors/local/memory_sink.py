"""A sink that keeps what it receives in memory, for tests, notebooks and small results."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.local.table_rows import table_rows
from penstock.engine.connectors.text.row_text import json_texts
from penstock.model.connectors import Sink, Writer
from penstock.model.errors import PlanError
from penstock.model.sink_context import SinkContext

_WEIGHT = pa.field("weight", pa.int8(), nullable=False)
_DELETED = pa.field("deleted", pa.bool_(), nullable=False)
_COMPACT_ROWS = 1 << 16


class _Kept(NamedTuple):
    """A batch that can be seen; ``epoch`` is that of the commit, 0 without checkpoints."""

    epoch: int
    instance: int
    rows: pa.RecordBatch


@dataclass
class _Contents:
    """The contents of a sink. ``prepared``: batches that a commit will show, by epoch and instance."""

    schema: pa.Schema | None = None
    received: list[_Kept] = field(default_factory=list)
    prepared: dict[tuple[int, int], list[pa.RecordBatch]] = field(default_factory=dict)


class MemorySink(Sink):
    """Keeps batches. Read it when the job has ended, or while it runs for what has come so far.

    In a job that takes checkpoints, rows are seen when the checkpoint behind them is complete, and once. They are gone
    with the process: a job that goes on in another one puts out what is new.

    Of a changelog, `table` holds the rows that stand after all retractions; of an upserting stream, the last row of
    each key that was not deleted. Exports itself by the Arrow PyCapsule interface.
    """

    transactional = True
    in_caller = True

    def __init__(self, key: str | Sequence[str] = ()) -> None:
        """``key`` names the key columns of an upserting stream."""
        self._key = [key] if isinstance(key, str) else list(key)
        self._contents = _Contents()
        self._holds_back = False
        self._kept_rows = 0
        self._new_rows = 0

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """Everything received, in order, as it came; of an upserting stream, at least the last row of each key."""
        return [kept.rows for kept in self._contents.received]

    def table(self) -> pa.Table:
        """Return the rows that stand.

        Raises:
            PlanError: no job has written to the sink yet.
        """
        received, schema = self._all(), self._contents.schema
        if schema is not None and schema.field(-1).equals(_WEIGHT):
            return consolidate(received)
        if self._upserts():
            last = latest(received, self._key)
            return last.filter(pc.invert(last["deleted"])).drop_columns(["deleted"])
        return received

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that stand as dicts."""
        return table_rows(self.table())

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Forget what this instance wrote in an earlier run; with checkpoints `recover` says what is forgotten."""
        self._contents.schema = schema
        if self._holds_back:
            return _HoldingWriter(self._contents, instance)
        self._contents.received = [
            kept for kept in self._contents.received if kept.instance != instance and kept.instance < parallelism
        ]
        return _MemoryWriter(self, instance)

    def with_checkpoints(self, context: SinkContext | None = None) -> "MemorySink":
        """Return a sink that fills this one by `commit` only."""
        other = MemorySink(self._key)
        other._contents, other._holds_back = self._contents, True
        return other

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        """Show what was prepared; receipts of another process stand for nothing that is here."""
        for prepared_epoch, instance in filter(None, receipts):
            batches = self._contents.prepared.pop((prepared_epoch, instance), [])
            self._contents.received += [_Kept(epoch, instance, rows) for rows in batches]

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """Forget what came after the epoch, and finish its commit."""
        last = 0 if epoch is None else epoch
        self._contents.received = [kept for kept in self._contents.received if 0 < kept.epoch <= last]
        self.commit(last, receipts)
        self._contents.prepared.clear()

    def describe(self) -> str:
        """Say that rows stay in memory."""
        return "memory"

    def take(self, instance: int, rows: pa.RecordBatch) -> None:
        """Show a batch that an instance wrote."""
        self._contents.received.append(_Kept(0, instance, rows))
        self._new_rows += rows.num_rows
        if self._upserts() and self._new_rows > max(_COMPACT_ROWS, self._kept_rows):
            last = latest(self._all(), self._key).combine_chunks()
            self._contents.received = [_Kept(0, instance, batch) for batch in last.to_batches()]
            self._kept_rows, self._new_rows = last.num_rows, 0

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)

    def _upserts(self) -> bool:
        schema = self._contents.schema
        return bool(self._key) and schema is not None and bool(schema.field(-1).equals(_DELETED))

    def _all(self) -> pa.Table:
        if self._contents.schema is None:
            raise PlanError("the memory sink holds nothing yet: run the job first")
        return pa.Table.from_batches(self.batches, self._contents.schema)


class _MemoryWriter(Writer):
    def __init__(self, sink: MemorySink, instance: int) -> None:
        self._sink = sink
        self._instance = instance

    def write(self, rows: pa.RecordBatch) -> None:
        self._sink.take(self._instance, rows)


class _HoldingWriter(Writer):
    """Holds rows until the barrier; the receipt is [epoch, instance], None if there were none."""

    def __init__(self, contents: _Contents, instance: int) -> None:
        self._contents = contents
        self._instance = instance
        self._held: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)

    def prepare(self, epoch: int) -> list[int] | None:
        if not self._held:
            return None
        self._contents.prepared[epoch, self._instance] = self._held
        self._held = []
        return [epoch, self._instance]


def consolidate(changes: pa.Table) -> pa.Table:
    """Return the rows that stand after a changelog whose last column is ``weight``, in order of their last change.

    A row with a weight of two comes twice; one that was retracted more often than inserted does not come.
    """
    rows = changes.drop_columns(["weight"])
    groups = _grouped(rows, changes["weight"].cast(pa.int64()))
    weights = np.asarray(groups["weight_sum"])
    copies = np.repeat(np.asarray(groups["row_max"]), np.maximum(weights, 0))
    return rows.take(pa.array(np.sort(copies)))


def latest(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last row of each key, in order of those rows."""
    groups = _grouped(changes.select(list(key)), None)
    return changes.take(groups["row_max"].sort())


def _grouped(rows: pa.Table, weight: pa.ChunkedArray | None) -> pa.Table:
    """Group equal rows (null equals null): the sum of their weights and the number of the last one."""
    names = [f"column_{index}" for index in range(rows.num_columns)]
    columns = [_groupable(column) for column in rows.columns]
    weights = pa.array(np.zeros(rows.num_rows, np.int64)) if weight is None else weight
    table = pa.table([*columns, weights, pa.array(np.arange(rows.num_rows))], [*names, "weight", "row"])
    return table.group_by(names, use_threads=False).aggregate([("weight", "sum"), ("row", "max")])


def _groupable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return nested values as their JSON text, since Arrow groups flat ones only, and numbers as they are compared."""
    if pa.types.is_floating(column.type):
        # A changelog may retract 0.0 where -0.0 was inserted, and one NaN for another: they are equal.
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(column), float("nan"), column)
        return pc.if_else(pc.equal(column, 0.0), 0.0, column)
    if not pa.types.is_nested(column.type):
        return column
    return pa.chunked_array([json_texts(chunk) for chunk in column.chunks], pa.string())
