"""A job outlives what its topic keeps: what it wrote is held against the archive and the topic behind it."""

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col
from tests.command_line import penstock
from tests.replay.conftest import MakeTopic
from tests.replay.kafka_rows import produce

PROGRAM = """
import sys
from tests.replay.test_from_archive import totals
totals(*sys.argv[1:]).run("totals", checkpoint_dir=f"{sys.argv[3]}/checkpoints")
"""


def totals(kafka: str, topic: str, folder: str) -> ps.Job:
    job = ps.Job()
    rows = ps.read_kafka(topic, kafka=kafka, schema={"id": int, "name": str}, job=job).name("rows")
    rows.select("id", "name").write_parquet(f"{folder}/rows").name("kept")
    sums = rows.key_by(last=col("id") % 7).agg(n=ps.count(), total=ps.sum_("id")).name("sums")
    sums.write_json(f"{folder}/sums", mode="upsert", key="last").name("totals")
    return job


def go_on(kafka: str, topic: str, folder: Path, rows: int) -> None:
    """Let the job go on where it was, until it has read so many rows in all; it is stopped at a checkpoint."""
    options = {"checkpoint_dir": folder / "checkpoints", "checkpoint_interval": "50ms", "directory": folder / "job"}
    handle = totals(kafka, topic, str(folder)).start("totals", **options)
    until = time.monotonic() + 30
    while handle.metrics().source_rows < rows and time.monotonic() < until:
        time.sleep(0.02)
    assert handle.stop().source_rows == rows


@pytest.mark.long("a job, an archive and two validations; test_archive reads rows from both")
def test_what_retention_took_is_validated_from_the_archive(
    spark: SparkSession, kafka: str, topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, archives = topic(2), str(tmp_path / "archives")
    produce(kafka, name, range(300), 0)
    produce(kafka, name, range(1_000, 1_200), 1)
    go_on(kafka, name, tmp_path, 500)
    assert penstock("archive", name, "--kafka", kafka, "--out", archives) == 0
    produce(kafka, name, range(300, 400), 0)
    produce(kafka, name, range(1_200, 1_250), 1)
    go_on(kafka, name, tmp_path, 650)
    # Not read by the job, so no part of its answer.
    produce(kafka, name, range(400, 450), 0)
    admin = AdminClient({"bootstrap.servers": kafka})
    # One partition loses less than is archived, the other all of that.
    heads = [TopicPartition(name, 0, 250), TopicPartition(name, 1, 200)]
    for answer in admin.delete_records(heads).values():
        answer.result(20)
    file = tmp_path / "totals.py"
    file.write_text(PROGRAM)
    asked = [str(file), "--out", str(tmp_path / "out"), "--json"]
    arguments = ["--", kafka, name, str(tmp_path)]
    capsys.readouterr()
    assert penstock("validate", *asked, *arguments) == 1
    assert f"offsets 0 to 249 of partition '{name}/0' are no longer there" in capsys.readouterr().err
    assert penstock("validate", *asked, "--from-archive", archives, *arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(query["status"], query["rows_exact"]) for query in told["queries"]] == [("same", 650), ("same", 7)]
    assert [source["to"] for source in told["sources"]] == [{"0": 400, "1": 250}]
