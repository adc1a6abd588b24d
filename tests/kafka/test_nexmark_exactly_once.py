"""Nexmark from a topic to a topic, exactly once, through real `kill -9`: what is committed equals the oracle.

``make chaos`` does the same with more kills and more queries; the ids are those of docs/design/fault-tests.md 2.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.chaos.experiment import ChaosReport
from penstock.engine.connectors.kafka.admin import delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.benchmarks.oracle import expected
from tests.chaos.kafka_attacks import Events, KafkaAttacker, kafka_lives, make_events
from tests.chaos.kafka_outputs import committed_rows, oracle_rows, table_rows
from tests.long_cases import but_for

pytestmark = pytest.mark.slow

EVENTS = 60_000
MORE_EVENTS = 400_000


@pytest.fixture(scope="module")
def events(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Events]:
    made = make_events(kafka, tmp_path_factory.mktemp("events"), EVENTS)
    yield made
    delete_topics(KafkaSettings(kafka), [made.topic.topic])


def check(report: ChaosReport, kills: int) -> None:
    assert report.failure is None, report.failure
    assert report.kills == kills and report.runs and report.rows
    assert (report.lost, report.duplicated) == (0, 0), report


@pytest.mark.parametrize(
    ("query", "mode"),
    but_for(
        [("q5", "append"), ("q4", "upsert"), ("q4", "changelog")],
        [("q4", "changelog")],
        "three kills in every mode; [q4-changelog] stays",
    ),
)
def test_a_query_is_exact_through_kills(events: Events, tmp_path: Path, query: str, mode: str) -> None:
    with kafka_lives(query, mode) as start:
        check(KafkaAttacker(tmp_path, start, events, query, mode).moments(3, seed=6), 3)


@pytest.mark.long("ten kills; test_sink_crashes.test_between_complete_and_commit has three")
def test_r3_crashes_before_and_while_transactions_commit(events: Events, tmp_path: Path) -> None:
    with kafka_lives("q0", "append") as start:
        check(KafkaAttacker(tmp_path, start, events, "q0", "append").before_commit(10, seed=3), 10)


@pytest.fixture(scope="module")
def more_events(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Events]:
    made = make_events(kafka, tmp_path_factory.mktemp("more-events"), MORE_EVENTS)
    yield made
    delete_topics(KafkaSettings(kafka), [made.topic.topic])


@pytest.mark.long("25 kills; test_chaos_on_managers has three, into files")
def test_r4_a_query_is_exact_through_kills_of_task_managers(more_events: Events, tmp_path: Path) -> None:
    with kafka_lives("q4", "changelog") as start:
        check(KafkaAttacker(tmp_path, start, more_events, "q4", "changelog").task_managers(25, seed=4), 25)


@pytest.mark.long("ten kills; test_chaos_on_managers has one, into files")
def test_r5_a_query_is_exact_through_kills_of_the_command(more_events: Events, tmp_path: Path) -> None:
    with kafka_lives("q4", "changelog") as start:
        check(KafkaAttacker(tmp_path, start, more_events, "q4", "changelog").commands(10, seed=5), 10)


@pytest.mark.long("fifty stops for up to a minute; test_chaos_on_managers has five short ones, into files")
def test_r6_a_query_is_exact_through_stops_of_task_managers(more_events: Events, tmp_path: Path) -> None:
    with kafka_lives("q4", "changelog") as start:
        report = KafkaAttacker(tmp_path, start, more_events, "q4", "changelog").stops(50, seed=6, stopped_s=(1.0, 60.0))
    check(report, 50)
    assert report.replaced


@pytest.mark.parametrize("query", ["q4", "q5", "q8", "q11"])
def test_what_is_expected_is_what_the_oracle_says(events: Events, query: str) -> None:
    told = table_rows(query, events.directory, expected(query, events.directory))
    assert oracle_rows(query, events.directory) == told and told


def test_messages_come_to_rows() -> None:
    insert, delete = b'{"id":1,"weight":1}', b'{"id":1,"weight":-1}'
    assert committed_rows("append", [(None, b'{"id":1}')] * 2) == {b'{"id": 1}': 2}
    assert committed_rows("changelog", [(b"1", insert), (b"1", delete), (b"1", insert)]) == {b'{"id": 1}': 1}
    assert list(committed_rows("changelog", [(b"1", delete)])) == [b'retracted too often: {"id": 1}']
    assert committed_rows("upsert", [(b"1", b"{}"), (b"2", b"{}"), (b"2", None)]) == {b"{}": 1}
