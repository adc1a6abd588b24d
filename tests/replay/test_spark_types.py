"""Every type that Spark can carry comes back as it went in; the others are refused by name."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.model.errors import SchemaError
from penstock.replay.spark_types import (
    carrier,
    carrier_schema,
    from_spark_batch,
    quoted_name,
    spark_schema,
    sql_type,
    to_spark_batch,
)

AT = datetime.datetime(2024, 2, 29, 23, 59, 59, 123456)
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None]),
    (pa.bool_(), [True, False]),
    (pa.int8(), [-128, 127]),
    (pa.int16(), [-(2**15)]),
    (pa.int32(), [-(2**31)]),
    (pa.int64(), [-(2**63)]),
    (pa.uint8(), [255]),
    (pa.uint16(), [2**16 - 1]),
    (pa.uint32(), [2**32 - 1]),
    (pa.uint64(), [2**64 - 1, 0]),
    (pa.float16(), [1.5]),
    (pa.float32(), [0.1]),
    (pa.float64(), [0.1, float("inf")]),
    (pa.decimal128(38, 9), [Decimal("-12345678901234567890123456789.123456789")]),
    (pa.decimal128(3, 3), [Decimal("0.125")]),
    (pa.string(), ["", "é😀\0"]),
    (pa.large_string(), ["a"]),
    (pa.binary(), [b"", b"\xff\0"]),
    (pa.binary(2), [b"ab"]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (pa.date64(), [datetime.date(2024, 2, 29)]),
    (pa.timestamp("s"), [AT.replace(microsecond=0)]),
    (pa.timestamp("ms"), [AT.replace(microsecond=123000)]),
    (pa.timestamp("us"), [AT, datetime.datetime(1, 1, 1)]),
    (pa.timestamp("ms", "UTC"), [AT.replace(microsecond=0, tzinfo=datetime.UTC)]),
    (pa.timestamp("us", "Europe/Berlin"), [AT.replace(tzinfo=datetime.UTC)]),
    (pa.duration("s"), [datetime.timedelta(days=-3)]),
    (pa.duration("us"), [datetime.timedelta(microseconds=-1)]),
    (pa.time32("ms"), [datetime.time(23, 59, 59, 999000)]),
    (pa.time64("us"), [datetime.time(23, 59, 59, 999999)]),
    (pa.list_(pa.uint8()), [[], [1, None, 255]]),
    (pa.large_list(pa.timestamp("ms")), [[AT.replace(microsecond=0)]]),
    (pa.struct([("a b", pa.uint64()), ("c`", pa.struct([("d", pa.duration("ms"))]))]), [{"a b": 1, "c`": {"d": None}}]),
    (pa.map_(pa.string(), pa.list_(pa.float16())), [[("k", [1.5, None])]]),
    (pa.struct([pa.field("a", pa.uint8(), False), pa.field("b", pa.string(), False)]), [{"a": 1, "b": ""}]),
    (pa.list_(pa.field("item", pa.struct([pa.field("a", pa.int64(), False)]), False)), [[{"a": 1}], []]),
    (pa.map_(pa.string(), pa.field("value", pa.int64(), False)), [[("k", 1)]]),
]


def test_every_type_travels(spark: SparkSession) -> None:
    rows = max(len(values) for _, values in VALUES) + 1
    columns = [pa.array([*values, *[None] * (rows - len(values))], kind) for kind, values in VALUES]
    sent = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(VALUES))])
    carried = pa.Table.from_batches([to_spark_batch(sent)])
    frame = spark.createDataFrame(carried, spark_schema(sent.schema))
    assert frame.schema == spark_schema(sent.schema)
    returned = frame.mapInArrow(lambda batches: batches, frame.schema)
    for rows_of in (frame, returned):
        came = rows_of.toArrow().combine_chunks().to_batches()[0]
        assert from_spark_batch(came, sent.schema).equals(sent)


def test_names_of_types_are_those_of_the_schema(spark: SparkSession) -> None:
    kinds = [kind for kind, _ in VALUES]
    casts = [f"CAST(NULL AS {sql_type(kind)}) AS c{i}" for i, kind in enumerate(kinds)]
    expected = spark_schema(pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)]))
    spark.conf.set("spark.sql.timeType.enabled", "true")
    found = spark.range(1).selectExpr(*casts).schema
    assert [field.dataType.simpleString() for field in found] == [field.dataType.simpleString() for field in expected]


NONE = [pa.timestamp("ns"), pa.duration("ns"), pa.time64("ns"), pa.decimal256(50, 2), pa.decimal128(5, -2)]
NONE.append(pa.list_(pa.month_day_nano_interval()))


@pytest.mark.parametrize("kind", NONE)
def test_what_spark_has_no_type_for_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="column 'x': Spark has no type for"):
        carrier_schema(pa.schema([("x", kind)]))


def test_the_carrier_of_a_carrier_is_itself() -> None:
    for kind, _ in VALUES:
        if not pa.types.is_time(kind):
            assert carrier(carrier(kind)) == carrier(kind)


def test_names_are_quoted() -> None:
    assert quoted_name("a`b") == "`a``b`"
    with pytest.raises(SchemaError, match="variable"):
        quoted_name("${x}")
