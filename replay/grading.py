"""Holds the estimates of a stream that shed rows against the exact answer: errors, coverage, and what was promised.

A row that differs is no fault if rows were shed for it. Whether they were, the stream says by the row's accuracy, and
where a log of keep rates is there Spark by counting. Called by `validation` for queries under contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.replay.comparison import DIFFERENT, EXTRA, MISSING, STATUS
from penstock.replay.grades import AggregateGrade, GradedRow, Shedding
from penstock.replay.sample_columns import EXPECTED, KEEP, USED
from penstock.replay.spark_types import quoted_name
from penstock.replay.written_columns import ACCURACY, BIASED

MOST_DRAWN = 400
"""So many results of each aggregate are kept for pictures, of one group."""

SHED_STATUS = {DIFFERENT: Shedding.ESTIMATED, MISSING: Shedding.VANISHED, EXTRA: Shedding.EMERGED}

_SHED, _SAID, _WORSE = "$shed", "$said", "$worse"
_Z = 1.959963984540054
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


@dataclass(frozen=True)
class Quality:
    """What a stream says of its rows, and Spark of the exact ones: both have the columns of the user's, too.

    ``stream`` has the columns of `written_columns`; ``exact`` those of `counts_of`. ``intervals`` are the columns that
    have one. ``is_counted``: a log said of all source rows whether they stayed.
    """

    stream: DataFrame
    exact: DataFrame
    is_counted: bool
    intervals: Sequence[str]

    def sheds(self) -> bool:
        """Return whether anything was shed for the query."""
        if not self.stream.where(f.col(ACCURACY) < 1.0).isEmpty():
            return True
        return self.is_counted and not self.exact.where(f.col(USED) < f.col(EXPECTED)).isEmpty()


def counts_of(rows: DataFrame) -> tuple[DataFrame, bool]:
    """Return exact rows with `EXPECTED` and `USED`, which are null where no log counts, and whether one does."""
    if EXPECTED in rows.columns:
        return rows, True
    if KEEP not in rows.columns:
        return rows.withColumns(dict.fromkeys((EXPECTED, USED), f.lit(None).cast("bigint"))), False
    used = f.when(f.col(quoted_name(KEEP)) > 0, 1).otherwise(0).cast("bigint")
    return rows.withColumns({EXPECTED: f.lit(1).cast("bigint"), USED: used}).drop(KEEP), True


def classified(differing: DataFrame, quality: Quality, keys: Sequence[str]) -> DataFrame:
    """Return rows that differ with the `STATUS` of `SHED_STATUS` where rows were shed for them.

    What the stream lacks was shed if not all of it was used; where that is not counted, whatever it lacks may be.
    """
    shed = f.lit(True)
    if keys:
        said = _by_key(quality.stream, keys, f.min(f.col(ACCURACY) < 1.0).alias(_SAID))
        counted = f.coalesce(f.sum(USED) < f.sum(EXPECTED), f.lit(not quality.is_counted))
        exact = _by_key(quality.exact, keys, counted.alias(_SHED))
        differing = _joined(_joined(differing, said, keys), exact, keys)
        shed = f.when(f.col(STATUS) == MISSING, f.col(_SHED)).otherwise(f.col(_SAID))
    else:
        # Nothing tells rows apart: what was shed is missing, and nothing else is to be so.
        shed = f.col(STATUS) == MISSING
    status = f.col(STATUS)
    for plain, other in SHED_STATUS.items():
        status = f.when((f.col(STATUS) == plain) & f.coalesce(shed, f.lit(False)), f.lit(str(other))).otherwise(status)
    return differing.withColumn(STATUS, status).drop(_SHED, _SAID)


def graded_rows(quality: Quality, keys: Sequence[str], window: Sequence[str], promised: float) -> DataFrame:
    """Return a row for each result for which rows were shed and each of its numbers, see `GradedRow`.

    Columns: the keys, ends of windows that are no keys, then those of `GradedRow` from ``aggregate`` on.
    """
    stream = quality.stream.withColumn(_SAID, f.lit(True)).alias("s")
    exact = quality.exact.withColumn(_WORSE, f.lit(True)).alias("e")
    same = reduce(lambda one, other: one & other, (_of("s", name).eqNullSafe(_of("e", name)) for name in keys))
    both = stream.join(exact, same, "full_outer")
    shed = f.coalesce(_of("s", ACCURACY) < 1.0, _of("e", USED) < _of("e", EXPECTED), _of("s", _SAID).isNull())
    kinds = dict(quality.exact.dtypes)
    names = [
        name
        for name in quality.exact.columns
        if name not in (*keys, *window, EXPECTED, USED) and _is_number(kinds[name])
    ]
    results = f.explode(f.array(*(_result(name, quality) for name in names))) if names else f.explode(f.array())
    used = _of("e", USED)
    vanished = _of("s", _SAID).isNull()
    rows = both.where(shed).select(
        *(f.coalesce(_of("s", name), _of("e", name)).alias(name) for name in dict.fromkeys((*keys, *window))),
        _of("e", EXPECTED).alias("rows_expected"),
        used.alias("rows_used"),
        f.lit(promised).alias("promised_accuracy"),
        (used / _of("e", EXPECTED)).alias("true_accuracy"),
        _of("s", ACCURACY).alias("accuracy"),
        _of("s", BIASED).alias("biased"),
        vanished.alias("vanished"),
        results.alias("$result"),
    )
    return rows.select(*(f.col(quoted_name(name)) for name in rows.columns[:-1]), "$result.*")


def aggregate_grades(rows: DataFrame) -> list[AggregateGrade]:
    """Return how good the results of each aggregate are, over all rows."""
    error = f.col("estimate") - f.col("exact")
    relative = f.when(f.col("exact") != 0, f.abs(error) / f.abs(f.col("exact")))
    variance = f.pow((f.col("high") - f.col("low")) / (2 * _Z), 2)
    has_interval = f.col("low").isNotNull() & f.col("high").isNotNull() & f.col("exact").isNotNull()
    found = rows.groupBy("aggregate").agg(
        f.count("*").alias("rows"),
        f.count_if(f.col("vanished")).alias("vanished"),
        f.count("covered").alias("intervals"),
        f.count_if(f.col("covered")).alias("covered"),
        f.avg(relative).alias("mean_error"),
        f.sum(f.when(has_interval, error)).alias("bias"),
        f.sum(f.when(has_interval, variance)).alias("variance"),
        f.count_if(f.col("biased")).alias("biased"),
        f.avg(f.abs(f.col("accuracy") - f.col("true_accuracy"))).alias("accuracy_error"),
    )
    return [_grade(row.asDict()) for row in found.orderBy("aggregate").collect()]


def drawn_rows(rows: DataFrame, keys: Sequence[str], window: Sequence[str]) -> list[GradedRow]:
    """Return results of one group, the one with most rows, along time; none without windows."""
    if not window:
        return []
    others = [name for name in keys if name not in window]
    if others:
        weights = rows.groupBy(*(f.col(quoted_name(name)) for name in others)).agg(f.count("*").alias("$weight"))
        first = weights.orderBy(f.desc("$weight"), *(f.col(quoted_name(name)) for name in others)).limit(1)
        most = first.drop("$weight").collect()
        for name in others if most else ():
            rows = rows.where(f.col(quoted_name(name)).eqNullSafe(f.lit(most[0][name])))
    start, end = (f.col(quoted_name(name)).cast("timestamp_ntz") for name in window)
    chosen = rows.withColumns({"$start": start, "$end": end}).orderBy("$start", "aggregate").limit(4 * MOST_DRAWN)
    return [
        GradedRow(
            key={name: _plain(row[name]) for name in others},
            window_start=row["$start"],
            window_end=row["$end"],
            **{name: row[name] for name in GradedRow.FIGURES},
        )
        for row in chosen.collect()
    ]


def _grade(row: dict[str, Any]) -> AggregateGrade:
    variance = row.pop("variance")
    bias = row.pop("bias")
    return AggregateGrade(**row, bias=bias / variance**0.5 if variance else None)


def _result(name: str, quality: Quality) -> Column:
    """Return one number of a row: exact, estimated, and where it has an interval, its ends."""
    exact, estimate = (_of(side, name).cast("double") for side in "es")
    low, high, certified = (f.lit(None).cast(kind) for kind in ("double", "double", "boolean"))
    covered = f.lit(None).cast("boolean")
    if name in quality.intervals:
        low, high = (_of("s", f"{name}_{end}").cast("double") for end in ("low", "high"))
        certified = _of("s", f"{name}_certified")
        covered = f.when(_of("s", _SAID).isNull(), False).when(low.isNotNull(), (low <= exact) & (exact <= high))
    return f.struct(
        f.lit(name).alias("aggregate"),
        exact.alias("exact"),
        estimate.alias("estimate"),
        low.alias("low"),
        high.alias("high"),
        certified.alias("certified"),
        covered.alias("covered"),
    )


def _is_number(kind: str) -> bool:
    return kind in _NUMBERS or kind.startswith("decimal")


def _by_key(rows: DataFrame, keys: Sequence[str], value: Column) -> DataFrame:
    return rows.groupBy(*(f.col(quoted_name(name)) for name in keys)).agg(value)


def _joined(rows: DataFrame, more: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return rows with a column of others that have the same keys, null where none has."""
    one, other = rows.alias("s"), more.alias("e")
    same = reduce(lambda left, right: left & right, (_of("s", name).eqNullSafe(_of("e", name)) for name in keys))
    return one.join(other, same, "left").select("s.*", *(_of("e", name) for name in more.columns if name not in keys))


def _of(side: str, name: str) -> Column:
    return f.col(f"{side}.{quoted_name(name)}")


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
