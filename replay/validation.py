"""Holds what a stream has put out against an exact recomputation, sink by sink and window by window.

Spark does the work; what comes back are counts and a few examples. Called by ``penstock validate``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.engine.executors.simulation.timing_dependence import timing_dependent_sinks
from penstock.model.errors import SchemaError
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec
from penstock.replay.comparison import DIFFERENT, EXACT, EXTRA, MISSING, STATUS, STREAM, differences
from penstock.replay.comparison_sides import ComparisonSides, CountsOnlyError, comparison_sides
from penstock.replay.correction import Corrector
from penstock.replay.frames import ReplayError
from penstock.replay.output_keys import OutputKeys, output_keys
from penstock.replay.source_reading import SourceReading
from penstock.replay.spark_failures import spark_errors, worker_failure
from penstock.replay.spark_types import quoted_name
from penstock.replay.validation_result import (
    CorrectionResult,
    DifferenceKind,
    Example,
    QueryValidation,
    WindowResult,
)

MOST_WINDOWS = 10_000
MOST_EXAMPLES = 20
BUCKETS = 60
"""Into about how many stretches of time rows without windows are counted."""

_BY_ORDER = "which of them stands in the end depends on the order in which they were written"
_START, _END = "$start", "$end"
_COUNTED = ("rows_exact", "rows_stream", MISSING, EXTRA, DIFFERENT)


def validate_sink(
    graph: JobGraph, sink: OperatorNode, reading: SourceReading, session: Any, corrector: Corrector | None = None
) -> QueryValidation:
    """Compare what stands in one sink with what a replay of its sources gives; ``corrector`` publishes what differs.

    What cannot be compared says why in the result: what is not promised, has no counterpart in a batch, or left
    nothing that can be read.
    """
    spec = sink.spec
    assert isinstance(spec, SinkSpec)
    keys = output_keys(graph, sink)
    identity: dict[str, Any] = {
        "query": sink.name,
        "mode": spec.mode,
        "keys": keys.columns,
        "promised_accuracy": spec.min_accuracy,
    }
    why = timing_dependent_sinks(graph).get(sink.name)
    if why is not None:
        return QueryValidation(**identity, why=why)
    try:
        with comparison_sides(graph, sink, keys.columns, reading, session) as sides:
            return _compared(graph, sink, identity, keys, sides, session, corrector)
    except CountsOnlyError as error:
        counted = error.rows_stream or 0
        return QueryValidation(**identity, rows_exact=error.rows_exact, rows_stream=counted, why=str(error))
    except (ReplayError, SchemaError) as error:
        return QueryValidation(**identity, why=str(error))
    except spark_errors() as error:
        failure = worker_failure(error)
        if isinstance(failure, ReplayError):
            return QueryValidation(**identity, why=str(failure))
        raise


def _compared(
    graph: JobGraph,
    sink: OperatorNode,
    identity: dict[str, Any],
    keys: OutputKeys,
    sides: ComparisonSides,
    session: Any,
    corrector: Corrector | None,
) -> QueryValidation:
    spec, edge = sink.spec, sink.inputs[0]
    assert isinstance(spec, SinkSpec)
    result = _result(identity, keys, sides)
    if result.missing and spec.mode == "upsert" and _repeats(sides.exact, spec.key):
        return QueryValidation(**identity, why=f"several rows have the same {', '.join(spec.key)}: {_BY_ORDER}")
    open_results = sides.open()
    result = replace(
        result, open=sum(item.results for item in open_results), notes=sides.notes(open_results, result.extra)
    )
    if corrector is None:
        return result
    if sides.approximate:
        why = f"column {sides.approximate[0]!r} of sink {sink.name!r} is approximate: nothing tells the right rows"
        return replace(result, correction=CorrectionResult(topic=corrector.topic, why=why))
    schema = graph[edge.operator].outputs[edge.output]
    correction = corrector.correct(session, sink, schema, keys.columns, sides.stream, sides.exact)
    return replace(result, correction=correction)


def _repeats(rows: DataFrame, key: Sequence[str]) -> bool:
    """Return whether rows have a key in common."""
    counts = rows.groupBy(*(f.col(quoted_name(name)) for name in key)).count()
    return not counts.where(f.col("count") > 1).isEmpty()


def _result(identity: dict[str, Any], keys: OutputKeys, compared: ComparisonSides) -> QueryValidation:
    stream, exact = compared.stream, compared.exact
    window = _window(keys, exact, stream)
    differing = differences(stream, exact, keys.columns, compared.near).persist()
    try:
        row = f.coalesce(f.col(EXACT), f.col(STREAM))
        sides = [
            _counted(exact, window, None, "rows_exact"),
            _counted(stream, window, None, "rows_stream"),
            *(_counted(differing.where(f.col(STATUS) == status), window, row, status) for status in _COUNTED[2:]),
        ]
        union = sides[0]
        for side in sides[1:]:
            union = union.unionByName(side)
        counts = union.groupBy(_START, _END).agg(*(f.sum(name).alias(name) for name in _COUNTED)).persist()
        totals = counts.agg(*(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in _COUNTED)).collect()[0].asDict()
        windows, left_out = _windows(counts, identity["promised_accuracy"])
        counts.unpersist()
        examples = _examples(differing, keys.columns)
    finally:
        differing.unpersist()
    counted: dict[str, Any] = {name: int(totals[name]) for name in _COUNTED}
    return QueryValidation(
        **identity,
        **counted,
        windows=windows,
        windows_left_out=left_out,
        examples=examples,
    )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The stretch of time that a row counts to: from one column to another, or so many ``seconds`` around one.

    Without any column there is none.
    """

    start: str | None = None
    end: str | None = None
    seconds: int = 0


