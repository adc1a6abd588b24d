"""Every Nexmark query from a topic of a real broker equals DuckDB's answer over the same events."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.messages import TIMES
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.nexmark.topic import EventTopic, fill
from penstock.dsl.job import Job, embed
from penstock.engine.connectors.kafka.admin import delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.jobs.ledger import check_ledger, read_ledger
from penstock.model.config import LoopOptions
from penstock.model.job_graph import SourceSpec
from penstock.runs.run_options import RunOptions
from tests.benchmarks.oracle import QUERIES, assert_same_rows, expected
from tests.command_line import penstock
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import read_topic

CONFIG = NexmarkConfig(20_000, rate_per_s=100, start=1_704_153_540_000_000, out_of_order_group=100)
"""200 seconds around midnight; each second is shuffled."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same events as Parquet files."""
    folder = tmp_path_factory.mktemp("nexmark")
    write_dataset(folder, CONFIG)
    return folder


@pytest.fixture(scope="module")
def topics(kafka: str) -> Iterator[dict[str, EventTopic]]:
    """A topic for each form of times."""
    made = {times: EventTopic(kafka, f"nexmark-{times}-{secrets.token_hex(4)}") for times in TIMES}
    for times, topic in made.items():
        fill(topic, CONFIG, times=times)
    yield {times: topic.bounded() for times, topic in made.items()}
    delete_topics(KafkaSettings(kafka), [topic.topic for topic in made.values()])


def answer(query: str, source: EventTopic, folder: Path, parallelism: int) -> pa.Table:
    """Run a query to the end of its topic."""
    job, sink = Job(), MemorySink()
    stream = load(query)(Events(job, source))
    stream.write(sink, mode="changelog" if stream.updating else "append").name(query)
    running = embed(job, RunOptions(query, parallelism, folder, LoopOptions(batch_rows=4_096)))
    running.run()
    ledger = read_ledger(running.build)
    check_ledger(ledger, ended=True)
    assert (ledger.late, ledger.dead_lettered) == (0, 0)
    assert running.metrics().source_rows == CONFIG.events
    return sink.table()


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_answers_as_over_files(
    topics: dict[str, EventTopic], directory: Path, tmp_path: Path, query: str
) -> None:
    assert_same_rows(answer(query, topics["reference"], tmp_path, 2), expected(query, directory))


@pytest.mark.parametrize("times", TIMES[1:])
@pytest.mark.parametrize("query", ["q4", "q9"])
def test_times_may_be_written_otherwise(
    topics: dict[str, EventTopic], directory: Path, tmp_path: Path, query: str, times: str
) -> None:
    assert_same_rows(answer(query, topics[times], tmp_path, 1), expected(query, directory))


def test_q12_counts_every_bid(topics: dict[str, EventTopic], directory: Path, tmp_path: Path) -> None:
    counted = answer("q12", topics["reference"], tmp_path, 2)
    assert sum(counted["bid_count"].to_pylist()) == pq.read_metadata(directory / "bid.parquet").num_rows


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("q2", ["event_type", "bid_auction", "bid_price"]),
        ("q3", ["event_type", "dateTime", *(f"person_{name}" for name in ("id", "name", "city", "state"))]),
    ],
)
def test_only_the_columns_of_a_query_are_decoded(query: str, columns: list[str]) -> None:
    job = Job()
    load(query)(Events(job, EventTopic("localhost:1", "t", {"t/0": 1}))).write(MemorySink())
    (source,) = (node.spec for node in job.plan(1).graph.operators.values() if isinstance(node.spec, SourceSpec))
    names = source.source.schema.names
    assert names[: len(columns)] == columns and not any(name.startswith("bid_") for name in names[len(columns) :])


def test_the_command_fills_a_topic_and_reads_it(
    kafka: str, topic: MakeTopic, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    address = f"kafka://{kafka}/{topic()}-filled"
    assert penstock("nexmark", "--fill", address, "--events", "7_003") == 0
    assert penstock("nexmark", "--fill", address) == 1
    assert "already" in capfd.readouterr().err
    messages = read_topic(kafka, address.rpartition("/")[2])
    partitions = [message.partition for message in messages]
    assert [partitions.count(number) for number in range(4)] == [1751, 1751, 1751, 1750]
    first = json.loads(messages[0].value or b"")
    assert list(first) == ["event_type", "person", "auction", "bid"]
    assert first["event_type"] == 0 and first["auction"] is None
    assert first["person"]["dateTime"] == "2024-01-01 00:00:00.000"
    times = [max(event[kind]["dateTime"] for kind in first if event[kind] and kind != "event_type") for event in
             (json.loads(message.value or b"") for message in messages if message.partition == 3)]  # fmt: skip
    assert times == sorted(times)
    options = ["--source", address, "--out", str(tmp_path / "out"), "--json"]
    assert penstock("nexmark", "--queries", "q3,q17", *options) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["events"] for line in lines] == [7_003, 7_003]
    write_dataset(tmp_path / "data", NexmarkConfig(7_003))
    for query in ("q3", "q17"):
        result = pq.read_table(tmp_path / "out" / f"{query}.parquet")
        assert_same_rows(result, expected(query, tmp_path / "data"))
    delete_topics(KafkaSettings(kafka), [address.rpartition("/")[2]])


def test_wrong_addresses_are_usage_errors(capfd: pytest.CaptureFixture[str]) -> None:
    assert penstock("nexmark", "--source", "kafka://nowhere") == 2
    assert "kafka://127.0.0.1:9092/events" in capfd.readouterr().err
    assert penstock("nexmark", "--fill", "bids") == 2
