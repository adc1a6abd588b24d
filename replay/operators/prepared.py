"""Columns that keyed operators of a replay compute before they group, join or order rows, as Spark SQL text.

Columns that operators add inside begin with ``$``, as no column of a user does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame

from penstock.model.expressions import Expr, Ordering
from penstock.model.schema import StreamSchema
from penstock.replay.frames import Frame
from penstock.replay.operators.expressions import with_columns
from penstock.replay.spark_types import quoted_name as quoted
from penstock.replay.spark_types import sql_type

__all__ = [
    "AT",
    "computed",
    "micros_sql",
    "ordered_by",
    "over",
    "quoted",
    "shown",
    "tie_order",
    "time_sql",
    "unordered",
]

AT = "$at"
"""The event time of a row in microseconds since the epoch."""


def computed(frame: Frame, columns: Iterable[tuple[str, Expr]], operator: str) -> DataFrame:
    """Return the rows for which all these expressions have an answer, with it in further columns."""
    return with_columns(frame.rows, frame.fields, list(columns), operator)


def with_times(rows: DataFrame, schema: StreamSchema, name: str = AT) -> DataFrame:
    """Return rows of this schema, which has event time, with the time in a further column."""
    return rows.selectExpr("*", f"{times_sql(schema)} AS {quoted(name)}")


def times_sql(schema: StreamSchema) -> str:
    """Return the event time of rows in microseconds since the epoch."""
    time = schema.time
    assert time is not None
    micros = micros_sql(quoted(time.name))
    return f"({micros} + {time.offset_us}L)" if time.offset_us else micros


def micros_sql(sql: str) -> str:
    """Return a timestamp, with a time zone or without, in microseconds since the epoch."""
    return f"unix_micros(CAST({sql} AS TIMESTAMP))"


def time_sql(micros: str, kind: pa.DataType) -> str:
    """Return microseconds since the epoch as a timestamp of this type."""
    return f"CAST(timestamp_micros({micros}) AS {sql_type(kind)})"


def shown(rows: DataFrame, columns: Mapping[str, str], fields: pa.Schema) -> DataFrame:
    """Return the output ``fields``, each as its text in ``columns`` says and in its own type."""
    return rows.selectExpr(
        *(f"CAST({columns[field.name]} AS {sql_type(field.type)}) AS {quoted(field.name)}" for field in fields)
    )


def ordered_by(order: Sequence[tuple[str, Ordering]]) -> list[str]:
    """Return sort keys for columns that hold the answers of these orders: nulls last in either direction."""
    return [f"{quoted(name)} {'DESC' if by.descending else 'ASC'} NULLS LAST" for name, by in order]


def tie_order(fields: pa.Schema, descending: bool = False) -> list[str]:
    """Return sort keys of the total order of rows by their columns: left to right, ascending, nulls first.

    ``descending`` is the reverse. No column is `unordered`.
    """
    end = "DESC NULLS LAST" if descending else "ASC NULLS FIRST"
    return [f"{quoted(field.name)} {end}" for field in fields if not pt.is_null(field.type)]


def over(partition: Sequence[str], order: Sequence[str], frame: str = "") -> str:
    """Return an OVER clause; ``partition`` names columns, ``order`` are sort keys."""
    parts = []
    if partition:
        parts.append("PARTITION BY " + ", ".join(map(quoted, partition)))
    if order:
        parts.append("ORDER BY " + ", ".join(order))
    if frame:
        parts.append(frame)
    return f"OVER ({' '.join(parts)})"


def unordered(fields: pa.Schema) -> str | None:
    """Return a column whose values Spark cannot order, so that ties stay open; None: there is none."""
    return next((field.name for field in fields if _has_map(field.type)), None)


def _has_map(kind: pa.DataType) -> bool:
    if pt.is_map(kind):
        return True
    return any(_has_map(kind.field(index).type) for index in range(kind.num_fields))
