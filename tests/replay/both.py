"""One pipeline answered twice: by our stream in this process, and by Spark from the same rows.

Called by the tests of the compiler and its operators.
"""

import datetime
import decimal
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.dsl.stream import Stream
from penstock.engine.connectors.local.lookup_tables import SourceTable
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.model.job_graph import OperatorNode, SourceSpec
from penstock.replay.compiler import compile_job
from penstock.replay.frames import Frame
from penstock.replay.spark_types import carrier_schema, from_spark_batch, spark_schema
from tests.benchmarks.same_rows import assert_same_rows

EPOCH = datetime.datetime(1970, 1, 1)
UNHURRIED = "36500d"
"""A watermark delay with which no row is late."""

_AT_ONCE = 3
"""Queries run beside each other: most of the time of a small one is Spark's planning."""

FIELDS = pa.schema(
    {
        "k": pa.int64(),
        "name": pa.string(),
        "at": pa.timestamp("us"),
        "n": pa.int64(),
        "small": pa.int32(),
        "x": pa.float64(),
        "price": pa.decimal128(12, 2),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "raw": pa.binary(),
    }
)


def random_rows(seed: int, count: int, *, keys: int = 5, span_s: int = 60, fields: pa.Schema = FIELDS) -> pa.Table:
    """Return rows full of ties, nulls and odd numbers, whose times lie on both sides of 1970."""
    draw = random.Random(seed)

    def some(values: list[Any]) -> Any:
        return None if draw.random() < 0.1 else draw.choice(values)

    rows = [
        {
            "k": some(list(range(keys))),
            "name": some(["", "a", "ab", "b", "é", "z\0"]),
            "at": EPOCH + datetime.timedelta(seconds=draw.randrange(-span_s, span_s), microseconds=draw.choice([0, 1])),
            "n": some([0, 1, 2, -3, 7, 2**62, -(2**62)]),
            "small": some([0, 1, -5, 2**31 - 1]),
            "x": some([0.0, -0.0, 1.5, -2.25, 1e10, float("nan"), 3.0, float("inf"), float("-inf")]),
            "price": some([decimal.Decimal("1.25"), decimal.Decimal("-7.00"), decimal.Decimal("9999999999.99")]),
            "flag": some([True, False]),
            "day": some([datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
            "raw": some([b"", b"\x00", b"\xff", b"ab"]),
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist([{name: row[name] for name in fields.names} for row in rows], fields)


def timed(job: Job, rows: pa.Table, time: str = "at") -> Stream:
    """Return a stream of rows of which none is late."""
    return read_memory(rows, time=time, watermark=UNHURRIED, job=job)


def reading(spark: SparkSession) -> Callable[[OperatorNode], DataFrame]:
    """Return what reads any bounded source as a whole."""

    def read(node: OperatorNode) -> DataFrame:
        assert isinstance(node.spec, SourceSpec)
        table = SourceTable(node.spec.source).load()
        return spark.createDataFrame(table.cast(carrier_schema(table.schema)), spark_schema(table.schema))

    return read


def collected(frame: Frame) -> pa.Table:
    """Return the rows of a frame in the types of the stream."""
    fields = frame.schema.fields
    batches = frame.rows.toArrow().to_batches()
    return pa.Table.from_batches([from_spark_batch(batch, fields) for batch in batches], fields)


def compiled(spark: SparkSession, build: Callable[[Job], Mapping[str, Stream]]) -> dict[str, Frame]:
    """Compile a pipeline; ``build`` gives streams by name."""
    job = Job()
    for name, stream in build(job).items():
        stream.write_black_hole(mode="changelog" if stream.updating else "append").name(name)
    return dict(compile_job(job.graph, reading(spark)))


def check_both(spark: SparkSession, build: Callable[[Job], Mapping[str, Stream]]) -> dict[str, pa.Table]:
    """Compare what our stream and Spark answer for every stream that ``build`` gives; return the answers."""
    job = Job()
    sinks: dict[str, MemorySink] = {}
    for name, stream in build(job).items():
        sinks[name] = MemorySink()
        stream.write(sinks[name], mode="changelog" if stream.updating else "append").name(name)
    frames = compile_job(job.graph, reading(spark))
    job.run("both")
    assert frames.keys() == sinks.keys()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(frames, pool.map(collected, frames.values()), strict=True))
    for name, sink in sinks.items():
        try:
            assert_same_rows(answers[name], sink.table())
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
    return answers
