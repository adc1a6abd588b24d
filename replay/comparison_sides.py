"""The two sides of a comparison: what a stream has written to a sink, and what it should have, as Spark has them.

With a checkpoint both are as of that: windows that were open are counted and left out. Called by `validation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.model import result_columns
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec
from penstock.model.schema import StreamSchema
from penstock.replay.approximate import approximate_columns
from penstock.replay.checkpoint_progress import CheckpointProgress, OpenResults
from penstock.replay.compiler import compile_job, only, plain
from penstock.replay.frames import Frame, ReplayError
from penstock.replay.grading import Quality, counts_of
from penstock.replay.operators.closing import allowed_lateness_us
from penstock.replay.sample_columns import KEEP
from penstock.replay.source_reading import SourceReading
from penstock.replay.spark_types import quoted_name, sql_type
from penstock.replay.stream_output import UnreadableError, as_written, standing_rows
from penstock.replay.written_columns import ACCURACY, BIASED, WrittenColumns, written_columns

ENDS_NEAR = 1e-6
"""So far, relative to the greater one, ends of intervals may be apart: differences of high powers have fewer digits."""

_NO_ENDS = "it is of results of other aggregates, or chosen by an estimate"


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
    quality: Quality | None
    """How good the stream says that its rows are; None: it does not say, or that is compared as well."""
    _columns: WrittenColumns
    _notes: Sequence[str]
    _progress: CheckpointProgress | None

    def whole(self) -> WholeSides:
        """Return the two sides with all columns that the sink writes, the exact ones of the highest quality."""
        if self.quality is None:
            return WholeSides(self.stream, self.exact, self._columns.schema)
        names = self._columns.schema.fields.names
        columns = {ACCURACY: f.lit(1.0), BIASED: f.lit(False)}
        for name in self._columns.intervals:
            columns |= {f"{name}_{end}": f.col(quoted_name(name)) for end in ("low", "high")}
            columns[f"{name}_certified"] = f.lit(True)
        exact = self.exact.withColumns(columns)
        stream = self.quality.stream
        columns_of_both = [quoted_name(name) for name in names]
        return WholeSides(stream.select(*columns_of_both), exact.select(*columns_of_both), self._columns.schema)

    def final_us(self, graph: JobGraph, sink: OperatorNode) -> int | None:
        """Return up to which end of windows nothing is added to what the sink wrote; None: nothing follows at all."""
        if self._progress is None:
            return None
        above = list(graph.upstream([sink.id]).values())
        return self._progress.final_us(above, allowed_lateness_us(above))

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


@dataclass(frozen=True)
class WholeSides:
    """Rows with the columns of ``schema``."""

    stream: DataFrame
    exact: DataFrame
    schema: StreamSchema


@contextmanager
def comparison_sides(
    graph: JobGraph, sink: OperatorNode, keys: Sequence[str], reading: SourceReading, session: SparkSession
) -> Iterator[ComparisonSides]:
    """Make the two sides of a sink of ``graph``; ``keys`` tell its rows apart.

    Raises:
        CountedError: the sink leaves nothing that could be read.
        ReplayError, SchemaError: a side cannot be had; the message says why.
    """
    written = written_columns(graph, sink)
    schema = written.schema
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
        names, exact = _compared(written, frame, sink, estimates=reading.estimates)
        exact = as_written(exact, sink, schema)
        try:
            stream = standing_rows(session, sink, schema, checkpoint)
        except UnreadableError as error:
            ledger = {} if checkpoint is None else checkpoint.manifest.ledger.get(sink.name, {})
            raise CountsOnlyError(str(error), exact.count(), ledger.get("rows_in")) from None
        near = {f"{name}_{end}": ENDS_NEAR for name in written.intervals for end in ("low", "high") if keys}
        near = {name: error for name, error in near.items() if name in names and reading.estimates}
        near |= {name: column.error for name, column in approximate.items() if keys and column.error is not None}
        dropped = [name for name in approximate if name not in near]
        notes = [_of_column(name, approximate[name].function, near.get(name)) for name in approximate]
        topic = None if progress is None else _at_least_once(sink)
        stream, exact = stream.drop(*dropped).persist(), exact.drop(*dropped).persist()
        notes += _of_quality(written, names, estimates=reading.estimates)
        quality = None
        if written.quality and not reading.estimates:
            quality = Quality(stream, *counts_of(exact), written.intervals)
        columns = [quoted_name(name) for name in names if name not in dropped]
        sides = (stream.select(*columns), exact.select(*columns))
        try:
            yield ComparisonSides(*sides, near, list(approximate), topic, quality, written, notes, progress)
        finally:
            exact.unpersist()
            stream.unpersist()
    finally:
        if progress is not None:
            progress.close()


def _compared(
    written: WrittenColumns, frame: Frame, sink: OperatorNode, *, estimates: bool
) -> tuple[list[str], DataFrame]:
    """Return the columns to compare, and the exact rows with these and what counts them.

    Over kept rows the quality of results is among them, as far as what stands before the sink says it.

    Raises:
        ReplayError: the sink leaves out values by intervals that a replay does not know.
    """
    names, hidden = list(written.users), frame.hidden.names
    if not written.quality:
        return names, plain(frame).rows
    if not estimates or not hidden:
        return names, frame.rows
    keep = quoted_name(KEEP) if KEEP in hidden else "1.0D"
    accuracy = quoted_name(result_columns.ACCURACY) if result_columns.ACCURACY in hidden else keep
    biased = quoted_name(result_columns.BIASED) if result_columns.BIASED in hidden else "false"
    ends = {} if written.chosen else _ends(written, hidden, accuracy)
    spec = sink.spec
    assert isinstance(spec, SinkSpec)
    values = {name: quoted_name(name) for name in names}
    if spec.max_error is not None and spec.leaves_out_wide:
        if any(f"{name}_low" not in ends for name in written.intervals):
            raise ReplayError(
                f"sink {sink.name!r} leaves out values whose interval is too wide (otherwise='null'), and those of "
                "results that are chosen by an estimate are not recomputed: validate it without --kept"
            )
        values |= {name: _unless_wide(name, ends, accuracy, spec.max_error.error) for name in written.intervals}
    columns = [f"{sql} AS {quoted_name(name)}" for name, sql in values.items()]
    also = [f"{sql} AS {quoted_name(name)}" for name, sql in ends.items()]
    rows = frame.rows.selectExpr(*columns, f"{accuracy} AS {ACCURACY}", f"{biased} AS {BIASED}", *also)
    return [*names, ACCURACY, *([] if written.chosen else [BIASED, *ends])], rows


def _unless_wide(name: str, ends: Mapping[str, str], accuracy: str, error: float) -> str:
    """Return a value, null where half of its interval is wider than the error by it, or not there."""
    value = quoted_name(name)
    low, high = (f"CAST({ends[f'{name}_{end}']} AS DOUBLE)" for end in ("low", "high"))
    half = f"(({high} - {low}) / 2)"
    ratio = f"CASE WHEN {half} = 0 THEN 0.0D ELSE {half} / nullif(abs(CAST({value} AS DOUBLE)), 0.0D) END"
    is_good = f"coalesce({ratio} <= {error!r}D, false)"
    return f"CASE WHEN {accuracy} = 1.0D OR {is_good} THEN {value} END"


def _ends(written: WrittenColumns, hidden: Sequence[str], accuracy: str) -> dict[str, str]:
    """Return low, high and certified of the values whose intervals a replay knows, as a sink writes them.

    Where nothing was shed they are the value. Ends have its type: those of whole numbers are rounded inwards, but not
    beyond it.
    """
    columns = {}
    for name in written.intervals:
        if result_columns.low_of(name) not in hidden:
            continue
        value, kind = quoted_name(name), written.schema.fields.field(name).type
        for of, end, inwards, within in (
            (result_columns.low_of, "low", "ceil", "least"),
            (result_columns.high_of, "high", "floor", "greatest"),
        ):
            sql = quoted_name(of(name))
            if pa.types.is_integer(kind):
                sql = f"{inwards}({sql})"
            sql = f"CAST({sql} AS {sql_type(kind)})"
            if not pa.types.is_floating(kind):
                sql = f"CASE WHEN {sql} IS NOT NULL THEN {within}({sql}, {value}) END"
            columns[f"{name}_{end}"] = f"CASE WHEN {accuracy} < 1.0D THEN {sql} ELSE {value} END"
        certified = quoted_name(result_columns.certified_of(name))
        whole = f"CASE WHEN {value} IS NOT NULL THEN true END"
        columns[f"{name}_certified"] = f"CASE WHEN {accuracy} < 1.0D THEN {certified} ELSE {whole} END"
    return columns


def _of_quality(written: WrittenColumns, names: Sequence[str], *, estimates: bool) -> list[str]:
    if not written.quality or not estimates:
        return []
    if ACCURACY not in names:
        return ["what the stream says of its accuracy was not compared, as operators before it are computed as a whole"]
    missing = [name for name in written.intervals if f"{name}_low" not in names]
    notes = [f"the ends of the interval of {name!r} were not compared: {_NO_ENDS}" for name in missing]
    return notes + (["which rows are biased was not compared: estimates decide which there are"] * written.chosen)


def _of_column(name: str, function: str, error: float | None) -> str:
    if error is None:
        return f"column {name!r} is approximate in the stream ({function}) and is left out"
    return f"column {name!r} is approximate in the stream ({function}): it was compared within {100 * error:.1f}%"


def _at_least_once(sink: OperatorNode) -> str | None:
    spec = sink.spec
    assert isinstance(spec, SinkSpec)
    return spec.sink.topic if isinstance(spec.sink, KafkaSink) and not spec.sink.transactional else None
