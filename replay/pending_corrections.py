"""Corrections to publish: rows that differ once those published before are added to what a stream wrote.

So a correction is published once, and one that is no longer right is taken back. Called by `correction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.engine.connectors.kafka.encoded import MessageEncoder, MessageLayout
from penstock.engine.connectors.kafka.formats.json import JsonEncoder
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.model.job_graph import OperatorNode, SinkSpec
from penstock.replay.comparison import EXACT, EXTRA, STATUS, STREAM, differences
from penstock.replay.correction_headers import INSERT, RETRACT, Headers
from penstock.replay.kafka_reading import read_rows
from penstock.replay.spark_types import from_spark_batch, quoted_name, spark_schema, to_spark_batch
from penstock.replay.stream_output import written_fields
from penstock.replay.topic_formats import KEY, value_columns
from penstock.replay.topic_output import (
    DELETED,
    OFFSET,
    PARTITION,
    WEIGHT,
    everything_in,
    in_own_types,
    topic_rows,
    topic_source,
)

CHANGE = "$change"
"""The change of a row: `INSERT` or `RETRACT`."""

_HEADERS = "$headers"


def published_corrections(
    session: SparkSession, node: OperatorNode, fields: pa.Schema, topic: str, about: Headers
) -> DataFrame | None:
    """Return the corrections in a topic that are about a sink: its columns, with their `CHANGE`, `KEY` and places.

    None: there is nothing at all in the topic.

    Raises:
        UserError: the topic is gone.
    """
    assert isinstance(node.spec, SinkSpec) and isinstance(node.spec.sink, KafkaSink)
    written = written_fields(fields, node.spec.mode)
    metadata = {"headers": _HEADERS, "key": KEY, "partition": PARTITION, "offset": OFFSET}
    source = topic_source(node, node.spec.sink, topic, written, metadata)
    chosen = everything_in(source)
    if not chosen.ranges:
        return None
    rows = in_own_types(read_rows(session, source, chosen), value_columns(node, node.spec.sink, written))

    def has(name: str, value: bytes) -> Column:
        return f.exists(_HEADERS, lambda header: (header["key"] == name) & (header["value"] == f.lit(value)))

    for name, value in about.sink():
        rows = rows.where(has(name, value))
    change = f.when(has(*about.change(RETRACT)), RETRACT).otherwise(INSERT)
    columns = [f.col(quoted_name(name)) for name in fields.names]
    return rows.select(*columns, change.alias(CHANGE), KEY, PARTITION, OFFSET)


def pending_corrections(
    session: SparkSession,
    node: OperatorNode,
    fields: pa.Schema,
    keys: Sequence[str],
    stream: DataFrame,
    exact: DataFrame,
    before: DataFrame | None,
    checkpoint: Checkpoint | None,
) -> DataFrame:
    """Return in which rows a sink and the corrections ``before`` differ together from the exact answer.

    As `comparison.differences` has them, those of upserts with their `KEY`. Messages that cannot be read are not among
    them: no row takes those back.

    Raises:
        ReplayError: the sink has gone on behind the ``checkpoint``.
    """
    assert isinstance(node.spec, SinkSpec) and isinstance(node.spec.sink, KafkaSink)
    mode, sink = node.spec.mode, node.spec.sink
    if mode == "upsert":
        written = topic_rows(session, node, sink, written_fields(fields, mode), checkpoint)
        differing = differences(_overlaid(written, before, fields), _keyed(exact, fields, sink.layout.key), [KEY])
        return differing.where(f.col(KEY).isNotNull())
    names = [f.col(quoted_name(name)) for name in fields.names]
    # To take a row from one side is to add it to the other: so floats that are near cancel out too.
    if mode == "changelog":
        written = topic_rows(session, node, sink, written_fields(fields, mode), checkpoint)
        stream = written.where(f.col(WEIGHT) > 0).select(*names)
        exact = exact.unionByName(written.where(f.col(WEIGHT) < 0).select(*names))
    if before is not None:
        stream = stream.unionByName(before.where(f.col(CHANGE) == INSERT).select(*names))
        exact = exact.unionByName(before.where(f.col(CHANGE) == RETRACT).select(*names))
    differing = differences(stream, exact, keys)
    empty = reduce(lambda one, other: one & other, (f.col(STREAM)[name].isNull() for name in fields.names))
    return differing.where((f.col(STATUS) != EXTRA) | ~empty)


def correction_changes(differing: DataFrame, mode: str) -> DataFrame:
    """Return what to publish of rows that differ: their columns, with `STATUS` and `CHANGE`.

    A row that is different is taken back and written anew; in upserts it replaces the other.
    """
    wrong, right = differing.where(f.col(STREAM).isNotNull()), differing.where(f.col(EXACT).isNotNull())
    if mode == "upsert":
        wrong = wrong.where(f.col(STATUS) == EXTRA)
    sides = [
        rows.select(STATUS, f.lit(change).alias(CHANGE), f"{quoted_name(side)}.*")
        for rows, change, side in ((wrong, RETRACT, STREAM), (right, INSERT, EXACT))
    ]
    return sides[0].unionByName(sides[1])


def _overlaid(written: DataFrame, before: DataFrame | None, fields: pa.Schema) -> DataFrame:
    """Return what stands of upserts once corrections have replaced rows by their keys."""
    names = [*(f.col(quoted_name(name)) for name in fields.names), f.col(KEY)]
    stands = _last(written).where(~f.col(DELETED)).select(*names)
    if before is None:
        return stands
    last = _last(before)
    untouched = stands.join(last.select(KEY), KEY, "left_anti")
    return untouched.select(*names).unionByName(last.where(f.col(CHANGE) == INSERT).select(*names))


def _last(messages: DataFrame) -> DataFrame:
    """Return the last message of each key."""
    order = Window.partitionBy(KEY).orderBy(f.desc(PARTITION), f.desc(OFFSET))
    return messages.withColumn("$turn", f.row_number().over(order)).where("`$turn` = 1")


def _keyed(rows: DataFrame, fields: pa.Schema, key: tuple[str, ...]) -> DataFrame:
    """Return rows with the key that the message of each has."""
    return rows.mapInArrow(_adding_keys(fields, key), spark_schema(fields.append(pa.field(KEY, pa.binary()))))


def _adding_keys(
    fields: pa.Schema, key: tuple[str, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that adds the key that a message of each row has; workers call it."""

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([fields.field(name) for name in key])
        layout = MessageLayout(key)
        encoder = MessageEncoder(
            schema, layout, lambda columns: JsonEncoder(), alone=False, limit_bytes=1 << 31, where="keys"
        )
        for batch in batches:
            rows = from_spark_batch(batch, fields)
            keys = encoder.encode(rows.select(list(key))).column("key")
            yield to_spark_batch(rows.append_column(pa.field(KEY, pa.binary()), keys))

    return add
