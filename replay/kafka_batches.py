"""Batches that a scan of Kafka yields to Spark: rows, and if wanted one of nulls with `ERROR` for each other message.

Called in Spark's workers by the scans of a topic and of an archive, so that both yield the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.replay.spark_types import to_spark_batch

ERROR = "$error"
"""The column that says why a message is no row; no column of a pipeline has such a name."""


def scan_schema(rows: pa.Schema, *, errors: bool) -> pa.Schema:
    """Return the columns of a scan, if those of the rows are ``rows``."""
    return rows.append(pa.field(ERROR, pa.string())) if errors else rows


def scan_batch(
    rows: pa.RecordBatch | None, rejected: Sequence[str], fields: pa.Schema, *, errors: bool
) -> pa.RecordBatch | None:
    """Return what a scan yields of some messages, None if that is nothing.

    ``rejected`` are the errors of those that are no rows, ``fields`` the columns of the rows.
    """
    if errors and (rows is not None or rejected):
        rows = _with_errors(rows, rejected, fields)
    return to_spark_batch(rows) if rows is not None and rows.num_rows else None


def _with_errors(rows: pa.RecordBatch | None, rejected: Sequence[str], fields: pa.Schema) -> pa.RecordBatch:
    count = 0 if rows is None else rows.num_rows
    errors = pa.array([*[None] * count, *rejected], pa.string())
    columns = [pa.nulls(0, field.type) for field in fields] if rows is None else rows.columns
    if rejected:
        nulls = [pa.nulls(len(rejected), field.type) for field in fields]
        columns = [pa.concat_arrays([column, more]) for column, more in zip(columns, nulls, strict=True)]
    return pa.RecordBatch.from_arrays([*columns, errors], names=[*fields.names, ERROR])
