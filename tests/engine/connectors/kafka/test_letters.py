"""Letters as messages: the record's headers stay, ours come behind and are taken off again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.letter_topic import parse_target
from penstock.engine.connectors.kafka.letters import PREFIX, Provenance, our_headers, split_headers, to_messages
from penstock.model.connectors import RawRecord
from penstock.model.dead_letters import DeadLetter
from penstock.model.errors import OptionError

TEXT = st.text(max_size=8)
NAMES = st.one_of(TEXT, st.sampled_from([PREFIX + "class", PREFIX + "offset", "trace"]))
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=4)), max_size=6)
NUMBER = st.none() | st.integers(-(2**63), 2**63 - 1)
LETTERS = st.builds(
    DeadLetter,
    st.builds(
        RawRecord,
        st.binary(max_size=4),
        st.just(""),
        TEXT,
        st.none() | st.text(min_size=1, max_size=4),
        NUMBER,
        NUMBER,
        NUMBER,
        st.none() | st.binary(max_size=4),
        HEADERS,
        st.booleans(),
    ),
    TEXT,
    st.sampled_from(["decode", "udf", "sink"]),
    TEXT,
    TEXT,
    st.none() | TEXT,
    TEXT,
    st.integers(0, 9),
    st.integers(1, 9),
)


@given(LETTERS)
def test_headers_come_apart_again(letter: DeadLetter) -> None:
    record = letter.record
    headers, told = split_headers([*record.headers, *our_headers(letter)])
    assert list(headers) == list(record.headers)
    assert told == Provenance(
        letter.error_class,
        letter.message,
        letter.stage,
        letter.operator,
        record.topic or "",
        record.partition,
        record.offset,
        record.timestamp_ms,
        letter.job,
        letter.epoch,
        letter.attempt,
        letter.traceback or "",
    )


@given(st.lists(LETTERS, max_size=3))
def test_messages_have_key_and_value_as_they_were(letters: list[DeadLetter]) -> None:
    messages = to_messages(letters).to_pylist()
    for message, letter in zip(messages, letters, strict=True):
        assert message["key"] == letter.record.key
        assert message["value"] == (None if letter.record.tombstone else letter.record.raw)
        assert message["timestamp_ms"] is None


@given(HEADERS)
def test_any_headers_can_be_read(headers: list[tuple[str, bytes | None]]) -> None:
    kept, _ = split_headers(headers)
    assert list(kept) == headers[: len(kept)]


def test_a_long_error_is_cut() -> None:
    letter = DeadLetter(RawRecord(b"", "", ""), "o", "udf", "E", "m" * 100_000, "t" * 100_000, "j", 0, 1)
    assert sum(len(value) for _, value in our_headers(letter)) < 20_000


@pytest.mark.parametrize("where", ["dead", "kafka://", "kafka:///t", "kafka://h:1/", "kafka://h:1", "kafka://h:1/a/b"])
def test_only_an_address_and_a_topic_are_a_target(where: str) -> None:
    with pytest.raises(OptionError):
        parse_target(where)
    assert parse_target("kafka://h:1/dead").describe() == "kafka dead"


def test_a_password_in_a_target_is_refused_unseen() -> None:
    with pytest.raises(OptionError) as refused:
        parse_target("kafka://alice:hunter2@h:1/dead")
    assert "hunter2" not in str(refused.value)


def test_a_letter_that_is_none_of_ours_tells_nothing() -> None:
    other: Any = [("a", b"1"), ("b", None)]
    assert split_headers(other) == (other, Provenance())
