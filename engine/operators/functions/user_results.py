"""Results of users' functions as rows of their schema: the checks that all kinds of functions share."""

import difflib
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.normalise import to_schema
from penstock.engine.connectors.time_range import time_error, unusable_times
from penstock.model.errors import SchemaError
from penstock.model.schema import TimeColumn


def batch_of(result: Any, fields: pa.Schema, rule: str) -> pa.RecordBatch:
    """Return what a function of batches returned as rows of the fields; ``rule`` says what it must return.

    Raises:
        SchemaError: it is nothing Arrow-like, or does not fit.
    """
    if not isinstance(result, pa.RecordBatch):
        arrow = hasattr(result, "__arrow_c_stream__") or hasattr(result, "__arrow_c_array__")
        if not arrow and not isinstance(result, dict):
            raise SchemaError(
                f"{rule} an object with the Arrow PyCapsule interface (pyarrow, polars, pandas) or a dict of columns, "
                f"not {type(result).__name__}"
            )
        table = pa.table(result)
        batches = table.combine_chunks().to_batches()
        result = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    return to_schema(result, fields)


def time_errors(rows: pa.RecordBatch, time: TimeColumn | None) -> dict[int, str]:
    """Return why rows of a result have no usable event time, by their number."""
    bad = None if time is None or not rows.num_rows else unusable_times(rows.column(time.name))
    if time is None or bad is None:
        return {}
    times = rows.column(time.name)
    return {row: time_error(time.name, not times[row].is_valid) for row in np.flatnonzero(bad).tolist()}


def rows_without(rows: pa.RecordBatch, bad: Collection[int]) -> tuple[pa.RecordBatch, np.ndarray]:
    """Return the other rows, and their numbers."""
    left = np.delete(np.arange(rows.num_rows), list(bad))
    return rows.take(pa.array(left)), left


def check_known(columns: Iterable[Any], names: list[str]) -> None:
    """Check that a row has no columns but these.

    Raises:
        SchemaError: naming the first unknown one.
    """
    unknown = [name for name in columns if name not in names]
    if unknown:
        close = difflib.get_close_matches(str(unknown[0]), names, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(names)}"
        raise SchemaError(f"the function returned {unknown[0]!r}, which is not in its schema{hint}")
