"""An archive has every message once, however often runs are killed, and goes together with the topic by offsets."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topics import Topic
from penstock.model.errors import OptionError, UserError
from penstock.replay.archive import archive_topic, new_ranges
from penstock.replay.archive_files import MANIFEST, ArchiveFiles
from penstock.replay.archive_manifest import ArchivedFile, ArchivedRange, ArchiveManifest, empty, parse
from penstock.replay.kafka_batches import ERROR
from penstock.replay.kafka_reading import archives_of, kept_in, read_rows
from penstock.replay.kafka_slices import offset_range
from penstock.replay.offsets import TopicState, choose
from tests.command_line import penstock
from tests.kafka.test_source import transaction
from tests.replay.conftest import QUICK, MakeTopic
from tests.replay.kafka_rows import METADATA, await_ends, committed, in_order, produce, rows_of, source_of, stream_rows

Fields = {"id": int, "name": str}
HEADERS: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]


def files_of(*numbers: tuple[int, int]) -> tuple[ArchivedFile, ...]:
    return tuple(ArchivedFile(f"run-000001-aaaaaaaa/p{first}", last - first, first, last) for first, last in numbers)


def manifest(*ranges: ArchivedRange, runs: int = 1) -> ArchiveManifest:
    return ArchiveManifest("t", "id", runs, ranges)


def state(low: int, high: int) -> TopicState:
    return TopicState({("t", 0): low}, {("t", 0): high}, {"t": Topic("t", 1, "id")})


def cut_off(kafka: str, name: str, partition: int, offset: int) -> None:
    """Delete the head of a partition, as retention does."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for answer in admin.delete_records([TopicPartition(name, partition, offset)]).values():
        answer.result(20)


def runs_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_a_manifest_comes_back_as_it_was() -> None:
    known = manifest(ArchivedRange(0, 0, 9, files_of((0, 4), (5, 8))), ArchivedRange(1, 3, 3))
    assert parse(known.to_json(), "here") == known
    for broken in (b"", b"{}", b"[]", known.to_json().replace(b'"runs"', b'"ruins"')):
        with pytest.raises(UserError, match="here is no manifest of an archive"):
            parse(broken, "here")
    with pytest.raises(UserError, match="here is of format 9, but this version reads 1"):
        parse(known.to_json().replace(b'"format":1', b'"format":9'), "here")


def test_a_manifest_knows_what_is_kept_and_where() -> None:
    known = manifest(
        ArchivedRange(0, 0, 10, files_of((0, 4), (6, 8))),
        ArchivedRange(0, 10, 12),
        ArchivedRange(0, 20, 30, files_of((22, 22))),
        ArchivedRange(1, 5, 6),
    )
    assert known.kept() == {("t", 0): [(0, 12), (20, 30)], ("t", 1): [(5, 6)]}
    assert known.ends() == {0: 30, 1: 6}
    assert [known.files(0, *span) for span in ((5, 6), (4, 7), (8, 22), (9, 23))] == [
        [],
        ["run-000001-aaaaaaaa/p0", "run-000001-aaaaaaaa/p6"],
        ["run-000001-aaaaaaaa/p6"],
        ["run-000001-aaaaaaaa/p22"],
    ]


def test_a_run_goes_on_where_the_last_one_ended() -> None:
    known = manifest(ArchivedRange(0, 0, 10))
    assert new_ranges(empty("t"), state(4, 9)) == ([offset_range("t", 0, 4, 9)], [])
    assert new_ranges(known, state(4, 12)) == ([offset_range("t", 0, 10, 12)], [])
    assert new_ranges(known, state(10, 10)) == ([], [])
    assert new_ranges(known, state(11, 12)) == ([offset_range("t", 0, 11, 12)], [offset_range("t", 0, 10, 11)])
    with pytest.raises(UserError, match="ends at offset 9, but is archived up to 10"):
        new_ranges(known, state(0, 9))


