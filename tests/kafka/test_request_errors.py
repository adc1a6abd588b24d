"""K5 (docs/design/fault-tests.md 2) with twenty pairs: errors that pass, in answer to requests to librdkafka's mock."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from penstock.engine.connectors.kafka.clients import failure
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import RetryableError, UserError
from tests.chaos.kafka_errors import PASSING, TOPIC_GONE, Pair, pairs, request_errors, try_pair
from tests.chaos.kafka_mock import TRANSPORT, Api, error_name

REQUEST_TIMED_OUT, NETWORK_EXCEPTION, INVALID_MSG = 7, 13, 2
SETTINGS = KafkaSettings("here:9092")


def test_k5_errors_that_pass_are_passed_over_or_named(tmp_path: Path) -> None:
    report = request_errors(tmp_path, seed=5, count=20)
    assert report.failure is None, report.failure
    assert report.kills == 20 and len(report.points) >= 6


def test_there_are_pairs_enough() -> None:
    rows_own = {"PRODUCE", "FETCH", "METADATA", "FIND_COORDINATOR", "TXN_OFFSET_COMMIT", "END_TXN"}
    made = pairs(0)
    assert len({(pair.api, pair.code, pair.work) for pair in made}) == len(made)
    assert sum(pair.api.name in rows_own for pair in made) >= 200
    assert {pair.api.name for pair in made} > rows_own
    assert made == pairs(0) != pairs(1)


def test_a_fetch_that_timed_out_is_made_again(tmp_path: Path) -> None:
    assert try_pair(tmp_path, Pair(Api.FETCH, REQUEST_TIMED_OUT, "reading")) is None


def test_a_batch_that_is_damaged_is_told(tmp_path: Path) -> None:
    told = try_pair(tmp_path, Pair(Api.FETCH, INVALID_MSG, "reading"))
    assert isinstance(told, RetryableError) and "INVALID_MSG" in str(told)


def test_a_message_that_a_broker_lost_is_sent_again_after_a_restart(tmp_path: Path) -> None:
    told = try_pair(tmp_path, Pair(Api.PRODUCE, NETWORK_EXCEPTION, "sending"))
    assert told is None or (isinstance(told, RetryableError) and "NETWORK_EXCEPTION" in str(told))


@pytest.mark.parametrize("code", PASSING)
def test_what_passes_may_be_tried_again(code: int) -> None:
    expected = UserError if code in TOPIC_GONE else RetryableError
    assert isinstance(failure("reading", KafkaError(code), SETTINGS), expected)


def test_errors_have_names() -> None:
    assert error_name(TRANSPORT) == "_TRANSPORT"
    assert error_name(REQUEST_TIMED_OUT) == "REQUEST_TIMED_OUT"
