"""Tables as dicts for people to look at. Called where results are shown: the memory sink, previews, tests' kits."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.time_range import GREATEST_TIME_US, LEAST_TIME_US
from penstock.engine.core.event_time import MICROSECONDS

_DAY_US = 86_400_000_000


def table_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows as dicts, as ``to_pylist`` does.

    A time beyond the years 1 to 9999, as the end of the last window has it, is the last (or first) that Python knows,
    which for a column with a zone is one of the day before (or after): its zone may be ahead of UTC.
    """
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
    except OverflowError:
        rows = pa.table([_held(column) for column in table.columns], names=table.schema.names).to_pylist()
    return rows


def _held(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.unit not in MICROSECONDS:
        return column
    margin_us = 0 if kind.tz is None else _DAY_US
    least = (LEAST_TIME_US + margin_us) // MICROSECONDS[kind.unit]
    greatest = (GREATEST_TIME_US - margin_us) // MICROSECONDS[kind.unit]
    raw = column.cast(pa.int64())
    held = pc.min_element_wise(pc.max_element_wise(raw, least, skip_nulls=False), greatest, skip_nulls=False)
    return held.cast(kind)
