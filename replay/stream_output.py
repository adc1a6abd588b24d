"""What a stream has put out so far, as Spark sees it: the committed files of its file sinks, and its topics.

Of an updating output only the rows count that stand at the end. Called by `validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.connectors.file_sinks import CsvSink, FileSink, JsonLinesSink, ParquetSink
from penstock.engine.connectors.json_lines import JsonLinesSource
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.engine.connectors.parquet import ParquetSource
from penstock.engine.connectors.staged_files import epoch_of
from penstock.model.connectors import Source
from penstock.model.job_graph import OperatorNode, SinkSpec
from penstock.model.schema import StreamSchema
from penstock.replay.bounded_source import PIECE, ROW, pieces_of, scan
from penstock.replay.frames import ReplayError
from penstock.replay.spark_types import quoted_name
from penstock.replay.topic_output import DELETED, OFFSET, PARTITION, topic_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WEIGHT = "weight"
"""The field that a sink adds to a changelog."""

TIMES = "$times"


def standing_rows(session: SparkSession, node: OperatorNode, schema: StreamSchema) -> DataFrame:
    """Return the rows that stand in what a sink has written, with the columns of ``schema``.

    Raises:
        ReplayError: what the sink writes cannot be read again.
        UserError: there is nothing.
    """
    spec = node.spec
    assert isinstance(spec, SinkSpec)
    written = _written(schema.fields, spec.mode)
    if isinstance(spec.sink, FileSink):
        rows, place = _files(session, node, spec.sink, written), (PIECE, ROW)
    elif isinstance(spec.sink, KafkaSink):
        rows, place = topic_rows(session, node, spec.sink, written), (PARTITION, OFFSET)
    else:
        raise ReplayError(
            f"sink {node.name!r} ({spec.sink.describe()}) cannot be held against a replay: nothing that can be read "
            "again is left of it; write files or a topic"
        )
    return _standing(rows, schema.fields.names, spec, place)


def as_written(exact: DataFrame, node: OperatorNode) -> DataFrame:
    """Return exact rows as the sink's format can say them: JSON has neither NaN nor infinities."""
    from pyspark.sql import functions as f

    assert isinstance(node.spec, SinkSpec)
    if isinstance(node.spec.sink, ParquetSink):
        return exact
    columns: list[Column] = []
    for name, kind in exact.dtypes:
        column = f.col(quoted_name(name))
        if kind in ("float", "double"):
            column = f.when(f.abs(column) < float("inf"), column)
        columns.append(column.alias(name))
    return exact.select(*columns)


def _written(fields: pa.Schema, mode: str) -> pa.Schema:
    if mode == "changelog":
        return fields.append(pa.field(WEIGHT, pa.int8()))
    return fields.append(pa.field(DELETED, pa.bool_())) if mode == "upsert" else fields


def _files(session: SparkSession, node: OperatorNode, sink: FileSink, written: pa.Schema) -> DataFrame:
    makes: dict[type[FileSink], Callable[[Path, pa.Schema], Source]] = {
        ParquetSink: ParquetSource,
        JsonLinesSink: JsonLinesSource,
    }
    make = makes.get(type(sink))
    if make is None:
        why = "CSV does not tell an empty text from a value that is missing" if isinstance(sink, CsvSink) else ""
        raise ReplayError(
            f"sink {node.name!r} ({sink.describe()}) cannot be held against a replay{': ' * bool(why)}{why}; write "
            "Parquet or JSON lines"
        )
    binary = next((field.name for field in written if pt.is_binary(field.type)), None)
    if binary is not None and make is JsonLinesSource:
        raise ReplayError(
            f"column {binary!r} of sink {node.name!r} is bytes, which JSON lines hold as text: write Parquet"
        )
    path = sink._path
    found = [path] if path.is_file() else [item for item in path.glob(f"part-*{sink.suffix}") if item.is_file()]
    if not found:
        raise ReplayError(
            f"sink {node.name!r} has written nothing to {path} yet: has the job run, and from this folder?"
        )
    # A key's later rows are in files of later checkpoints; in one checkpoint they are in one file.
    files = sorted(found, key=lambda file: (epoch_of(file.name) or 0, file.name))
    pieces = [piece for file in files for piece in pieces_of(make(file, written), 1)]
    return scan(session, written, pieces, numbered=True)


def _standing(rows: DataFrame, names: Sequence[str], spec: SinkSpec, place: tuple[str, str]) -> DataFrame:
    """Return the rows that stand, of rows that have places in the order in which they were written."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    columns = [f.col(quoted_name(name)) for name in names]
    if spec.mode == "append":
        return rows.select(*columns)
    if spec.mode == "changelog":
        total = rows.groupBy(*columns).agg(f.sum(WEIGHT).alias(TIMES)).where(f.col(TIMES) != 0)
        # A row that is retracted too often stands as often as that: an exact answer does not have it.
        times = f.explode(f.sequence(f.lit(1), f.abs(f.col(TIMES)).cast("int"))).alias(TIMES)
        return total.select(*columns, times).select(*columns)
    last = Window.partitionBy(*(f.col(quoted_name(name)) for name in spec.key)).orderBy(
        *(f.desc(part) for part in place)
    )
    numbered = rows.withColumn(TIMES, f.row_number().over(last))
    return numbered.where((f.col(TIMES) == 1) & ~f.col(DELETED)).select(*columns)
