"""Kafka pipelines in another process: every format is read and written there, and an epoch is published here."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.engine.executors.managers.plan_parcel import pack_plan, pack_sinks
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.planner import plan
from penstock.engine.restore.restorer import recover_sinks, release_connectors, with_checkpoints
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SinkSpec, SourceSpec
from penstock.state.files.local_files import LocalFiles
from tests.contracts.executors.metered import until
from tests.engine.connectors.kafka.formats.protobuf_classes import ORDER
from tests.engine.connectors.kafka.formats.registry_server import registry_server
from tests.engine.executors.managers.elsewhere import run_elsewhere
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import ids_in
from tests.kafka.test_source import produce

ONE_STAYS = pytest.mark.long("two processes for each format; JSON stays")

AT = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
ROWS = [{"id": number, "name": f"n{number}", "at": AT} for number in range(300)]
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}

WRITE = """
import json, sys
from pathlib import Path
import pyarrow as pa
paths, (plan, sinks) = json.loads(sys.argv[1])
sys.path[:] = paths
from penstock.engine.executors.managers.plan_parcel import unpack_plan, with_sinks
made = with_sinks(unpack_plan(Path(plan).read_bytes()), Path(sinks).read_bytes())
(node,) = [node for node in made.graph.graph.operators.values() if node.kind == "sink"]
receipts = []
for instance in range(2):
    writer = node.spec.sink.open(pa.schema({"id": pa.int64()}), instance, 2)
    writer.write(pa.record_batch({"id": [instance, instance + 10]}))
    receipts.append(writer.prepare(1))
    writer.close()
