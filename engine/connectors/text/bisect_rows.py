"""Finds the few records that a vectorised conversion refuses, by halves. Called by readers of loosely typed input."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from penstock.engine.connectors.text.layouts import one_batch

Record = TypeVar("Record")

REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What Arrow's conversions of Python values raise for values that do not fit."""


def convert_rows(
    records: Sequence[Record], convert: Callable[[Sequence[Record]], pa.RecordBatch], schema: pa.Schema
) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
    """Convert records to rows; return the rows of those that convert, and index and reason of the others in order."""
    batches: list[pa.RecordBatch] = []
    errors: list[tuple[int, str]] = []
    pending = [(0, len(records))]
    while pending:
        first, end = pending.pop()
        if first == end:
            continue
        try:
            batches.append(convert(records[first:end]))
        except REFUSALS as error:
            if end - first == 1:
                errors.append((first, str(error)))
            else:
                middle = (first + end) // 2
                pending += [(middle, end), (first, middle)]
    return one_batch(batches, schema), errors
