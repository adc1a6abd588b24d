"""Contents of messages by a sink's format: the columns of their values, and the form of null.

Called by `topic_output` and `stream_output`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.engine.connectors.kafka.formats.contract import ValueDecoder
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.model.job_graph import OperatorNode
from penstock.model.schema import normal_type
from penstock.replay.frames import ReplayError
from penstock.replay.spark_constants import constant
from penstock.replay.spark_types import quoted_name, sql_type

KEY = "$key"
"""The bytes of a message's key, by which messages of upserts replace each other."""


def as_read(exact: DataFrame, node: OperatorNode, sink: KafkaSink, written: pa.Schema) -> DataFrame:
    """Return exact rows as messages can say them: narrower floats, and for some formats no nulls, or no NaN."""
    values = value_columns(node, sink, written)
    decoder = sink.format.read(values)
    if isinstance(decoder, JsonValues):
        return finite(exact)
    absent = _absent(decoder)
    columns = []
    for name in exact.columns:
        column = f.col(quoted_name(name))
        if name in values.names:
            kind = decoder.schema.field(name).type
            if pt.is_float32(kind):
                column = column.cast("float").cast(exact.schema[name].dataType)
            if name in absent:
                column = f.coalesce(column, f.expr(absent[name]))
        columns.append(column.alias(name))
    return exact.select(*columns)


def finite(exact: DataFrame) -> DataFrame:
    """Return rows as JSON can say them, which has neither NaN nor infinities."""
    columns: list[Column] = []
    for name, kind in exact.dtypes:
        column = f.col(quoted_name(name))
        if kind in ("float", "double"):
            column = f.when(f.abs(column) < float("inf"), column)
        columns.append(column.alias(name))
    return exact.select(*columns)


def value_columns(node: OperatorNode, sink: KafkaSink, written: pa.Schema) -> pa.Schema:
    """Return the columns of the messages' values.

    Raises:
        ReplayError: other columns are nowhere where they can be read again.
    """
    layout, alone = sink.layout, sink.format.alone
    if layout.headers is not None:
        raise ReplayError(
            f"sink {node.name!r} writes column {layout.headers!r} as headers, which are not held against a replay"
        )
    if alone and layout.timestamp is not None:
        raise ReplayError(
            f"sink {node.name!r} writes column {layout.timestamp!r} as the messages' time alone, which is not held "
            "against a replay: write another format"
        )
    if alone and (len(layout.key) > 1 or any(from_key(written.field(name).type) is None for name in layout.key)):
        raise ReplayError(
            f"sink {node.name!r} writes {', '.join(map(repr, layout.key))} as the messages' key alone, which is held "
            "against a replay only if it is one column of text, bytes or integers: write another format"
        )
    return pa.schema([written.field(name) for name in layout.value(written, alone=alone)])


def own_type(name: str, kind: pa.DataType) -> str:
    """Return a column in its own type, whatever messages have instead, as Spark SQL."""
    return f"CAST({quoted_name(name)} AS {sql_type(kind)})"


def from_key(kind: pa.DataType) -> str | None:
    """Return the column that a key is alone, as Spark SQL."""
    if pt.is_binary(normal_type(kind)):
        return quoted_name(KEY)
    text = f"CAST({quoted_name(KEY)} AS STRING)"
    if pt.is_string(normal_type(kind)):
        return text
    return f"CAST({text} AS {sql_type(kind)})" if pt.is_integer(kind) else None


def _absent(decoder: ValueDecoder) -> Mapping[str, str]:
    """Return what stands for null in columns that cannot be null, as Spark SQL: Protobuf has defaults.

    Raises:
        ReplayError: a column is nested, and its parts have defaults too.
    """
    try:
        from penstock.engine.connectors.kafka.formats.protobuf import ProtobufValues
    except ImportError:
        return {}
    if not isinstance(decoder, ProtobufValues):
        return {}
    nested = next((field.name for field in decoder.schema if _has_struct(field.type)), None)
    if nested is not None:
        raise ReplayError(f"column {nested!r} is a message of its own, in which Protobuf does not tell null from 0")
    rows = decoder.absent
    values = {name: rows.column(name)[0] for name in rows.schema.names} if rows.num_rows else {}
    texts = {}
    for name, value in values.items():
        if value.is_valid:
            empty = pt.is_list(value.type) or pt.is_map(value.type)
            texts[name] = f"CAST({'map()' if pt.is_map(value.type) else 'array()'} AS {sql_type(value.type)})"
            if not empty:
                texts[name] = constant(value)
    return texts


def _has_struct(kind: pa.DataType) -> bool:
    return pt.is_struct(kind) or any(_has_struct(kind.field(index).type) for index in range(kind.num_fields))
