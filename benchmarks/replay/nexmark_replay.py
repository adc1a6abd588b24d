"""Runs Nexmark queries as a stream from a topic, and holds what they wrote against Spark over the same offsets.

Offsets come from the stream's last checkpoint. Answers are compared as multisets: by `fingerprint` first, and row by
row, as ``penstock validate`` does, where that differs. Called by `nexmark` and the tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.benchmarks.replay.nexmark_job import JOB, NexmarkJob
from penstock.engine.checkpoint.reader import read_checkpoint
from penstock.model.errors import SchemaError
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec, SourceSpec
from penstock.replay.compiler import compile_job
from penstock.replay.frames import ReplayError
from penstock.replay.source_reading import SourceReading
from penstock.replay.spark_types import quoted_name
from penstock.replay.stream_output import standing_rows
from penstock.replay.validation import validate_sink
from penstock.replay.validation_result import QueryValidation, Validation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Replayed:
    """Results of a run, and times of its parts; ``query_s`` by query, on Spark."""

    validation: Validation
    events: int
    checkpoints: int
    stream_s: float
    read_s: float
    query_s: Mapping[str, float]


def replay_queries(
    pipeline: NexmarkJob,
    session: SparkSession,
    *,
    interval: str = "10s",
    at_once: int = 1,
    tell: Callable[[str], object] = lambda line: None,
) -> Replayed:
    """Run the job to the end of its topic, then replay and compare every query.

    Spark reads the topic once: decoded rows are kept for all queries, as the stream decodes them once too. So many as
    ``at_once`` queries are compared beside each other.
    """
    job = pipeline.build()
    metrics = pipeline.run(job, interval)
    tell(f"stream: {metrics.source_rows:,} events in {metrics.elapsed_ns / 1e9:.1f} s")
    checkpoint = read_checkpoint(f"{pipeline.checkpoints}/{JOB}")
    reading = SourceReading(session, stop=checkpoint, share=True)
    nodes = list(job.graph.operators.values())
    started = time.perf_counter()
    rows = sum(reading(node).count() for node in nodes if isinstance(node.spec, SourceSpec))
    read_s = time.perf_counter() - started
    tell(f"topic read by Spark: {rows:,} rows in {read_s:.1f} s")

    def compare(sink: OperatorNode) -> tuple[QueryValidation, float]:
        began = time.perf_counter()
        validation = _alike(job.graph, sink, reading, session) or validate_sink(job.graph, sink, reading, session)
        seconds = time.perf_counter() - began
        tell(f"{validation.query}: {validation.status}, {validation.rows_exact:,} rows in {seconds:.1f} s")
        return validation, seconds

    try:
        with ThreadPoolExecutor(at_once) as pool:
            compared = list(pool.map(compare, (node for node in nodes if isinstance(node.spec, SinkSpec))))
    finally:
        reading.close()
    validation = Validation(
        job=JOB,
        created=datetime.now(UTC),
        penstock=__version__,
        spark=session.version,
        sources=reading.ranges,
        queries=[compared_query for compared_query, _ in compared],
    )
    return Replayed(
        validation,
        metrics.source_rows,
        0 if metrics.checkpoints is None else metrics.checkpoints.committed,
        metrics.elapsed_ns / 1e9,
        read_s,
        {compared_query.query: seconds for compared_query, seconds in compared},
    )


def fingerprint(rows: DataFrame) -> DataFrame:
    """Return one row that is the same for the same rows in any order: how many they are, and sums of two hashes.

    Floats are not rounded, so only those that are the same bit by bit are the same.
    """
    from pyspark.sql import functions as f

    columns = [f.col(quoted_name(name)) for name in rows.columns]
    # A hash passes over nulls, so where they are is hashed too.
    values = [*columns, *(column.isNull() for column in columns)]
    halves = []
    for seed in (0, 1):
        hashed = f.xxhash64(f.lit(seed), *values)
        # Sums of halves do not overflow.
        halves += [f.shiftright(hashed, 32), hashed.bitwiseAND(f.lit(0xFFFF_FFFF))]
    return rows.agg(f.count("*").alias("rows"), *(f.sum(half).alias(f"h{place}") for place, half in enumerate(halves)))


def _alike(
    graph: JobGraph, sink: OperatorNode, reading: SourceReading, session: SparkSession
) -> QueryValidation | None:
    """Return that a sink has what it should have; None: its rows must be looked at, or cannot be compared."""
    spec, edge = sink.spec, sink.inputs[0]
    assert isinstance(spec, SinkSpec)
    try:
        exact = compile_job(graph, reading, sink=sink.name)[sink.name].rows
        stream = standing_rows(session, sink, graph[edge.operator].outputs[edge.output])
    except (ReplayError, SchemaError):
        return None
    one, other = fingerprint(exact).unionAll(fingerprint(stream)).collect()
    if one != other:
        return None
    return QueryValidation(query=sink.name, mode=spec.mode, rows_exact=one["rows"], rows_stream=other["rows"])
