"""Windows of a replay: which rows belong together in time, as columns to group by.

Called by aggregates and by joins within windows. All arithmetic is on microseconds since the epoch; what is before it
falls into windows as what is after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructType

from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.operators.aggregates.aggregate_schema import WINDOW_COLUMNS
from penstock.engine.operators.aggregates.assigned_windows import AssignedWindows
from penstock.model.job_graph import MAIN, OperatorNode
from penstock.model.windows import Count, Global, Hopping, Session, Tumbling, Window, WindowAssigner, Windowing
from penstock.replay.operators.prepared import AT, over, quoted
from penstock.replay.operators.sessions import SESSION, in_sessions

START, END = "$start", "$end"
"""The bounds of a row's window, in microseconds since the epoch."""

_NUMBER = "$number"


@dataclass(frozen=True)
class WindowedRows:
    """Rows in their windows: a row is there once for each.

    Rows of equal ``groups``, and equal keys, are of one window; ``bounds`` are its start and end as aggregates over
    the window's rows, none for a global one.
    """

    rows: DataFrame
    groups: tuple[str, ...]
    bounds: tuple[str, str] | None


def in_windows(
    rows: DataFrame, window: Window, keys: Sequence[str], ties: Sequence[str], operator: str
) -> WindowedRows:
    """Put rows that have event time, in the column `AT`, into windows.

    ``keys`` are the columns of their keys, ``ties`` the sort keys of rows of one key and time.
    """
    if isinstance(window, Global):
        return WindowedRows(rows, (), None)
    if isinstance(window, Session):
        last = f"max({quoted(AT)})"
        return WindowedRows(
            in_sessions(rows, keys, window.gap_us), (SESSION,), (f"min({quoted(AT)})", f"{last} + {window.gap_us}L")
        )
    if isinstance(window, Count):
        number = f"row_number() {over(keys, [quoted(AT), *ties])}"
        numbered = rows.selectExpr("*", f"CAST(({number} - 1) DIV {window.rows}L AS BIGINT) AS {quoted(_NUMBER)}")
        return WindowedRows(numbered, (_NUMBER,), (f"min({quoted(AT)})", f"max({quoted(AT)})"))
    return WindowedRows(
        with_bounds(rows, window, operator), (START, END), (f"min({quoted(START)})", f"min({quoted(END)})")
    )


def window_columns(windowing: Windowing | None, node: OperatorNode) -> tuple[str, ...]:
    """Return the columns of an operator's result that say which window a row is of."""
    if windowing is None or isinstance(windowing.window, Global):
        return ()
    if isinstance(windowing.window, Count):
        # Windows of rows have bounds too, but nothing says that those of a key differ.
        return ()
    names = node.outputs[MAIN].fields.names
    return tuple(name for name in WINDOW_COLUMNS if name in names)


def with_bounds(rows: DataFrame, window: Tumbling | Hopping | WindowAssigner, operator: str) -> DataFrame:
    """Return every row once for each of its windows, with `START` and `END`."""
    if isinstance(window, WindowAssigner):
        return _assigned(rows, window, operator)
    at, start = quoted(AT), quoted(START)
    hop_us = window.size_us if isinstance(window, Tumbling) else window.hop_us
    into = f"pmod({at} - {window.offset_us}L, {hop_us}L)"
    if hop_us == window.size_us:
        rows = rows.selectExpr("*", f"{at} - {into} AS {start}")
    else:
        # The last window begins at most one hop before the row, the first one less than its size.
        more = f"({window.size_us - 1}L - {into}) DIV {hop_us}L"
        starts = f"transform(sequence(0L, {more}), number -> {at} - {into} - number * {hop_us}L)"
        rows = rows.selectExpr("*", f"explode({starts}) AS {start}")
    return rows.selectExpr("*", f"{start} + {window.size_us}L AS {quoted(END)}")


def _assigned(rows: DataFrame, window: WindowAssigner, operator: str) -> DataFrame:
    schema = StructType(list(rows.schema.fields)).add(START, LongType()).add(END, LongType())
    return rows.mapInArrow(_assigner(AssignedWindows(window, 0, operator)), schema)


def _assigner(windows: AssignedWindows) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def assign(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            times_us = np.asarray(batch.column(AT)).astype(np.int64)
            assigned = windows.assign(times_us, START_OF_TIME_US)
            assert assigned.rows is not None and assigned.starts_us is not None
            assigned_rows = batch.take(pa.array(assigned.rows))
            assigned_rows = assigned_rows.append_column(START, pa.array(assigned.starts_us))
            yield assigned_rows.append_column(END, pa.array(assigned.ends_us))

    return assign
