"""The errors of the rows that a query writes, which wants them to be small: counted, and left out where it says so.

Called by the sink's operator, batch by batch, on the columns that `sink_columns` shows.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.columns import Floats
from penstock.model.max_error import MaxError
from penstock.model.schema import WEIGHT
from penstock.shedding.result_errors import ErrorCounts, relative_half_widths, widest


class SinkErrors:
    """Counts rows by the widest of their intervals; ``counts`` is of all rows since it began.

    Rows of which nothing was shed say nothing and stay as they are; so do retractions, which are not counted again.
    """

    def __init__(self, intervals: Sequence[str], wanted: MaxError) -> None:
        """Take the aggregates that have intervals, by name, one or more."""
        self._intervals = tuple(intervals)
        self._wanted = wanted
        self.counts = ErrorCounts()

    def rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Count rows and return them, with null for values whose interval is too wide if that is wanted."""
        keep = rows.column("accuracy")
        if not rows.num_rows or pc.min(keep).as_py() >= 1.0:
            return rows
        keeps = _doubles(keep)
        widths = [self._half_widths(rows, name) for name in self._intervals]
        counted = keeps < 1.0
        if WEIGHT in rows.schema.names:
            counted &= _doubles(rows.column(WEIGHT)) > 0
        self.counts = self.counts + ErrorCounts.of(widest(widths)[counted], keeps[counted])
        if self._wanted.otherwise != "null":
            return rows
        for name, width in zip(self._intervals, widths, strict=True):
            at = rows.schema.get_field_index(name)
            is_wide = pa.array((width > self._wanted.error) & (keeps < 1.0))
            values = pc.if_else(is_wide, pa.scalar(None, rows.column(at).type), rows.column(at))
            rows = rows.set_column(at, rows.schema.field(at), values)
        return rows

    def _half_widths(self, rows: pa.RecordBatch, name: str) -> Floats:
        return relative_half_widths(*(_doubles(rows.column(each)) for each in (name, f"{name}_low", f"{name}_high")))


def _doubles(values: pa.Array) -> Floats:
    """Return a column of numbers as doubles, NaN where it is null."""
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
