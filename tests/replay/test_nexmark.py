"""All Nexmark queries but one: Spark answers from a topic of Kafka what our stream has written from it.

q12 has windows of processing time: which rows they held is known to nobody afterwards.
"""

import datetime
import secrets
from collections.abc import Callable, Iterator, Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.benchmarks.nexmark.topic import EventTopic, fill
from penstock.benchmarks.replay import nexmark_job
from penstock.benchmarks.replay.nexmark import config
from penstock.benchmarks.replay.nexmark_job import QUERIES, NexmarkJob
from penstock.benchmarks.replay.nexmark_replay import Replayed, fingerprint, replay_queries
from penstock.dsl.job import Job
from penstock.engine.connectors.kafka.admin import delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.operators.aggregates.session_aggregate import SessionAggregate
from penstock.replay.compiler import compile_job
from penstock.replay.frames import ReplayError
from penstock.replay.suspect_operators import suspect_operators
from penstock.replay.validation_result import ComparisonStatus, QueryValidation
from tests.command_line import penstock
from tests.replay.both import reading
from tests.replay.validation_reading import from_json

EVENTS = 200_000
FEW = ("q3", "q5", "q18")
"""A join, windows over windows, and a ranking."""

BROKEN = ("q7", "q8", "q11")


@pytest.fixture(scope="module")
def events(kafka: str) -> Iterator[EventTopic]:
    """A topic of all events, over midnight and shuffled a little."""
    topic = EventTopic(kafka, f"nexmark-{secrets.token_hex(4)}")
    fill(topic, config(EVENTS))
    yield topic.bounded()
    delete_topics(KafkaSettings(kafka), [topic.topic])


@pytest.fixture(scope="module")
def replay(
    spark: SparkSession, events: EventTopic, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[tuple[str, ...]], Replayed]:
    """What a stream of some queries, or of all, has written, held against Spark: each stream runs once."""

    @cache
    def found(queries: tuple[str, ...]) -> Replayed:
        pipeline = NexmarkJob(events, tmp_path_factory.mktemp("nexmark"), queries)
        # Each stream lasts some intervals, be it of three queries or of all.
        return replay_queries(pipeline, spark, interval="2s" if queries == QUERIES else "100ms", at_once=3)

    return found


WHOLE = pytest.mark.long("all queries on Spark; a stream of q3, q5 and q18")
OF_FEW = [pytest.param(FEW, name, id=name) for name in FEW]
OF_ALL = [pytest.param(QUERIES, name, marks=WHOLE, id=f"{name} of all") for name in QUERIES]


@pytest.mark.parametrize(("queries", "name"), [*OF_FEW, *OF_ALL])
def test_spark_answers_what_the_stream_does(
    replay: Callable[[tuple[str, ...]], Replayed], queries: tuple[str, ...], name: str
) -> None:
    (found,) = [query for query in replay(queries).validation.queries if query.query == name]
    assert (found.why, found.status) == (None, ComparisonStatus.SAME)
    assert found.rows_exact == found.rows_stream > 0


def test_a_fingerprint_is_that_of_a_multiset(spark: SparkSession) -> None:
    rows = [(1, "a", None), (1, "a", None), (2, None, "b")]
    others = [rows[:2], [*rows, rows[2]], [*rows[:2], rows[0]], [*rows[:2], (2, "b", None)], [*rows[:2], (2, "", "b")]]
    sides = [[rows[2], *rows[:2]], *others]
    frames = [fingerprint(spark.createDataFrame(side, "n INT, a STRING, b STRING")) for side in (rows, *sides)]
    same = reduce(lambda one, other: one.unionAll(other), frames).collect()
    assert [row == same[0] for row in same[1:]] == [True, *([False] * len(others))]


@pytest.mark.parametrize("queries", [pytest.param(FEW, id="few"), pytest.param(QUERIES, marks=WHOLE, id="all")])
def test_the_replay_ends_where_the_last_checkpoint_was(
    replay: Callable[[tuple[str, ...]], Replayed], queries: tuple[str, ...], events: EventTopic
) -> None:
    replayed = replay(queries)
    (source,) = replayed.validation.sources
    assert source.topic == events.topic
    assert sum((source.stop or {}).values()) == replayed.events == EVENTS
    assert replayed.checkpoints > 1


@pytest.mark.long("a stream and a command on Spark; test_validation catches a broken operator with its windows")
def test_a_broken_operator_is_named_with_its_windows(
    spark: SparkSession,
    events: EventTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    process = SessionAggregate.process
    minute = datetime.datetime(2024, 1, 2, 0, 1)

    def forgetful(self: SessionAggregate, port: int, batch: Any) -> Any:
        """Lose every bid of two seconds."""
        times = batch.rows.column(batch.rows.schema.get_field_index("dateTime")).cast(pa.timestamp("us"))
        since = (np.asarray(times) - np.datetime64(minute)) / np.timedelta64(1, "s")
        return process(self, port, batch.with_rows(batch.rows.filter(pa.array((since < 0) | (since >= 2)))))

    pipeline = NexmarkJob(events, tmp_path, BROKEN)
    job = pipeline.build()
    monkeypatch.setattr(SessionAggregate, "process", forgetful)
    pipeline.run(job, interval="2s")
    monkeypatch.undo()
    file, address = nexmark_job.__file__, f"kafka://{events.bootstrap}/{events.topic}"
    arguments = [file, "--out", str(tmp_path), "--", address, str(tmp_path), ",".join(BROKEN)]
    assert penstock("validate", *arguments) == 1
    assert "differs" in capsys.readouterr().err
    told = from_json((tmp_path / "validation.json").read_text(), "validation.json")
    found: Mapping[str, QueryValidation] = {query.query: query for query in told.queries}
    assert {name: query.status for name, query in found.items()} == {
        "q7": ComparisonStatus.SAME,
        "q8": ComparisonStatus.SAME,
        "q11": ComparisonStatus.DIFFERS,
    }
    # A session may have begun up to as long before as it lasts, and ends ten seconds after its last bid.
    wrong = [window for window in found["q11"].windows if window.differs]
    assert wrong and all(touches(window, minute) for window in wrong)
    assert any(not window.differs for window in found["q11"].windows)
    assert [node.name for node in suspect_operators(job.graph, "q11", ["q7", "q8"])] == [
        "q11 agg-4",
        "q11 select-9",
        "q11",
    ]


def touches(window: Any, at: datetime.datetime) -> bool:
    """Return whether a window, of our stream or of Spark, has bids of the two seconds, or stands beside them."""
    return bool(
        window.window_start < at + datetime.timedelta(seconds=12)
        and window.window_end > at - datetime.timedelta(seconds=10)
    )


def test_windows_of_processing_time_are_refused(spark: SparkSession) -> None:
    job = Job()
    load("q12")(Events(job, NexmarkConfig(10))).write_black_hole()
    with pytest.raises(
        ReplayError, match=r"'agg-1' cannot be replayed: its windows are of processing time.*q12\.py:\d"
    ):
        compile_job(job.graph, reading(spark))