def test_of_two_runs_at_a_time_one_counts(tmp_path: Path) -> None:
    files, none = ArchiveFiles(str(tmp_path), "t"), empty("t")
    for run in ("run-000001-aaaaaaaa", "run-000001-bbbbbbbb"):
        (tmp_path / "t" / run).mkdir(parents=True)
    first = none.with_run("id", [ArchivedRange(0, 0, 9, files_of((0, 8)))])
    files.publish(first, none, "run-000001-aaaaaaaa")
    with pytest.raises(UserError, match=r"another run has written to .* meanwhile"):
        files.publish(none.with_run("id", [ArchivedRange(0, 0, 10)]), none, "run-000001-bbbbbbbb")
    assert files.manifest() == first
    (tmp_path / "t" / "run-000002-cccccccc").mkdir()
    files.clean(first)
    # What may still be another's run under way is left alone.
    assert runs_in(tmp_path / "t") == ["run-000001-aaaaaaaa", "run-000002-cccccccc"]
    with pytest.raises(UserError, match="Spark has not written to"):
        files.publish(first, first, "run-000002-dddddddd")


def test_an_archive_is_of_one_topic(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / MANIFEST).write_bytes(manifest().to_json())
    with pytest.raises(UserError, match="is the archive of topic 't', not of 'other'"):
        ArchiveFiles(str(tmp_path), "other").manifest()
    with pytest.raises(OptionError, match=r"Spark reads .* in paths as patterns"):
        ArchiveFiles(str(tmp_path / "a*"), "t")


def test_archive_and_topic_have_every_row_once(
    spark: SparkSession, kafka: str, topic: MakeTopic, tmp_path: Path
) -> None:
    name, settings, out = topic(3), KafkaSettings(kafka), str(tmp_path / "an archive")
    options: dict[str, Any] = {"schema": Fields, "metadata": METADATA, "key": {"k": str}}
    produce(kafka, name, [*range(20), b"bad", None, b'{"id": 5}'], 0, key=b"k", headers=HEADERS)
    produce(kafka, name, range(100, 110), 1)
    transaction(kafka, name, range(900, 910), "aborted", 1).abort_transaction(20)
    await_ends(kafka, name, [23, 21, 0])
    first = archive_topic(spark, settings, name, out, most_offsets=8)
    assert (first.rows, [(item.partition, item.start, item.stop) for item in first.ranges]) == (
        33,
        [(0, 0, 23), (1, 0, 21)],
    )
    produce(kafka, name, range(20, 30), 0, key=b"\xff")
    produce(kafka, name, range(200, 205), 2)
    second = archive_topic(spark, settings, name, out)
    assert (second.rows, [(item.partition, item.start, item.stop) for item in second.ranges]) == (
        15,
        [(0, 23, 33), (2, 0, 5)],
    )
    assert archive_topic(spark, settings, name, out).ranges == ()
    produce(kafka, name, range(30, 35), 0)
    produce(kafka, name, [b"bad too", 110], 1)
    rows, letters = stream_rows(name, kafka, **options)
    # Retention takes a part of what is archived.
    cut_off(kafka, name, 0, 28)
    cut_off(kafka, name, 1, 15)
    source = source_of(name, kafka, **options)
    stop = committed(source)
    with pytest.raises(UserError, match="are no longer there"):
        choose(source, "s", stop=stop)
    archives = archives_of(source, out, [name])
    chosen = choose(source, "s", stop=stop, kept=kept_in(archives))
    frame = read_rows(spark, source, chosen, archives=archives, most_offsets=9)
    assert in_order(rows_of(frame, source.schema)) == in_order(rows)
    errors = read_rows(spark, source, chosen, archives=archives, errors=True).where(f"`{ERROR}` IS NOT NULL").collect()
    assert sorted(row[ERROR] for row in errors) == sorted(letter["error"] for letter in letters)
    # A part of what one file has.
    some = choose(source, "s", start={f"{name}/0": 3}, stop={f"{name}/0": 9}, kept=kept_in(archives))
    frame = read_rows(spark, source.restrict(["m_offset"], None), some, archives=archives)
    assert sorted(row["m_offset"] for row in frame.collect()) == list(range(3, 9))


