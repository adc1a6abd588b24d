"""Batches that a scan of Kafka yields to Spark: rows, rows and unreadable messages, or those messages alone.

Called in Spark's workers by the scans of a topic and of an archive, so that both yield the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import pyarrow as pa

from penstock.model.connectors import RawRecord
from penstock.replay.spark_types import to_spark_batch

ERROR = "$error"
"""The column that says why a message is no row; no column of a pipeline has such a name."""

LETTERS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("error", pa.string()),
    ]
)
"""A message that cannot be read, and why."""


class ScanContent(Enum):
    """The content of a scan: rows, rows and one of nulls with `ERROR` for each message that is none, or `LETTERS`."""

    ROWS = "rows"
    COUNTED = "counted"
    LETTERS = "letters"

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns, if those of the rows are ``rows``."""
        if self is ScanContent.LETTERS:
            return LETTERS
        return rows.append(pa.field(ERROR, pa.string())) if self is ScanContent.COUNTED else rows

    def batch(
        self, rows: pa.RecordBatch | None, rejected: Sequence[RawRecord], fields: pa.Schema
    ) -> pa.RecordBatch | None:
        """Return what is wanted of some messages, None if that is nothing; ``fields`` are those of the rows."""
        if self is ScanContent.LETTERS:
            made = _letters(rejected) if rejected else None
        elif self is ScanContent.COUNTED and (rows is not None or rejected):
            made = _counted(rows, rejected, fields)
        else:
            made = rows
        return to_spark_batch(made) if made is not None and made.num_rows else None


def _counted(rows: pa.RecordBatch | None, rejected: Sequence[RawRecord], fields: pa.Schema) -> pa.RecordBatch:
    count = 0 if rows is None else rows.num_rows
    errors = pa.array([None] * count + [record.error for record in rejected], pa.string())
    columns = [pa.nulls(0, field.type) for field in fields] if rows is None else rows.columns
    if rejected:
        nulls = [pa.nulls(len(rejected), field.type) for field in fields]
        columns = [pa.concat_arrays([column, more]) for column, more in zip(columns, nulls, strict=True)]
    return pa.RecordBatch.from_arrays([*columns, errors], names=[*fields.names, ERROR])


def _letters(rejected: Sequence[RawRecord]) -> pa.RecordBatch:
    columns: list[list[object]] = [
        [record.topic for record in rejected],
        [record.partition for record in rejected],
        [record.offset for record in rejected],
        [record.timestamp_ms for record in rejected],
        [record.key for record in rejected],
        [None if record.tombstone else record.raw for record in rejected],
        [record.error for record in rejected],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, LETTERS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=LETTERS)