print(json.dumps(receipts))
"""


def packed(job: Job, folder: Path, name: str) -> Path:
    planned = plan(job.graph, 2, apart=True)
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(pack_plan(JobPlan(name, planned, LoopOptions(), folder / f"{name}-job")))
    release_connectors(planned)
    return folder / name


def written_and_read(
    kafka: str, topic: str, folder: Path, rows: pa.Table, writing: dict[str, Any], reading: dict[str, Any]
) -> list[dict[str, Any]]:
    """Write rows to a topic and read them again, both elsewhere."""
    folder.mkdir(exist_ok=True)
    pq.write_table(rows, folder / "rows.parquet")
    job = Job()
    ps.read_parquet(folder / "rows.parquet", job=job).write_kafka(topic, kafka=kafka, **writing)
    run_elsewhere([packed(job, folder, "writing")])
    job = Job()
    read_kafka(topic, kafka=kafka, until="latest", job=job, **reading).write_parquet(folder / "out")
    run_elsewhere([packed(job, folder, "reading")])
    return pq.read_table(folder / "out").sort_by("id").to_pylist()


@pytest.mark.parametrize(
    ("name", "writing", "reading"),
    [
        ("json", {}, {"schema": SCHEMA}),
        pytest.param("arrow", {}, {"schema": SCHEMA}, marks=ONE_STAYS),
        pytest.param("avro", {"schema": AVRO}, {"schema": AVRO, "metadata": {"offset": "offset"}}, marks=ONE_STAYS),
    ],
)
def test_rows_are_written_and_read_elsewhere(
    kafka: str, topic: MakeTopic, tmp_path: Path, name: str, writing: dict[str, Any], reading: dict[str, Any]
) -> None:
    rows = pa.Table.from_pylist(ROWS, SCHEMA)
    writing, reading = {"format": name, **writing}, {"format": name, **reading}
    found = written_and_read(kafka, topic(2), tmp_path, rows, writing, reading)
    assert [{key: row[key] for key in SCHEMA.names} for row in found] == ROWS


def test_a_registry_is_asked_elsewhere(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    rows = pa.Table.from_pylist(ROWS, SCHEMA)
    with registry_server() as registry:
        options = {"format": "avro", "schema": AVRO, "registry": registry.url}
        assert written_and_read(kafka, topic(), tmp_path / "avro", rows, options, options) == ROWS
        protobuf = {"format": "protobuf", "message": ORDER, "registry": registry.url}
        ids = pa.table({"id": pa.array(range(300), pa.int64())})
        found = written_and_read(kafka, topic(), tmp_path / "protobuf", ids, protobuf, protobuf)
        assert [row["id"] for row in found] == list(range(300))


def test_a_key_raw_values_and_letters_go_along(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name, letters = topic(), topic()
    produce(kafka, name, [1, 2, b"{", 3], key=b"k")
    job = Job()
    options = {"kafka": kafka, "until": "latest", "job": job}
    whole = read_kafka(name, format="raw", key={"k": str}, metadata={"offset": "offset"}, **options)
    whole.write_parquet(tmp_path / "raw")
    read_kafka(name, schema={"id": int}, dead_letter_topic=letters, **options).write_parquet(tmp_path / "json")
    run_elsewhere([packed(job, tmp_path, "reading")])
    rows = pq.read_table(tmp_path / "raw").sort_by("offset")
    assert (rows["k"].to_pylist(), rows["offset"].to_pylist()) == (["k"] * 4, [0, 1, 2, 3])
    assert sorted(pq.read_table(tmp_path / "json")["id"].to_pylist()) == [1, 2, 3]
    (letter,) = read_letters(kafka, letters)
    assert letter == b"{"


def read_letters(kafka: str, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "letters", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


def test_a_run_ends_where_its_start_saw_the_end(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic(2)
    produce(kafka, name, [1, 2, 3], 0)
    produce(kafka, name, [4], 1)
    job = Job()
    read_kafka(name, kafka=kafka, schema={"id": int}, until="latest", job=job).write_parquet(tmp_path / "out")
    parcel = packed(job, tmp_path, "reading")
    produce(kafka, name, [100], 0)
    produce(kafka, name, [101], 1)
    run_elsewhere([parcel])
    assert sorted(pq.read_table(tmp_path / "out")["id"].to_pylist()) == [1, 2, 3, 4]


def test_monitoring_is_told_by_the_process_that_started_the_job(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    produce(kafka, name, [1, 2, 3])
    job = Job()
    read_kafka(name, kafka=kafka, schema={"id": int}, job=job).write_black_hole()
    planned = plan(job.graph, 1)
    pack_plan(JobPlan("told", planned, LoopOptions(), tmp_path))
    (source,) = [node.spec.source for node in planned.graph.operators.values() if isinstance(node.spec, SourceSpec)]
    assert isinstance(source, KafkaSource)
    source.committed(f"group-{name}", {f"{name}/0": {"offset": 2, "rows": 0, "topic_id": None}})
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": f"group-{name}"})
    place = TopicPartition(name, 0)
    # It is told in the background.
    until(lambda: consumer.committed([place], timeout=20)[0].offset == 2)
    consumer.close()
    source.release()
    assert source._cluster._admin is None


def bound(kafka: str, topic: str, folder: Path) -> tuple[ExecutionGraph, ExecutionGraph, KafkaSink]:
    job = Job()
    ids = ps.read_iterable(lambda: iter([{"id": 1}]), schema={"id": int}, job=job)
    ids.write_kafka(topic, kafka=kafka, guarantee="exactly_once").name("out").parallelism(2)
    graph = plan(job.graph, 2)
    ready = with_checkpoints(graph, topic, LocalFiles(folder))
    spec = next(node.spec for node in ready.graph.operators.values() if isinstance(node.spec, SinkSpec))
    assert isinstance(spec.sink, KafkaSink)
    return graph, ready, spec.sink


def test_what_writers_elsewhere_keep_is_published_here(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    graph, ready, sink = bound(kafka, name, tmp_path / "checkpoints")
    recover_sinks(ready, None)
    (tmp_path / "plan").write_bytes(pack_plan(JobPlan("job", graph, LoopOptions(), tmp_path)))
    (tmp_path / "sinks").write_bytes(pack_sinks(ready))
    receipts = json.loads(run_elsewhere([tmp_path / "plan", tmp_path / "sinks"], code=WRITE))
    assert ids_in(kafka, name) == []
    sink.commit(1, receipts)
    assert sorted(ids_in(kafka, name)) == [0, 1, 10, 11]
    sink.commit(1, receipts)
    assert len(ids_in(kafka, name)) == 4
    assert sink._commits is not None
    assert sink._commits._transports
    release_connectors(ready)
    assert not sink._commits._transports


def test_a_script_with_a_kafka_pipeline(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    into, out = topic(2), topic()
    produce(kafka, into, [1, 2, 3, 4], 0)
    script = f"""
from pathlib import Path
import penstock as ps
from penstock.engine.executors.managers.plan_parcel import pack_plan
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.planner import plan
from penstock.model.config import LoopOptions

job = ps.Job()
ids = ps.read_kafka({into!r}, kafka={kafka!r}, schema={{"id": int, "name": str}}, until="latest", job=job)
ids.filter(lambda row: row["id"] % 2 == 0).write_kafka({out!r}, kafka={kafka!r}, key="id")
Path("parcel").write_bytes(pack_plan(JobPlan("job", plan(job.graph, 2), LoopOptions(), Path("job").resolve())))
"""
    (tmp_path / "app.py").write_text(script)
    ran = subprocess.run([sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    run_elsewhere([tmp_path / "parcel"])
    assert sorted(ids_in(kafka, out)) == [2, 4]