def _window(keys: OutputKeys, exact: DataFrame, stream: DataFrame) -> _Stretch:
    """Return a row's window, or for rows without one the stretch of time that its event time lies in."""
    if keys.window_start is not None and keys.window_end is not None:
        return _Stretch(keys.window_start, keys.window_end)
    if keys.time is None:
        return _Stretch()
    time = f.col(quoted_name(keys.time)).cast("timestamp_ntz")
    ends = exact.select(time.alias(_START)).union(stream.select(time.alias(_START)))
    low, high = ends.agg(f.min(_START), f.max(_START)).collect()[0]
    if low is None:
        return _Stretch()
    seconds = max(1, -(-int((high - low).total_seconds() + 1) // BUCKETS))
    return _Stretch(keys.time, seconds=seconds)


def _counted(rows: DataFrame, window: _Stretch, row: Column | None, name: str) -> DataFrame:
    """Return how many rows there are in every window, as column ``name``; the other counts are 0."""

    def column(of: str) -> Column:
        return f.col(quoted_name(of)) if row is None else row[of]

    if window.start is None:
        start, end = (f.lit(None).cast("timestamp_ntz") for _ in range(2))
    elif window.end is None:
        at = f.unix_seconds(column(window.start).cast("timestamp_ntz").cast("timestamp"))
        first = f.floor(at / window.seconds) * window.seconds
        start, end = (f.timestamp_seconds(first + more).cast("timestamp_ntz") for more in (0, window.seconds))
    else:
        start, end = (column(of).cast("timestamp_ntz") for of in (window.start, window.end))
    counted = rows.groupBy(start.alias(_START), end.alias(_END)).agg(f.count("*").alias(name))
    return counted.select(_START, _END, *(f.col(item) if item == name else f.lit(0).alias(item) for item in _COUNTED))


def _windows(counts: DataFrame, promised: float) -> tuple[Sequence[WindowResult], int]:
    """Return windows in order of time, and how many are left out; those that differ are taken first."""
    differs = f.col(MISSING) + f.col(EXTRA) + f.col(DIFFERENT) > 0
    listed = counts.orderBy(f.desc(differs), _START, _END).limit(MOST_WINDOWS).collect()
    results = []
    for row in listed:
        counted: dict[str, Any] = {name: int(row[name]) for name in _COUNTED}
        window = {"window_start": row[_START], "window_end": row[_END]}
        results.append(WindowResult(**window, **counted, promised_accuracy=promised))
    return sorted(results, key=_time_order), counts.count() - len(listed)


def _time_order(window: WindowResult) -> tuple[bool, datetime, bool, datetime]:
    start, end = window.window_start, window.window_end
    return start is not None, start or datetime.min, end is not None, end or datetime.min


def _examples(differing: DataFrame, keys: Sequence[str]) -> list[Example]:
    options = {"ignoreNullFields": "false"}
    sides = [f.to_json(f.col(side), options).alias(side) for side in (STREAM, EXACT)]
    rows = differing.orderBy(STATUS, *(f.col(quoted_name(name)) for name in keys)).limit(MOST_EXAMPLES)
    examples = []
    for row in rows.select(STATUS, *sides).collect():
        stream, exact = (None if row[side] is None else json.loads(row[side]) for side in (STREAM, EXACT))
        whole = exact or stream or {}
        key = {name: whole[name] for name in keys}
        examples.append(Example(DifferenceKind(row[STATUS]), key, stream, exact))
    return examples
