"""The reader of a partition, its queue and its rows, without a broker: every message costs what it should, once."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.kafka.formats.contract import Decoded, HeadersOf, ValueDecoder, no_headers
from penstock.engine.connectors.kafka.formats.json import JsonValues
from penstock.engine.connectors.kafka.formats.raw import RawEncoder, RawValues
from penstock.engine.connectors.kafka.messages import METADATA, OVERHEAD_BYTES, Messages, joined
from penstock.engine.connectors.kafka.queues import Queues, Taken
from penstock.engine.connectors.kafka.reader import KafkaPosition, KafkaReader, PartitionFeed, Take
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.model.errors import RetryableError, SchemaError, UserError

ID = pa.schema([pa.field("id", pa.int64())])


def messages(values: Sequence[bytes | None], first: int = 0, keys: Sequence[bytes | None] | None = None) -> Messages:
    """Make messages whose offsets leave gaps and whose time in milliseconds is their offset."""
    offsets = np.arange(first, first + 2 * len(values), 2, dtype=np.int64)
    stamps = np.array([(1, offset) for offset in offsets], dtype=[("kind", np.int64), ("ms", np.int64)])
    return Messages("t", 3, values, offsets, stamps, keys, None)


class Lines(ValueDecoder):
    """A row for each line of a message, none for an empty one; a line that is no number spoils the message."""

    def __init__(self) -> None:
        self.down = False

    @property
    def schema(self) -> pa.Schema:
        return ID

    def decode(self, values: Sequence[bytes], headers: HeadersOf = no_headers) -> Decoded:
        if self.down:
            self.down = False
            raise RetryableError("the registry is down")
        rows: list[int] = []
        row_of: list[int] = []
        errors: list[tuple[int, str]] = []
        for index, value in enumerate(values):
            try:
                numbers = [int(line) for line in value.split()]
            except ValueError as error:
                errors.append((index, str(error)))
                continue
            rows += numbers
            row_of += [index] * len(numbers)
        batch = pa.RecordBatch.from_arrays([pa.array(rows, pa.int64())], schema=ID)
        return Decoded(batch, np.array(row_of, np.int64), errors)

    def restrict(self, columns: Sequence[str]) -> "Lines":
        return self


def feed_of(take: Take, reachable: bool = True) -> PartitionFeed:
    return PartitionFeed(take, lambda: reachable, lambda: None)


def reader_of(
    maker: RowMaker,
    parts: list[Messages],
    position: KafkaPosition,
    reachable: bool = True,
    end: int | None = None,
) -> KafkaReader:
    """Read parts one after another; at the end of the last one the partition is at its end."""

    def take(count: int, size: int) -> Taken:
        if not parts:
            return Taken()
        if len(parts[0]) <= count:
            part = parts.pop(0)
            return Taken(part, None if parts else int(part.offsets[-1]) + 1)
        part, parts[0] = parts[0].slice(0, count), parts[0].slice(count, len(parts[0]))
        return Taken(part)

    return KafkaReader(maker, position, feed_of(take, reachable), end=end)


VALUES = st.sampled_from([None, b"", b"1", b"2 3", b"4 5 6 7", b"x", b"8 x"])


@given(st.lists(VALUES, min_size=1, max_size=20), st.integers(1, 5), st.integers(1, 30))
def test_every_message_is_read_once_over_a_restart_anywhere(values: list[bytes | None], rows: int, stop: int) -> None:
    maker = RowMaker(Lines(), None, {"at": "offset"}, ("id", "at"))
    everything = messages(values)
    position, end = KafkaPosition(0), 2 * len(values) - 1
    seen: list[tuple[int, int]] = []
    dead: list[int | None] = []
    skipped = reads = 0
    ended = False
    while not ended:
        start = int(np.searchsorted(everything.offsets, position.offset))
        left = everything.slice(start, len(everything))
        reader = reader_of(maker, [left] if len(left) else [], position, end=end)
        while not ended and reads != stop:
            read = reader.read(rows)
            assert read.rows is None or read.rows.num_rows <= rows
            seen += [(row["id"], row["at"]) for row in (read.rows.to_pylist() if read.rows else [])]
            dead += [record.offset for record in read.rejected]
            skipped += read.skipped
            ended = read.ended
            reads += 1
        reads = 0 if reads != stop else reads + 1
        position = KafkaPosition(**reader.position())
    good = [(index, value) for index, value in enumerate(values) if value is not None and b"x" not in value]
    assert seen == [(int(number), 2 * index) for index, value in good for number in value.split()]
    assert dead == [2 * index for index, value in enumerate(values) if value is not None and b"x" in value]
    assert skipped == values.count(None)


def test_what_cannot_be_decoded_now_comes_again() -> None:
    decoder = Lines()
    decoder.down = True
    reader = reader_of(RowMaker(decoder, None, {}, ("id",)), [messages([b"1", b"2"])], KafkaPosition(0))
    with pytest.raises(RetryableError):
        reader.read(10)
    assert reader.position() == {"offset": 0}
    read = reader.read(10)
    assert read.rows is not None
    assert read.rows.num_rows == 2
    assert reader.position() == {"offset": 3}


def test_a_reader_without_news_says_whether_a_broker_answers() -> None:
    maker = RowMaker(JsonValues(ID), None, {}, ("id",))
    assert reader_of(maker, [], KafkaPosition(0), reachable=False).read(1).out_of_reach
    assert not reader_of(maker, [], KafkaPosition(0)).read(1).out_of_reach
    assert reader_of(maker, [], KafkaPosition(5), end=5).read(1).ended


def test_messages_at_the_end_are_left_out() -> None:
    maker = RowMaker(Lines(), None, {}, ("id",))
    reader = reader_of(maker, [messages([b"1", b"2", b"3"])], KafkaPosition(0), end=3)
    read = reader.read(10)
    assert read.rows is not None
    assert read.rows.column("id").to_pylist() == [1, 2]
    assert read.ended
    assert reader.position() == {"offset": 3}


def test_keys_metadata_and_tombstones_stay_together() -> None:
    keys = [b"\x00\x00\x00\x01", None, b"bad", b"\x00\x00\x00\x04"]
    given_messages = messages([b'{"id":1}', b'{"id":2}', b'{"id":3}', None], keys=keys)
    key = RawValues(pa.field("k", pa.int32()))
    metadata = {what: what for what in METADATA}
    columns = ("id", "k", *metadata)
    maker = RowMaker(JsonValues(ID), key, metadata, columns, keep_tombstones=True)
    made = maker.make(given_messages)
    got = [(row["id"], row["k"], row["offset"], row["tombstone"], row["key"]) for row in made.rows.to_pylist()]
    assert got == [(1, 1, 0, False, keys[0]), (2, None, 2, False, None), (None, 4, 6, True, keys[3])]
    assert [index for index, _ in made.errors] == [2]
    record = given_messages.raw_record(2, made.errors[0][1])
    assert (record.raw, record.position, record.key, record.timestamp_ms) == (b'{"id":3}', "t/3@4", b"bad", 4)
    assert made.rows.schema == maker.schema
    few = maker.restrict(["offset", "id"])
    assert few.schema.names == ["offset", "id"]
    assert few.key is None
    assert few.make(given_messages).rows.to_pylist() == [
        {"offset": offset, "id": number} for offset, number in ((0, 1), (2, 2), (4, 3), (6, None))
    ]


def test_unusable_event_times_are_dead_letters_with_their_bytes() -> None:
    schema = pa.schema([pa.field("at", pa.timestamp("ms"))])
    maker = RowMaker(JsonValues(schema), None, {}, ("at",), time="at")
    made = maker.make(messages([b'{"at":1}', b"{}", b"[", b'{"at":null}', b'{"at":5}']))
    assert made.row_of.tolist() == [0, 4]
    assert [index for index, _ in made.errors] == [1, 2, 3]
    skipping = RowMaker(JsonValues(ID), None, {"at": "timestamp"}, ("id", "at"), time="at")
    assert skipping.make(messages([b"{}", None])).skipped_time_us == 2_000


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.binary()])
def test_raw_values_are_encoded_and_decoded(kind: pa.DataType) -> None:
    field = pa.field("v", kind)
    values: list[Any] = ["a", "", "é"] if kind == pa.string() else [b"a", b""] if kind == pa.binary() else [1, -2, 3]
    rows = pa.RecordBatch.from_arrays([pa.array([*values, None], kind)], schema=pa.schema([field]))
    encoded = RawEncoder(field).encode(rows).to_pylist()
    assert encoded[-1] is None
    decoded = RawValues(field).decode([*encoded[:-1], b"\xff\xff\xff"])
    expected = [*values, b"\xff\xff\xff"] if kind == pa.binary() else values
    assert decoded.rows.column("v").to_pylist() == expected
    assert len(decoded.errors) == (kind != pa.binary())
    with pytest.raises(SchemaError):
        RawValues(pa.field("v", pa.date32()))


def test_queues_are_bounded_together_and_hold_up_only_for_the_starving() -> None:
    queues = Queues(10 * (OVERHEAD_BYTES + 1))
    full, empty = queues.add("t", 3), queues.add("t", 4)
    queues.put(messages([b"x"] * 10))
    assert queues.room(0.0) == 0
    assert queues.balance() == ([], [])
    assert queues.take(empty, 1, 1_000) == Taken()
    assert queues.room(0.0) > 0
    assert queues.balance() == ([full], [])
    assert queues.balance() == ([], [])
    taken = queues.take(full, 8, 1 << 20).messages
    assert taken is not None
    assert len(taken) == 8
    assert queues.balance() == ([], [full])
    queues.meet_end(full, 40)
    rest = queues.take(full, 8, 1 << 20)
    assert rest.messages is not None
    assert (len(rest.messages), rest.reached) == (2, 40)
    assert queues.bytes == 0
    queues.fail(UserError("gone"), lambda queue: queue is full)
    with pytest.raises(UserError, match="gone"):
        queues.take(full, 1, 1)
    assert queues.remove(full)
    assert not queues.remove(full)
    queues.put(messages([b"late"]))
    assert queues.bytes == 0


def test_what_has_come_is_written_once_it_is_known_how_much_there_is() -> None:
    queues = Queues(1 << 20)
    queue = queues.add("t", 3)
    # Nothing is known of what was there before.
    queues.put(messages([b"x"] * 10))
    assert queue.written is None
    queue.written = 15
    queues.put(messages([b"x"] * 3, 10))
    assert queue.written == 15
    queues.put(messages([b"x"] * 10, 13))
    assert queue.written == 32


def test_messages_are_joined_with_and_without_keys() -> None:
    one, two = messages([b"a"]), messages([b"b", None], 10, [b"k", None])
    both = joined([one, two])
    assert both.values == [b"a", b"b", None]
    assert both.offsets.tolist() == [0, 10, 12]
    assert both.keys == [None, b"k", None]
    assert both.headers is None


@pytest.mark.parametrize(
    ("written", "end", "behind"), [(None, None, None), (12, None, 5), (7, None, 0), (3, None, 0), (12, 9, 2)]
)
def test_what_waits_is_counted_up_to_what_is_written_or_the_end(
    written: int | None, end: int | None, behind: int | None
) -> None:
    found = KafkaReader(
        None,  # type: ignore[arg-type]
        KafkaPosition(7),
        replace(feed_of(lambda count, size: Taken(None, None)), written=lambda: written),
        end=end,
    )
    assert found.behind() == behind
    assert found.appended() == (written if end is None else None)


def test_the_reader_says_what_the_decoder_has_noticed() -> None:
    maker = RowMaker(JsonValues(ID), None, {}, ("id",))
    parts = [messages([b'{"ID": 1}', b'{"ID": 2}'])]
    said: list[str] = []

    def take(count: int, size: int) -> Taken:
        part = parts.pop()
        return Taken(part, int(part.offsets[-1]) + 1)

    start = KafkaPosition(0)
    reader = KafkaReader(maker, start, feed_of(take), end=1_000, say=said.append)
    assert reader.read(10).rows.num_rows == 2
    assert said == []
    parts.append(messages([b'{"ID": 1}', b'{"ID": 2}']))
    reader = KafkaReader(maker.fresh(), start, feed_of(take), end=3, say=said.append)
    assert reader.read(10).ended
    assert len(said) == 1 and said[0].startswith(
        "none of the first 2 messages has a field 'id', so the columns are null"
    )


def test_a_reader_that_had_nothing_is_told_once_of_what_comes() -> None:
    queues = Queues(1 << 20)
    queue = queues.add("t", 3)
    maker = RowMaker(JsonValues(ID), None, {}, ("id",))
    told: list[str] = []

    def watch(wake: Callable[[], None]) -> None:
        queue.on_change = wake

    reader = KafkaReader(
        maker,
        KafkaPosition(0),
        replace(feed_of(lambda count, size: queues.take(queue, count, size)), watch=watch),
        end=None,
    )
    assert reader.watch(lambda: told.append("wake"))
    queues.put(messages([b'{"id":1}']))
    assert told == [], "it has not been asked yet"
    while reader.read(10).rows is not None:
        pass
    queues.put(messages([b'{"id":2}'], first=1))
    queues.put(messages([b'{"id":3}'], first=2))
    assert len(told) == 1
    while reader.read(10).rows is not None:
        pass
    queues.meet_end(queue, 5)
    assert len(told) == 2
    reader.read(10)
    assert reader.position() == {"offset": 5}
    queues.tell()
    assert len(told) == 3, "a broker that is gone or back is news"
    reader.read(10)
    queues.fail(UserError("gone"))
    assert len(told) == 4
    with pytest.raises(UserError):
        reader.read(10)


def test_messages_gather_until_readers_have_taken_all_that_is_held() -> None:
    queues = Queues(1 << 20)
    queue, other = queues.add("t", 3), queues.add("t", 4)
    queues.put(messages([b"1", b"2"]))
    queues.meet_end(other, 7)
    waiting = threading.Thread(target=queues.let_gather, args=(600.0,), daemon=True)
    waiting.start()
    queues.take(other, 10, 1 << 10)
    queues.take(queue, 1, 1 << 10)
    assert waiting.is_alive()
    queues.take(queue, 1, 1 << 10)
    waiting.join(60.0)
    assert not waiting.is_alive()


def test_nothing_gathers_while_a_reader_has_nothing_that_may_come() -> None:
    queues = Queues(1 << 20)
    queues.let_gather(600.0)
    queues.put(messages([b"1"]))
    starved = queues.add("t", 4)
    queues.put(messages([b"1"]))
    waiting = threading.Thread(target=queues.let_gather, args=(600.0,), daemon=True)
    waiting.start()
    queues.take(starved, 10, 1 << 10)
    waiting.join(60.0)
    assert not waiting.is_alive()
    queues.let_gather(600.0)