def test_what_retention_took_first_is_a_gap(spark: SparkSession, kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name, settings, out = topic(), KafkaSettings(kafka), str(tmp_path)
    produce(kafka, name, range(5))
    archive_topic(spark, settings, name, out)
    produce(kafka, name, range(5, 20))
    cut_off(kafka, name, 0, 9)
    with pytest.raises(UserError, match=r"took .*/0 from offset 5 up to 9 away before it was archived"):
        archive_topic(spark, settings, name, out)
    assert archive_topic(spark, settings, name, out, accept_gap=True).gaps == (offset_range(name, 0, 5, 9),)
    source = source_of(name, kafka, schema=Fields)
    archives = archives_of(source, out, [name])
    with pytest.raises(UserError, match=r"offsets 5 to 8 of partition .* are no longer there"):
        choose(source, "s", stop={f"{name}/0": 20}, kept=kept_in(archives))
    delete_topics(settings, [name])
    create_topic(settings, name, 1)
    with pytest.raises(UserError, match="was deleted and created again"):
        archive_topic(spark, settings, name, out)


@pytest.mark.slow
@pytest.mark.long("a second Spark that is killed; test_of_two_runs_at_a_time_one_counts")
def test_a_run_that_is_killed_is_done_again(spark: SparkSession, kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name, folder = topic(2), tmp_path / "archives"
    for partition in range(2):
        produce(kafka, name, range(partition * 1_000, partition * 1_000 + 1_000), partition)
    arguments = [name, "--kafka", kafka, "--out", str(folder)]
    alone = ["--master", "local[1]", "--spark-setting", "spark.driver.memory=512m"]
    alone += ["--spark-setting", f"spark.driver.defaultJavaOptions={QUICK}"]
    with subprocess.Popen([sys.executable, "-m", "penstock", "archive", *arguments, *alone]) as run:
        until = time.monotonic() + 120
        while not list((folder / name).glob("run-*")) and run.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        run.kill()
    assert [path.name[:10] for path in (folder / name).iterdir()] == ["run-000001"]
    assert archived_ids(spark, kafka, name, folder, arguments) == [*range(1_000), *range(1_000, 2_000)]
    assert len(runs_in(folder / name)) == 1


def archived_ids(spark: SparkSession, kafka: str, name: str, folder: Path, arguments: Sequence[str]) -> list[int]:
    """Run the command beside the session of the tests, and return what is archived."""
    assert penstock("archive", *arguments) == 0
    source = source_of(name, kafka, schema=Fields)
    archives = archives_of(source, str(folder), [name])
    for partition in range(2):
        cut_off(kafka, name, partition, 1_000)
    chosen = choose(source, "s", stop=committed(source), kept=kept_in(archives))
    return sorted(row["id"] for row in read_rows(spark, source, chosen, archives=archives).collect())


def test_the_command_says_what_is_wrong(
    spark: SparkSession, kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert penstock("archive", "no-such-topic", "--kafka", kafka, "--out", str(tmp_path), "--json") == 1
    told = capsys.readouterr()
    assert '"status": "failed"' in told.out and "has no topic 'no-such-topic'" in told.err
    uncommitted = ["--kafka-setting", "isolation.level=read_uncommitted"]
    there = ("archive", "t", "--kafka", kafka, "--out", str(tmp_path))
    assert penstock(*there, *uncommitted) == 2
    assert "an archive holds what is committed" in capsys.readouterr().err
    assert penstock(*there, "--spark-setting", "nothing") == 2
    assert "--spark-setting takes a name and a value, such as spark.driver.memory=4g" in capsys.readouterr().err
    assert penstock(*there, "--spark-setting", "spark.driver.memory=2g") == 2
    assert "spark.driver.memory cannot be set in a Spark that runs already" in capsys.readouterr().err
