"""Holds what a stream has put out against an exact recomputation, sink by sink and window by window.

Spark does the work; what comes back are counts and a few examples. Called by ``penstock validate``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.engine.executors.simulation.timing_dependence import timing_dependent_sinks
from penstock.model.errors import SchemaError
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec
from penstock.replay.comparison import DIFFERENT, EXACT, EXTRA, MISSING, STATUS, STREAM, TIMES, differences
from penstock.replay.comparison_sides import ComparisonSides, CountsOnlyError, comparison_sides
from penstock.replay.corrected_rows import CorrectionRule, queued_rows
from penstock.replay.correction import Corrector
from penstock.replay.frames import ReplayError
from penstock.replay.grades import QueryGrade, Shedding
from penstock.replay.grading import Quality, aggregate_grades, classified, drawn_rows, graded_rows
from penstock.replay.output_keys import OutputKeys, output_keys
from penstock.replay.sample_columns import USED
from penstock.replay.source_reading import SourceReading
from penstock.replay.spark_failures import spark_errors, worker_failure
from penstock.replay.spark_types import quoted_name
from penstock.replay.validation_result import (
    CorrectionResult,
    DifferenceKind,
    Example,
    QueryValidation,
)
from penstock.replay.window_counts import (
    COUNTED,
    Stretch,
    counts_by_window,
    stretch_of,
    totals_of,
    window_results,
    with_grades,
)

MOST_EXAMPLES = 20

_BY_ORDER = "which of them stands in the end depends on the order in which they were written"


def validate_sink(
    graph: JobGraph,
    sink: OperatorNode,
    reading: SourceReading,
    session: Any,
    corrector: Corrector | None = None,
    files: str | None = None,
) -> QueryValidation:
    """Compare what stands in one sink with what a replay of its sources gives; ``corrector`` publishes what differs.

    Estimates of a stream that shed rows are graded; ``files`` is a folder for Parquet of the grades.

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
            return _compared(graph, sink, identity, keys, sides, session, corrector, files)
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
    files: str | None,
) -> QueryValidation:
    spec = sink.spec
    assert isinstance(spec, SinkSpec)
    result = _result(identity, keys, sides, files)
    if result.missing and spec.mode == "upsert" and _repeats(sides.exact, spec.key):
        return QueryValidation(**identity, why=f"several rows have the same {', '.join(spec.key)}: {_BY_ORDER}")
    open_results = sides.open()
    result = replace(
        result, open=sum(item.results for item in open_results), notes=sides.notes(open_results, result.extra)
    )
    rule = _rule(spec, keys, sides)
    if rule.queued is not None and sides.quality is not None:
        result = replace(result, queued=queued_rows(sides.quality.stream, rule).count())
    if corrector is None:
        return result
    if sides.approximate:
        why = f"column {sides.approximate[0]!r} of sink {sink.name!r} is approximate: nothing tells the right rows"
        return replace(result, correction=CorrectionResult(topic=corrector.topic, why=why))
    rule = replace(rule, final_us=sides.final_us(graph, sink))
    return replace(result, correction=corrector.correct(session, sink, keys.columns, sides.whole(), rule))


def _rule(spec: SinkSpec, keys: OutputKeys, sides: ComparisonSides) -> CorrectionRule:
    """Return which rows of a sink are corrected; what it appends is final anyhow."""
    queued = spec.max_error if spec.queues_wide and sides.quality is not None else None
    intervals = () if sides.quality is None else sides.quality.intervals
    return CorrectionRule(None if spec.mode == "append" else keys.window_end, queued=queued, intervals=intervals)


def _repeats(rows: DataFrame, key: Sequence[str]) -> bool:
    """Return whether rows have a key in common."""
    counts = rows.groupBy(*(f.col(quoted_name(name)) for name in key)).count()
    return not counts.where(f.col("count") > 1).isEmpty()


def _result(
    identity: dict[str, Any], keys: OutputKeys, compared: ComparisonSides, files: str | None
) -> QueryValidation:
    stream, exact = compared.stream, compared.exact
    quality = compared.quality if compared.quality is not None and compared.quality.sheds() else None
    window = stretch_of(keys, exact, stream)
    differing = _differing(keys.columns, compared, quality).persist()
    try:
        counts = counts_by_window(stream, exact, differing, window, quality).persist()
        grade = None if quality is None else QueryGrade(counted=quality.is_counted)
        if quality is not None and keys.columns:
            bounds = [name for name in (window.start, window.end) if name is not None] if window.end else []
            graded = graded_rows(quality, keys.columns, bounds, identity["promised_accuracy"]).persist()
            if files is not None:
                graded.write.mode("overwrite").parquet(files)
            counts = with_grades(counts, graded, window if window.end else Stretch()).persist()
            drawn = drawn_rows(graded, keys.columns, bounds)
            grade = QueryGrade(
                aggregates=aggregate_grades(graded), drawn=drawn, counted=quality.is_counted, files=files
            )
        totals = totals_of(counts)
        is_counted = quality is not None and quality.is_counted
        windows, left_out = window_results(
            counts, identity["promised_accuracy"], counted=is_counted, graded=quality is not None
        )
        counts.unpersist()
        examples = _examples(differing.where(f.col(STATUS).isin(MISSING, EXTRA, DIFFERENT)), keys.columns)
    finally:
        differing.unpersist()
    counted: dict[str, Any] = {name: int(totals[name]) for name in COUNTED}
    if is_counted:
        counted |= {name: int(totals[name]) for name in ("rows_expected", "rows_used")}
    if quality is not None:
        counted["biased"] = totals["biased"] > 0
    return QueryValidation(
        **identity,
        **counted,
        grade=grade,
        windows=windows,
        windows_left_out=left_out,
        examples=examples,
    )


def _differing(keys: Sequence[str], compared: ComparisonSides, quality: Quality | None) -> DataFrame:
    """Return the rows that differ, with the reason where rows were shed for them."""
    stream, exact, near = compared.stream, compared.exact, compared.near
    if quality is None:
        return differences(stream, exact, keys, near)
    if keys or not quality.is_counted:
        return classified(differences(stream, exact, keys, near), quality, keys)
    # Rows are known to be shed, or have to be there.
    names = [f.col(quoted_name(name)) for name in exact.columns]
    used = differences(stream, quality.exact.where(f.col(USED) > 0).select(*names), keys, near)
    shed = quality.exact.where(f.col(USED) == 0).select(f.struct(*names).alias(EXACT))
    columns = {
        STATUS: f.lit(str(Shedding.VANISHED)),
        TIMES: f.lit(1),
        STREAM: f.lit(None).cast(used.schema[STREAM].dataType),
    }
    return used.unionByName(shed.withColumns(columns))


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
