"""The two sides of a comparison: what a stream has written to a sink, and what it should have, as Spark has them.

With a checkpoint both are as of that: windows that were open are counted and left out. Called by `validation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec
from penstock.replay.approximate import approximate_columns
from penstock.replay.checkpoint_progress import CheckpointProgress, OpenResults
from penstock.replay.compiler import compile_job, only, plain
from penstock.replay.frames import ReplayError
from penstock.replay.source_reading import SourceReading
from penstock.replay.stream_output import UnreadableError, as_written, standing_rows


class CountsOnlyError(Exception):
    """A sink leaves nothing to read; so many rows it should have got, and was given (None: not known)."""

    def __init__(self, why: str, rows_exact: int, rows_stream: int | None) -> None:
        """Keep the counts."""
        super().__init__(why)
        self.rows_exact, self.rows_stream = rows_exact, rows_stream


@dataclass(frozen=True)
class ComparisonSides:
    """Rows with the same columns.

    Columns in ``near`` may be so far apart, relative to the greater one; ``approximate`` are those and others that the
    stream approximates, which are not there.
    """

    stream: DataFrame
    exact: DataFrame
    near: Mapping[str, float]
    approximate: Sequence[str]
    at_least_once: str | None
    """The topic, if the sink's may hold what came behind the checkpoint."""
    _notes: Sequence[str]
    _progress: CheckpointProgress | None

    def open(self) -> Sequence[OpenResults]:
        """Count results that were still to come; ask once the rows have been looked at."""
        return () if self._progress is None else self._progress.open()

    def notes(self, open_results: Sequence[OpenResults], extra: int) -> list[str]:
        """Return what is to be known of the comparison, a sentence each; ``extra`` rows were found."""
        notes = [
            f"{item.results:,} results of {item.operator!r} were still to come at the checkpoint and are left out"
            for item in open_results
        ]
        if extra and self.at_least_once is not None:
            notes.append(
                f"topic {self.at_least_once!r} is written at least once: what came behind the checkpoint is extra"
            )
        return [*notes, *self._notes]


@contextmanager
def comparison_sides(
    graph: JobGraph, sink: OperatorNode, keys: Sequence[str], reading: SourceReading, session: SparkSession
) -> Iterator[ComparisonSides]:
    """Make the two sides of a sink of ``graph``; ``keys`` tell its rows apart.

    Raises:
        CountedError: the sink leaves nothing that could be read.
        ReplayError, SchemaError: a side cannot be had; the message says why.
    """
    edge = sink.inputs[0]
    schema = graph[edge.operator].outputs[edge.output]
    checkpoint = reading.checkpoint
    progress = None if checkpoint is None else CheckpointProgress(checkpoint)
    approximate = approximate_columns(graph, sink)
    unknown = [name for name in keys if name in approximate]
    if unknown:
        raise ReplayError(f"rows of sink {sink.name!r} are told apart by {unknown[0]!r}, which the stream approximates")
    try:
        if progress is not None:
            progress.check_sources(only(graph, sink.name))
        sample = reading.sample(graph, sink.name)
        frame = compile_job(graph, reading, progress, sink=sink.name, sample=sample)[sink.name]
        exact = as_written(plain(frame).rows, sink, schema)
        try:
            stream = standing_rows(session, sink, schema, checkpoint)
        except UnreadableError as error:
            ledger = {} if checkpoint is None else checkpoint.manifest.ledger.get(sink.name, {})
            raise CountsOnlyError(str(error), exact.count(), ledger.get("rows_in")) from None
        near = {name: column.error for name, column in approximate.items() if keys and column.error is not None}
        dropped = [name for name in approximate if name not in near]
        notes = [_of_column(name, approximate[name].function, near.get(name)) for name in approximate]
        topic = None if progress is None else _at_least_once(sink)
        stream, exact = stream.drop(*dropped).persist(), exact.drop(*dropped).persist()
        try:
            yield ComparisonSides(stream, exact, near, list(approximate), topic, notes, progress)
        finally:
            exact.unpersist()
            stream.unpersist()
    finally:
        if progress is not None:
            progress.close()


def _of_column(name: str, function: str, error: float | None) -> str:
    if error is None:
        return f"column {name!r} is approximate in the stream ({function}) and is left out"
    return f"column {name!r} is approximate in the stream ({function}): it was compared within {100 * error:.1f}%"


def _at_least_once(sink: OperatorNode) -> str | None:
    spec = sink.spec
    assert isinstance(spec, SinkSpec)
    return spec.sink.topic if isinstance(spec.sink, KafkaSink) and not spec.sink.transactional else None
