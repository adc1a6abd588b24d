"""Two answers to one question, held against each other in Spark: what is missing, what is too much, what differs.

Rows are multisets: how often a row comes counts, in which order it comes does not. `validation` calls it per sink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import MapType

from penstock.replay.frames import ReplayError
from penstock.replay.spark_types import quoted_name

MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"

STATUS, TIMES, STREAM, EXACT = "$status", "$times", "$stream", "$exact"
"""Columns of a comparison, besides those of the keys."""

TOLERANCE = 1e-9
"""Sums of floats depend on the order of their summands: so far, relative to the greater one, two may be apart."""

_TURN = "$turn"


def differences(
    stream: DataFrame, exact: DataFrame, keys: Sequence[str], near: Mapping[str, float] | None = None
) -> DataFrame:
    """Return the rows in which a stream's answer and the exact one differ.

    Both have the same columns, ``keys`` among them. Columns of the result: the keys; ``$status``: ``missing`` (the
    stream has no such row), ``extra`` (it should not have it) or ``different`` (same keys, other values); ``$times``,
    how often; ``$stream`` and ``$exact``, the rows as structs, null where there is none. Without ``keys`` rows are the
    same or not. NaN equals itself, and floats may be `TOLERANCE` apart; other numbers as far as ``near`` says of their
    columns, relative to the greater one, if there are keys.

    Raises:
        ReplayError: a column cannot be compared, or the columns are not the same.
    """
    names = exact.columns
    if stream.columns != names:
        raise ReplayError(f"the stream's rows have the columns {stream.columns}, but the exact ones have {names}")
    _check_types(exact)
    floats = [name for name, kind in exact.dtypes if kind in ("float", "double")]
    unmatched = _left_over(stream, exact, floats)
    # Without keys rows pair by all that is not a float; what is left of those differs by a float, or is alone.
    by = list(keys) or [name for name in names if name not in floats]
    tolerances = {**dict.fromkeys(floats, TOLERANCE), **(near or {})}
    return _paired(unmatched, names, by, tolerances, keyed=bool(keys)).select(
        *(_name(name) for name in keys), STATUS, TIMES, STREAM, EXACT
    )


def _left_over(stream: DataFrame, exact: DataFrame, floats: Sequence[str]) -> DataFrame:
    """Return the rows that do not cancel out, with how often the stream has them too often (negative: too seldom)."""
    names = exact.columns
    signed = stream.withColumn(TIMES, f.lit(1)).unionByName(exact.withColumn(TIMES, f.lit(-1)))
    alike = [_rounded(name) if name in floats else _name(name).alias(name) for name in names]
    whole = f.struct(*(_name(name) for name in names))
    sides = [f.first(f.when(f.col(TIMES) * sign > 0, whole), ignorenulls=True) for sign in (1, -1)]
    left = signed.groupBy(*alike).agg(f.sum(TIMES).alias(TIMES), sides[0].alias(STREAM), sides[1].alias(EXACT))
    row = f.when(f.col(TIMES) > 0, f.col(STREAM)).otherwise(f.col(EXACT))
    return left.where(f.col(TIMES) != 0).select(row.alias(STREAM), TIMES).select(f"{quoted_name(STREAM)}.*", TIMES)


def _rounded(name: str) -> Column:
    """Return a float to as many digits as `TOLERANCE` has."""
    text = f.format_string("%.9e", _name(name))
    return f.when(_name(name).isNotNull(), text.cast("double")).alias(name)


def _paired(
    left: DataFrame, names: Sequence[str], by: Sequence[str], near: Mapping[str, float], *, keyed: bool
) -> DataFrame:
    """Pair rows of the two sides that agree in ``by``, one to one, in the order of their columns.

    Columns in ``near`` may be so far apart.
    """
    sides = []
    for status, sign in ((STREAM, 1), (EXACT, -1)):
        side = left.where(f.col(TIMES) * sign > 0)
        # A row that is there several times too often is that many rows.
        side = side.withColumn(TIMES, f.explode(f.sequence(f.lit(1), f.col(TIMES) * sign)))
        order = Window.partitionBy(*(_name(name) for name in by)).orderBy(*(_name(name) for name in names), TIMES)
        row = f.struct(*(_name(name) for name in names)).alias(status)
        sides.append(side.select(*(_name(name) for name in by), f.row_number().over(order).alias(_TURN), row))
    stream, exact = sides[0].alias("s"), sides[1].alias("e")
    same = [f.col(f"s.{quoted_name(name)}").eqNullSafe(f.col(f"e.{quoted_name(name)}")) for name in (*by, _TURN)]
    joined = stream.join(exact, reduce(lambda one, other: one & other, same), "full_outer")
    keys = [f.coalesce(f.col(f"s.{quoted_name(name)}"), f.col(f"e.{quoted_name(name)}")).alias(name) for name in by]
    both = f.col(STREAM).isNotNull() & f.col(EXACT).isNotNull()
    alike = [_near(name, tolerance) for name, tolerance in near.items()]
    others = [
        f.col(STREAM)[name].eqNullSafe(f.col(EXACT)[name]) for name in names if name not in near and name not in by
    ]
    agree = reduce(lambda one, other: one & other, [*alike, *others], both)
    status_column = f.when(both, DIFFERENT).when(f.col(STREAM).isNull(), MISSING).otherwise(EXTRA)
    differing = joined.select(*keys, STREAM, EXACT).where(~agree)
    if keyed:
        return differing.withColumn(STATUS, status_column).withColumn(TIMES, f.lit(1))
    # Nothing says that two rows are about the same: one is too much, the other is missing.
    parts = [
        differing.where(f.col(side).isNotNull())
        .withColumn(other, f.lit(None).cast(differing.schema[other].dataType))
        .withColumn(STATUS, f.lit(status))
        for side, other, status in ((STREAM, EXACT, EXTRA), (EXACT, STREAM, MISSING))
    ]
    return parts[0].unionByName(parts[1]).withColumn(TIMES, f.lit(1))


def _near(name: str, tolerance: float) -> Column:
    one, other = f.col(STREAM)[name], f.col(EXACT)[name]
    greater = f.greatest(f.abs(one), f.abs(other))
    # NaN is greater than infinity.
    near = (greater < float("inf")) & (f.abs(one - other) <= greater * tolerance)
    return one.eqNullSafe(other) | f.coalesce(near, f.lit(False))


def _check_types(rows: DataFrame) -> None:
    for field in rows.schema.fields:
        if isinstance(field.dataType, MapType):
            raise ReplayError(f"column {field.name!r} is a map, whose entries have no order to compare them by")


def _name(name: str) -> Column:
    return f.col(quoted_name(name))
