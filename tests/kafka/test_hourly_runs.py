"""Runs of a job over a topic that grows, each up to what is there: together they are one run over all of it."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.jobs.metrics import JobMetrics
from penstock.model.errors import UserError
from tests.long_cases import but_for

MakeTopic = Callable[..., str]
RUNS = 10
START_MS = 1_767_225_600_000
WINDOW_S, DELAY_S = 20, 5
FIELDS = pa.schema([("key", pa.string()), ("v", pa.int64()), ("at", pa.timestamp("ms"))])

PROGRAM = """
import sys
from pathlib import Path

from tests.kafka.test_hourly_runs import hourly

kafka, topic, folder, parallelism = sys.argv[1:]
job = hourly(kafka, topic, Path(folder), until="latest")
directory = str(Path(folder) / "checkpoints")
job.run("hourly", checkpoint_dir=directory, checkpoint_interval="50ms", parallelism=int(parallelism))
"""

Row = dict[str, Any]


class Feed:
    """Rows of every hour in turn: times go on, a little out of order, keys are few."""

    def __init__(self, kafka: str, topic: str, partitions: int, seed: int = 0) -> None:
        self._kafka, self._topic = kafka, topic
        self.partitions = partitions
        self._random = random.Random(seed)
        self._s = 0
        self.rows: list[Row] = []

    def hour(self, count: int = 60) -> list[Row]:
        """Write more rows, some to every partition, and return them."""
        made = []
        # A new one knows the partitions that there are now.
        producer = Producer({"bootstrap.servers": self._kafka, "linger.ms": 5})
        for number in range(count):
            self._s += self._random.randrange(3)
            at_s = max(0, self._s - self._random.randrange(DELAY_S))
            row = {"key": self._random.choice("abcd"), "v": self._random.randrange(100), "at": START_MS + 1_000 * at_s}
            made.append(row)
            producer.produce(self._topic, json.dumps(row).encode(), partition=number % self.partitions)
        assert producer.flush(20) == 0
        self.rows += made
        return made


def hourly(kafka: str, topic: str, folder: Path, until: Any, **options: Any) -> Job:
    job = Job()
    rows = read_kafka(
        topic, kafka=kafka, schema=FIELDS, until=until, time="at", watermark=f"{DELAY_S}s", job=job, **options
    ).name("orders")
    windows = rows.key_by("key").window(ps.tumbling(f"{WINDOW_S}s")).agg(n=ps.count(), total=ps.sum_("v"))
    windows.name("windows").write_json(folder / "windows").name("windows out")
    keyed = rows.key_by("key").agg(n=ps.count(), total=ps.sum_("v")).name("totals")
    keyed.write_json(folder / "totals", mode="changelog").name("totals out")
    return job


def run(
    kafka: str, topic: str, folder: Path, until: Any = "latest", *, parallelism: int = 1, **options: Any
) -> JobMetrics:
    reading = {name: options.pop(name) for name in ("start", "discovery") if name in options}
    job = hourly(kafka, topic, folder, until, **reading)
    options = {"checkpoint_dir": str(folder / "checkpoints"), "restarts": 0, **options}
    return job.run("hourly", parallelism=parallelism, directory=folder / "job", **options)


def lines(folder: Path) -> list[Row]:
    paths = [path for path in folder.rglob("*.json*") if path.is_file()]
    files = [path for path in paths if not any(part[0] in "._" for part in path.relative_to(folder).parts)]
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def windows_of(folder: Path) -> Counter[tuple[str, str, int, int]]:
    return Counter((row["key"], row["window_start"], row["n"], row["total"]) for row in lines(folder / "windows"))


def totals_of(folder: Path) -> dict[str, tuple[int, int]]:
    weights: Counter[tuple[str, int, int]] = Counter()
    for row in lines(folder / "totals"):
        weights[row["key"], row["n"], row["total"]] += row["weight"]
    held = [item for item, weight in weights.items() if weight]
    assert all(weights[item] == 1 for item in held)
    return {key: (n, total) for key, n, total in held}


def expected_windows(rows: Sequence[Row]) -> Counter[tuple[str, str, int, int]]:
    sums: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        sums[row["key"], row["at"] // 1_000 // WINDOW_S * WINDOW_S].append(row["v"])
    return Counter((key, stamp(start_s), len(values), sum(values)) for (key, start_s), values in sums.items())


def expected_totals(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    values: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        values[row["key"]].append(row["v"])
    return {key: (len(found), sum(found)) for key, found in values.items()}


def stamp(time_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000", time.gmtime(time_s))


@pytest.mark.parametrize("parallelism", but_for([1, 2], [1], "ten runs once more; parallelism 1 stays"))
def test_ten_runs_are_as_one(
    kafka: str, topic: MakeTopic, tmp_path: Path, parallelism: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic(3)
    feed = Feed(kafka, name, 3)
    for number in range(RUNS):
        feed.hour()
        metrics = run(kafka, name, tmp_path, parallelism=parallelism)
        assert metrics.source_rows == len(feed.rows)
        assert metrics.ledger.late == 0
        assert totals_of(tmp_path) == expected_totals(feed.rows)
        # What is written is final: windows that may still get rows are not among them.
        assert not windows_of(tmp_path) - expected_windows(feed.rows)
        assert "KEPT" in capsys.readouterr().err
        if number > 1:
            assert windows_of(tmp_path)
    before = windows_of(tmp_path)
    run(kafka, name, tmp_path, parallelism=parallelism, at_end="close")
    assert "CLOSED" in capsys.readouterr().err
    assert windows_of(tmp_path) == expected_windows(feed.rows)
    assert len(windows_of(tmp_path)) > len(before)


@pytest.mark.long(
    "thirty thousand rows and two kills; test_added_sink kills runs, test_ten_runs_are_as_one goes on from them"
)
def test_a_run_that_is_killed_is_made_good_by_the_next(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic(3)
    feed = Feed(kafka, name, 3)
    for number in range(RUNS):
        feed.hour(3_000)
        if number in (0, 4):
            kill(kafka, name, tmp_path)
            continue
        run(kafka, name, tmp_path, parallelism=2)
        assert totals_of(tmp_path) == expected_totals(feed.rows)
    run(kafka, name, tmp_path, at_end="close")
    assert windows_of(tmp_path) == expected_windows(feed.rows)


def kill(kafka: str, topic: str, folder: Path) -> None:
    """Run in a process of its own and end it with SIGKILL behind the first checkpoint that it takes."""
    manifests = folder / "checkpoints" / "hourly" / "checkpoints"
    before = set(manifests.glob("*")) if manifests.is_dir() else set()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, kafka, topic, str(folder), "2"])
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            if manifests.is_dir() and set(manifests.glob("*")) - before:
                break
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_bounds_are_those_of_the_run(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    feed = Feed(kafka, name, 1)
    feed.hour(10)
    assert run(kafka, name, tmp_path, until={0: 4}).source_rows == 4
    assert run(kafka, name, tmp_path, until={0: 7}).source_rows == 7
    # Behind where it is already there is nothing to read, and nothing is read twice.
    assert run(kafka, name, tmp_path, until={0: 2}).source_rows == 7
    assert totals_of(tmp_path) == expected_totals(feed.rows[:7])
    handle = hourly(kafka, name, tmp_path, None).start(
        "hourly", checkpoint_dir=str(tmp_path / "checkpoints"), checkpoint_interval="20ms"
    )
    feed.hour(5)
    await_rows(handle, 15)
    handle.stop()
    # An unbounded job that becomes a bounded one ends.
    feed.hour(3)
    assert run(kafka, name, tmp_path).source_rows == 18
    assert totals_of(tmp_path) == expected_totals(feed.rows)


def test_a_table_that_was_read_to_its_end_shuts_out_no_topic(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    feed = Feed(kafka, name, 1)
    for count in (10, 20):
        feed.hour(10)
        job = hourly(kafka, name, tmp_path, None)
        table = ps.read_memory([{"key": "a"}, {"key": "a"}], job=job).name("table")
        table.distinct("key").name("once").write_json(tmp_path / "once").name("once out")
        handle = job.start("hourly", checkpoint_dir=str(tmp_path / "checkpoints"), checkpoint_interval="20ms")
        await_rows(handle, count + 2)
        handle.stop()
        assert totals_of(tmp_path) == expected_totals(feed.rows)


def await_rows(handle: ps.Handle, count: int) -> None:
    until = time.monotonic() + 60
    while handle.metrics().source_rows < count:
        assert time.monotonic() < until and handle.running
        time.sleep(0.01)


def test_a_job_that_is_run_again_in_its_process_looks_again(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    feed = Feed(kafka, name, 1)
    job = hourly(kafka, name, tmp_path, "latest")
    for count in (10, 20, 30):
        feed.hour(10)
        assert job.run("hourly", checkpoint_dir=str(tmp_path / "checkpoints")).source_rows == count


def test_partitions_that_came_between_runs_are_read(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic(1)
    feed = Feed(kafka, name, 1)
    feed.hour()
    run(kafka, name, tmp_path)
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions(name, 3)])[name].result(20)
    feed.partitions = 3
    for _ in range(3):
        feed.hour()
        metrics = run(kafka, name, tmp_path)
        assert (metrics.source_rows, metrics.ledger.late) == (len(feed.rows), 0)
    run(kafka, name, tmp_path, at_end="close")
    assert windows_of(tmp_path) == expected_windows(feed.rows)


def test_an_empty_or_silent_partition_holds_no_window_back(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic(3)
    feed = Feed(kafka, name, 2)
    feed.hour()
    run(kafka, name, tmp_path)
    # From now on the second partition brings nothing, as the third never did.
    feed.partitions = 1
    feed.hour(100)
    run(kafka, name, tmp_path)
    last_s = max(row["at"] for row in feed.rows) // 1_000 - DELAY_S
    over = [row for row in feed.rows if (row["at"] // 1_000 // WINDOW_S + 1) * WINDOW_S <= last_s]
    assert windows_of(tmp_path) == expected_windows(over)


def test_ends_that_hold_no_message_do_not_hang(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"{name}-writer"})
    producer.init_transactions(20)
    for number in range(4):
        producer.begin_transaction()
        row = {"key": "a", "v": number, "at": START_MS + number}
        producer.produce(name, json.dumps(row).encode())
        producer.flush(20)
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
        assert run(kafka, name, tmp_path).source_rows == number // 2 + 1


def test_a_run_that_closed_its_windows_is_not_gone_on_in_silence(
    kafka: str, topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic(2)
    feed = Feed(kafka, name, 2)
    feed.hour()
    run(kafka, name, tmp_path, at_end="close")
    first = windows_of(tmp_path)
    assert first == expected_windows(feed.rows)
    # Nothing is new, so nothing is wrong.
    assert run(kafka, name, tmp_path).source_rows == 60
    second = feed.hour()
    for until in ("latest", None):
        with pytest.raises(UserError, match=r"closed all windows .*at_end='close'"):
            run(kafka, name, tmp_path, until)
    metrics = run(kafka, name, tmp_path, at_end="close")
    assert (metrics.source_rows, metrics.ledger.late) == (120, 0)
    assert "FRESH WATERMARK" in capsys.readouterr().err
    assert windows_of(tmp_path) == first + expected_windows(second)
    assert totals_of(tmp_path) == expected_totals(feed.rows)


def test_a_start_beside_a_checkpoint_is_said_to_be_passed_over(
    kafka: str, topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic()
    feed = Feed(kafka, name, 1)
    feed.hour(10)
    run(kafka, name, tmp_path, start={0: 4})
    assert "NOT FOLLOWED" not in capsys.readouterr().err
    assert run(kafka, name, tmp_path, start={0: 4}).source_rows == 6
    assert "NOT FOLLOWED: start={0: 4} of source 'orders'" in capsys.readouterr().err


@pytest.mark.parametrize("until", ["latest", None])
def test_a_topic_that_was_made_again_is_refused(
    kafka: str, topic: MakeTopic, tmp_path: Path, until: str | None
) -> None:
    name = topic()
    feed = Feed(kafka, name, 1)
    feed.hour(10)
    run(kafka, name, tmp_path)
    settings = KafkaSettings(kafka)
    delete_topics(settings, [name])
    create_topic(settings, name, 1, {"retention.ms": "-1"})
    Feed(kafka, name, 1).hour(2)
    with pytest.raises(UserError, match=r"deleted and created again .*restore='none'"):
        run(kafka, name, tmp_path, until)


def test_messages_that_retention_took_between_runs_are_missed_aloud(
    kafka: str, topic: MakeTopic, tmp_path: Path
) -> None:
    name = topic()
    feed = Feed(kafka, name, 1)
    feed.hour(10)
    run(kafka, name, tmp_path)
    feed.hour(10)
    admin = AdminClient({"bootstrap.servers": kafka})
    next(iter(admin.delete_records([TopicPartition(name, 0, 15)]).values())).result(20)
    with pytest.raises(
        UserError, match=r"offset 10 .* no longer there \(the first one there is 15\): .*restore='none'"
    ):
        run(kafka, name, tmp_path)
