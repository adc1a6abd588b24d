"""Every format that a sink writes is read again for a validation; what leaves nothing behind is counted."""

import datetime
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col
from penstock.dsl.job import Job
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.job_graph import SinkSpec
from penstock.replay.source_reading import SourceReading
from penstock.replay.validation import validate_sink
from penstock.replay.validation_result import ComparisonStatus, QueryValidation
from tests.kafka.reading import read_topic
from tests.long_cases import but_for
from tests.replay.kafka_rows import produce

AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NAMES = ["", None, 'q"x', "l\nb", "é,\r\n", "plain"]
ROWS = pa.table(
    {
        "id": pa.array(range(300), pa.int64()),
        "small": pa.array([number % 250 for number in range(300)], pa.uint8()),
        "k": pa.array([number % 5 for number in range(300)], pa.int32()),
        "name": pa.array([NAMES[number % 6] for number in range(300)]),
        "at": pa.array([AT + datetime.timedelta(milliseconds=number) for number in range(300)]),
        "price": pa.array(
            [None if number % 7 == 0 else Decimal(number) / 4 for number in range(300)], pa.decimal128(9, 2)
        ),
        "x": pa.array([float("nan") if number % 11 == 0 else number / 3 for number in range(300)]),
        "seconds": pa.array([None if number % 3 == 0 else number for number in range(300)], pa.int64()),
    }
)
COMPARED = ("avro", "narrow", "avro upserts", "protobuf", "raw", "arrow", "csv", "csv upserts", "csv changes")
NARROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "x", "type": "float"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "more", "type": "string", "default": "none"},
    ],
}
"""A schema with narrower numbers than the columns, and a field more."""


def job_of(kafka: str, topics: dict[str, str], folder: Path) -> Job:
    job = Job()
    rows = ps.read_memory(ROWS, time="at", job=job).name("rows")
    plain = rows.drop("seconds")
    totals = rows.key_by("k").agg(n=ps.count(), most=ps.max_("price")).name("totals")

    def write(stream: Any, name: str, **options: Any) -> None:
        stream.write_kafka(topics[name], kafka=kafka, **options).name(name)

    write(plain, "avro", format="avro", key="id")
    write(rows.select("id", "x", "at"), "narrow", format="avro", schema=NARROW)
    write(totals, "avro upserts", format="avro", mode="upsert", key="k")
    write(rows.select("seconds", nanos=col("k")), "protobuf", format="protobuf", message=Timestamp)
    write(rows.select("id", "name"), "raw", format="raw", key="id")
    write(totals, "arrow", format="arrow", mode="changelog")
    plain.write_csv(folder / "csv").name("csv")
    totals.write_csv(folder / "upserts", mode="upsert", key="k").name("csv upserts")
    totals.write_csv(folder / "changes", mode="changelog").name("csv changes")
    plain.for_each_batch(lambda batch: None).name("callback")
    plain.write_black_hole().name("black hole")
    plain.collect().name("memory")
    return job


Written = tuple[Job, dict[str, str], Path]


def written_to(kafka: str, folder: Path) -> Written:
    """Run the job with topics of its own."""
    names = ("avro", "narrow", "avro upserts", "protobuf", "raw", "arrow")
    own = secrets.token_hex(4)
    topics = {name: f"formats-{own}-{index}" for index, name in enumerate(names)}
    for topic in topics.values():
        create_topic(KafkaSettings(kafka), topic, 2, {"retention.ms": "-1"})
    job = job_of(kafka, topics, folder)
    job.run("formats", parallelism=2)
    return job, topics, folder


@pytest.fixture(scope="module")
def written(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """What all tests here read, and none changes."""
    return written_to(kafka, tmp_path_factory.mktemp("formats"))


def validated(job: Job, name: str, spark: SparkSession) -> QueryValidation:
    (node,) = [node for node in job.graph.operators.values() if node.name == name and isinstance(node.spec, SinkSpec)]
    return validate_sink(job.graph, node, SourceReading(spark, tasks=2), spark)


@pytest.mark.parametrize("name", but_for(COMPARED, ["avro"], "an answer of Spark for every format; [avro] stays"))
def test_what_was_written_is_what_spark_computes(written: Written, name: str, spark: SparkSession) -> None:
    found = validated(written[0], name, spark)
    assert (found.why, found.status) == (None, ComparisonStatus.SAME), found
    assert found.rows_exact == found.rows_stream == (5 if "csv " in name or name in ("avro upserts", "arrow") else 300)


def test_what_leaves_nothing_behind_is_counted(written: Written, spark: SparkSession) -> None:
    for name in ("callback", "black hole", "memory"):
        found = validated(written[0], name, spark)
        assert found.status == ComparisonStatus.NOT_COMPARED and found.rows_exact == 300
        assert "leaves nothing that could be read again, so only rows were counted" in str(found.why)


@pytest.mark.long("three answers of Spark; test_validation finds rows that are lost or come twice")
def test_a_message_that_comes_twice_and_a_line_that_is_changed_are_found(
    tmp_path: Path, kafka: str, spark: SparkSession
) -> None:
    job, topics, folder = written_to(kafka, tmp_path)
    produce(kafka, topics["avro"], [read_topic(kafka, topics["avro"])[0].value])
    found = validated(job, "avro", spark)
    assert (found.extra, found.missing) == (1, 0)
    file = next(file for file in sorted((folder / "csv").glob("part-*")) if b'"plain"' in file.read_bytes())
    file.write_bytes(file.read_bytes().replace(b'"plain"', b"", 1))
    found = validated(job, "csv", spark)
    assert (found.extra, found.missing) == (1, 1)
    assert {example.status: (example.stream or example.exact or {})["name"] for example in found.examples} == {
        "extra": None,
        "missing": "plain",
    }
