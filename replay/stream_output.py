"""The output of a stream so far, as Spark sees it: the committed files of its file sinks, and its topics.

Of an updating output only the rows count that stand at the end. Called by `validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.engine.connectors.files.sinks import CsvSink, FileSink, JsonLinesSink, ParquetSink
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.connectors import Source
from penstock.model.job_graph import OperatorNode, SinkSpec
from penstock.model.schema import StreamSchema
from penstock.replay.bounded_source import PIECE, ROW, pieces_of, scan
from penstock.replay.committed_output import committed_files
from penstock.replay.csv_output import CsvOutput
from penstock.replay.frames import ReplayError
from penstock.replay.spark_types import quoted_name
from penstock.replay.topic_formats import KEY, as_read, finite
from penstock.replay.topic_output import DELETED, OFFSET, PARTITION, WEIGHT, topic_rows

TIMES = "$times"


class UnreadableError(ReplayError):
    """A sink leaves nothing behind that could be read again."""


def standing_rows(
    session: SparkSession, node: OperatorNode, schema: StreamSchema, checkpoint: Checkpoint | None = None
) -> DataFrame:
    """Return the rows that stand in what a sink has written, with the columns of ``schema``.

    With a ``checkpoint`` of the job, in what was written up to that.

    Raises:
        UnreadableError: what the sink writes cannot be read again.
        ReplayError: some of it cannot, or not as far as the checkpoint.
        UserError: there is nothing.
    """
    spec = node.spec
    assert isinstance(spec, SinkSpec)
    written = written_fields(schema.fields, spec.mode)
    by = spec.key
    if isinstance(spec.sink, FileSink):
        rows, place = _files(session, node, spec.sink, written, checkpoint), (PIECE, ROW)
    elif isinstance(spec.sink, KafkaSink):
        # Messages replace each other by their keys, whatever their values say.
        rows, place, by = topic_rows(session, node, spec.sink, written, checkpoint), (PARTITION, OFFSET), (KEY,)
    else:
        raise UnreadableError(
            f"sink {node.name!r} ({spec.sink.describe()}) leaves nothing that could be read again, so only rows were "
            "counted: write files or a topic to have them compared"
        )
    return _standing(rows, schema.fields.names, spec.mode, by, place)


def as_written(exact: DataFrame, node: OperatorNode, schema: StreamSchema) -> DataFrame:
    """Return exact rows, which have the columns of ``schema``, as the sink's format can say them.

    Raises:
        ReplayError: it does not hold all that is to be compared.
    """
    spec = node.spec
    assert isinstance(spec, SinkSpec)
    if isinstance(spec.sink, KafkaSink):
        return as_read(exact, node, spec.sink, written_fields(schema.fields, spec.mode))
    return finite(exact) if isinstance(spec.sink, JsonLinesSink) else exact


def written_fields(fields: pa.Schema, mode: str) -> pa.Schema:
    """Return what a sink writes of rows with these fields."""
    if mode == "changelog":
        return fields.append(pa.field(WEIGHT, pa.int8()))
    return fields.append(pa.field(DELETED, pa.bool_())) if mode == "upsert" else fields


def _files(
    session: SparkSession, node: OperatorNode, sink: FileSink, written: pa.Schema, checkpoint: Checkpoint | None
) -> DataFrame:
    makes: dict[type[FileSink], Callable[[Path, pa.Schema], Source]] = {
        ParquetSink: ParquetSource,
        JsonLinesSink: JsonLinesSource,
        CsvSink: CsvOutput,
    }
    make = makes.get(type(sink))
    if make is None:
        raise UnreadableError(
            f"sink {node.name!r} ({sink.describe()}) writes files of its own kind, which cannot be read again, so only "
            "rows were counted: write Parquet, JSON lines or CSV to have them compared"
        )
    binary = next((field.name for field in written if pt.is_binary(field.type)), None)
    if binary is not None and make is JsonLinesSource:
        raise ReplayError(
            f"column {binary!r} of sink {node.name!r} is bytes, which JSON lines hold as text: write Parquet"
        )
    files = committed_files(node, sink, checkpoint)
    pieces = [piece for file in files for piece in pieces_of(make(file, written), 1)]
    return scan(session, written, pieces, numbered=True)


def _standing(rows: DataFrame, names: Sequence[str], mode: str, by: Sequence[str], place: tuple[str, str]) -> DataFrame:
    """Return the rows that stand, of rows that have places in the order in which they were written.

    Upserts replace each other ``by`` these columns.
    """
    columns = [f.col(quoted_name(name)) for name in names]
    if mode == "append":
        return rows.select(*columns)
    if mode == "changelog":
        total = rows.groupBy(*columns).agg(f.sum(WEIGHT).alias(TIMES)).where(f.col(TIMES) != 0)
        # A row that is retracted too often stands as often as that: an exact answer does not have it.
        times = f.explode(f.sequence(f.lit(1), f.abs(f.col(TIMES)).cast("int"))).alias(TIMES)
        return total.select(*columns, times).select(*columns)
    last = Window.partitionBy(*(f.col(quoted_name(name)) for name in by)).orderBy(*(f.desc(part) for part in place))
    numbered = rows.withColumn(TIMES, f.row_number().over(last))
    return numbered.where((f.col(TIMES) == 1) & ~f.col(DELETED)).select(*columns)
