"""The head of a source: watermarks, idleness, gathering of small reads, retries."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import Batch, Element, EndOfStream, Idle, Watermark
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.dataflow.source_partition import RETRIES, RETRY_NS
from penstock.model.connectors import NOTHING, RawRecord, Read, Reader
from penstock.model.errors import RetryableError, SchemaError
from penstock.model.schema import TimeColumn
from tests.engine.scripted import MS, Scripts, Step, rows
from tests.engine.support import ManualClock, Rejected


class Head:
    """A head in the test's hands, and what came out of it as short text."""

    def __init__(self, source: Scripts, *, delay_us: int = 0, time: str | None = "at", batch_rows: int = 8) -> None:
        self.clock = ManualClock()
        self.counters = RowCounters()
        self.rejected = Rejected()
        self.head = SourceHead(
            SourceStream("source", source, None if time is None else TimeColumn(time), delay_us),
            SourceStart(source.partitions(1)),
            ReadPace(batch_rows, linger_ns=10 * MS, idle_timeout_ns=100 * MS),
            clock=self.clock,
            counters=self.counters,
            dead_letters=self.rejected,
        )

    def poll(self, times: int = 1) -> list[str]:
        told = []
        for _ in range(times):
            told += [text(element) for element in self.head.poll()]
            assert self.counters.balanced()
        return told

    def until_the_end(self) -> list[str]:
        told = []
        while not self.head.ended:
            told += self.poll()
        return told


def text(element: Element) -> str:
    match element:
        case Batch():
            return f"{element.rows.num_rows} rows"
        case Watermark():
            return f"to {element.time_us}"
        case Idle():
            return "idle"
        case EndOfStream():
            return "end" if element.drained else "stop"
        case _:
            raise AssertionError(element)


def test_the_watermark_is_the_greatest_time_less_the_delay() -> None:
    head = Head(Scripts({"a": [rows(50, 70, 60), rows(65, 80), rows(75)]}), delay_us=10)
    assert head.until_the_end() == ["3 rows", "to 60", "2 rows", "to 70", "1 rows", "end"]


def test_partitions_hold_the_watermark_at_their_minimum() -> None:
    head = Head(Scripts({"a": [rows(10), rows(40), rows(90)], "b": [rows(20), rows(30), rows(50)]}))
    assert head.until_the_end() == [
        "1 rows", "1 rows", "to 10", "1 rows", "to 20", "1 rows", "to 30", "1 rows", "to 40", "1 rows", "to 50",
        "to 90", "end",
    ]  # fmt: skip


def test_the_partition_that_is_furthest_behind_is_read() -> None:
    source = Scripts({"a": [rows(10), rows(40), rows(90)], "b": [rows(20), rows(30), rows(50)]})
    Head(source).poll(6)
    assert [partition for partition, _ in source.asked] == ["a", "b", "a", "b", "b", "a"]


def test_an_ended_partition_no_longer_holds_the_watermark() -> None:
    head = Head(Scripts({"a": [rows(10)], "b": [rows(20), rows(30)]}))
    assert head.until_the_end() == ["1 rows", "1 rows", "to 10", "to 20", "1 rows", "to 30", "end"]


def test_rows_that_were_skipped_advance_the_watermark_and_count_as_filtered() -> None:
    head = Head(Scripts({"a": [rows(10), Read(skipped=500, skipped_time_us=99)]}), delay_us=9)
    assert head.until_the_end() == ["1 rows", "to 1", "to 90", "end"]
    assert (head.counters.rows_in, head.counters.filtered, head.counters.passed) == (501, 500, 1)


def test_without_event_time_there_are_no_watermarks() -> None:
    head = Head(Scripts({"a": [rows(10), rows(20)]}), time=None)
    assert head.until_the_end() == ["1 rows", "1 rows", "end"]


def test_rows_without_event_time_and_rejected_records_are_dead_letters() -> None:
    bad = RawRecord(b"{", "file:3", "not JSON")
    head = Head(Scripts({"a": [rows(10, None, 20), Read(rejected=[bad])]}))
    assert head.until_the_end() == ["2 rows", "to 20", "end"]
    assert [(item.position, item.error) for item in head.rejected.raw] == [
        ("row 2", "event time column 'at' is null"),
        ("file:3", "not JSON"),
    ]
    assert (head.counters.rows_in, head.counters.dead_lettered) == (4, 2)


def test_an_unbounded_partition_that_has_nothing_becomes_idle() -> None:
    source = Scripts({"a": [rows(10), rows(30), *repeat(NOTHING, 200)], "b": repeat(NOTHING)}, bounded=False)
    head = Head(source)
    assert head.poll(2) == ["1 rows", "1 rows"]
    head.clock.advance_ns(99 * MS)
    assert head.poll() == []
    head.clock.advance_ns(2 * MS)
    assert head.poll(2) == ["to 30"]
    head.clock.advance_ns(100 * MS)
    assert head.poll(2) == ["idle"]
    assert head.poll(2) == []


def test_an_idle_partition_that_comes_back_counts_again() -> None:
    source = Scripts({"a": [NOTHING, NOTHING, rows(10), rows(50)]}, bounded=False)
    head = Head(source)
    head.poll()
    head.clock.advance_ns(100 * MS)
    assert head.poll() == ["idle"]
    head.clock.advance_ns(2 * MS)
    assert head.poll(2) == ["1 rows", "to 10", "1 rows", "to 50"]


def test_a_bounded_source_is_never_idle() -> None:
    head = Head(Scripts({"a": [rows(10), rows(20)], "b": [NOTHING, NOTHING, rows(5)]}))
    told = head.poll(3)
    head.clock.advance_ns(3_600_000 * MS)
    told += head.poll(2)
    head.clock.advance_ns(3_600_000 * MS)
    assert "idle" not in told
    assert not any(item.startswith("to ") for item in told)
    assert head.until_the_end()[:2] == ["1 rows", "to 5"]


def test_a_source_that_has_nothing_is_left_alone_for_a_moment() -> None:
    head = Head(Scripts({"a": repeat(NOTHING)}, bounded=False))
    assert head.head.wake_ns() == 0
    head.poll()
    assert head.head.wake_ns() == head.clock.monotonic_ns() + RETRY_NS


def test_one_that_cannot_say_when_it_has_something_is_asked_ever_more_rarely() -> None:
    head = Head(Scripts({"a": [*repeat(NOTHING, 9), rows(1), *repeat(NOTHING, 3)]}))
    waits = []
    for _ in range(12):
        due_ns = head.head.wake_ns()
        assert due_ns is not None
        waits.append((due_ns - head.clock.monotonic_ns()) // MS)
        head.clock.advance_ns(due_ns - head.clock.monotonic_ns())
        head.poll()
    assert waits == [0, 1, 2, 4, 8, 16, 32, 32, 32, 32, 0, 1]


def test_one_that_says_when_it_has_something_again_is_asked_then() -> None:
    head = Head(Scripts({"a": [Read(again_us=7_000), Read(again_us=3), rows(1)]}, bounded=False))
    head.poll()
    assert head.head.wake_ns() == 7 * MS
    head.clock.advance_ns(7 * MS)
    head.poll()
    assert head.head.wake_ns() == 8 * MS, "rows that trickle in are read together"


def test_rows_of_a_source_with_a_rate_of_its_own_leave_at_once_and_it_rests() -> None:
    slow = Read(rows(10).rows, again_us=20)
    head = Head(Scripts({"a": [slow, Read(rows(20).rows, again_us=9_000)]}, bounded=False), batch_rows=80)
    assert head.poll() == ["1 rows", "to 10"]
    assert head.head.wake_ns() == RETRY_NS
    head.clock.advance_ns(RETRY_NS)
    assert head.poll() == ["1 rows", "to 20"]
    assert head.head.wake_ns() == 10 * MS


class Waking(Scripts):
    """Readers say themselves when they have something; ``wakes`` are what they call."""

    def __init__(self, steps: dict[str, Sequence[Step] | Iterator[Step]]) -> None:
        super().__init__(steps, bounded=False)
        self.wakes: dict[str, Callable[[], None]] = {}

    def open(self, partition: str, position: Any | None) -> Reader:
        reader = super().open(partition, position)

        def watch(wake: Callable[[], None]) -> bool:
            self.wakes[partition] = wake
            return True

        return Overridden(reader, watch)


class Overridden(Reader):
    """A reader with another `watch`."""

    def __init__(self, reader: Reader, watch: Callable[[Callable[[], None]], bool]) -> None:
        self._reader = reader
        self._watch = watch

    def watch(self, wake: Callable[[], None]) -> bool:
        return self._watch(wake)

    def read(self, max_rows: int) -> Read:
        return self._reader.read(max_rows)

    def position(self) -> Any:
        return self._reader.position()


def test_one_that_wakes_the_job_is_not_asked_before() -> None:
    source = Waking({"a": [rows(10), NOTHING, rows(20), NOTHING, NOTHING]})
    head = Head(source)
    assert head.poll(2) == ["1 rows", "to 10"]
    assert head.head.wake_ns() == 100 * MS, "when it counts as idle"
    source.wakes["a"]()
    assert head.head.wake_ns() == RETRY_NS
    head.clock.advance_ns(RETRY_NS)
    assert head.poll(2) == ["1 rows", "to 20"]
    # It is asked once more before it counts as idle, as it might be out of reach, and then no more.
    head.clock.advance_ns(100 * MS)
    assert head.poll() == ["idle"]
    assert len(source.asked) == 5
    assert head.head.wake_ns() is None


def test_what_a_reader_says_while_it_is_read_is_not_lost() -> None:
    source = Waking({"a": repeat(NOTHING)})
    head = Head(source)

    def read(max_rows: int) -> Read:
        source.wakes["a"]()
        return NOTHING

    head.head._partitions[0].reader.read = read  # type: ignore[method-assign]
    head.poll()
    assert head.head.wake_ns() == RETRY_NS


def test_a_failure_that_may_pass_is_tried_again_without_being_told() -> None:
    source = Waking({"a": [RetryableError("gone"), rows(10)]})
    head = Head(source)
    assert head.poll() == []
    assert head.head.wake_ns() == 2 * RETRY_NS
    head.clock.advance_ns(2 * RETRY_NS)
    assert head.poll() == ["1 rows", "to 10"]


def test_small_reads_are_gathered_until_there_is_nothing() -> None:
    source = Scripts({"a": [rows(1), rows(2), rows(3), NOTHING, rows(4), rows(5)]}, bounded=False)
    head = Head(source, batch_rows=80)
    assert head.poll(3) == []
    assert head.poll() == ["3 rows", "to 3"]
    head.clock.advance_ns(RETRY_NS)
    assert head.until_the_end() == ["2 rows", "end"]


def test_small_reads_are_gathered_no_longer_than_they_may_linger() -> None:
    head = Head(Scripts({"a": [rows(index) for index in range(9)]}), batch_rows=80)
    assert head.poll() == []
    due_ns = head.head.linger_ns()
    assert due_ns == 10 * MS
    head.clock.advance_ns(9 * MS)
    assert head.poll() == []
    head.clock.advance_ns(MS)
    assert head.poll() == ["3 rows", "to 2"]
    assert head.head.linger_ns() is None


def test_a_silent_partition_does_not_hurry_the_others() -> None:
    nothing = Read(again_us=1_000)
    steps: dict[str, Sequence[Step] | Iterator[Step]] = {"a": [rows(index) for index in range(9)], "b": repeat(nothing)}
    head = Head(Scripts(steps, bounded=False), batch_rows=80)
    for _ in range(4):
        assert head.poll() == []
        head.clock.advance_ns(RETRY_NS)
    head.clock.advance_ns(10 * MS)
    assert head.poll() == ["4 rows"]


def test_little_of_many_partitions_is_read_in_one_step_and_leaves_as_one() -> None:
    source = Scripts({name: [rows(at), NOTHING, rows(at + 10)] for at, name in enumerate("abcd")}, bounded=False)
    head = Head(source, batch_rows=80)
    assert head.poll() == []
    assert head.poll() == ["4 rows", "to 0"]
    assert [partition for partition, _ in source.asked] == [*"abcdabcd"]
    head.clock.advance_ns(RETRY_NS)
    assert head.until_the_end() == ["4 rows", "end"]


def test_a_step_ends_with_what_leaves() -> None:
    source = Scripts({"a": [rows(*range(8)), rows(20)], "b": [rows(1)], "c": [rows(2), rows(3)]})
    head = Head(source, batch_rows=64)
    assert head.poll() == ["8 rows"]
    assert len(source.asked) == 1


def test_gathered_rows_leave_without_another_read() -> None:
    source = Scripts({"a": [rows(1), rows(2)]})
    head = Head(source, batch_rows=80)
    head.poll(2)
    assert [text(element) for element in head.head.leave()] == []
    head.clock.advance_ns(10 * MS)
    assert [text(element) for element in head.head.leave()] == ["2 rows", "to 2"]
    assert len(source.asked) == 2


def test_no_batch_is_larger_than_asked_for() -> None:
    many = rows(*range(20))
    source = Scripts({"a": [rows(1), rows(2), many]})
    head = Head(source, batch_rows=17)
    assert head.until_the_end() == ["17 rows", "5 rows", "to 19", "end"]
    assert [asked for _, asked in source.asked] == [17, 16, 15, 17]


def test_a_failure_that_may_pass_is_tried_again() -> None:
    gone = RetryableError("connection lost")
    head = Head(Scripts({"a": [rows(10), gone, gone, rows(20)]}, bounded=False))
    assert head.poll(2) == ["1 rows", "to 10"]
    first_ns = head.head.wake_ns()
    assert first_ns == 2 * RETRY_NS
    head.clock.advance_ns(first_ns)
    head.poll()
    assert head.head.wake_ns() == first_ns + 4 * RETRY_NS
    head.clock.advance_ns(4 * RETRY_NS)
    assert head.poll() == ["1 rows", "to 20"]


def test_a_failure_that_does_not_pass_ends_the_job() -> None:
    source = Scripts({"a": [rows(10), *repeat(RetryableError("connection lost"), 99)]}, bounded=False)
    head = Head(source)
    with pytest.raises(RetryableError, match="connection lost"):
        for _ in range(99):
            assert "idle" not in head.poll()
            head.clock.advance_ns(1_000 * MS)
    assert len(source.asked) == 1 + RETRIES + 1


def test_a_stop_lets_gathered_rows_go_and_reads_no_more() -> None:
    source = Scripts({"a": [rows(10), rows(20)]})
    head = Head(source, batch_rows=80)
    head.poll()
    head.head.stop(drain=False)
    assert head.head.wake_ns() == 0
    assert head.poll() == ["1 rows", "stop"]
    assert head.head.wake_ns() is None
    assert len(source.asked) == 1


def test_readers_are_closed_once() -> None:
    source = Scripts({"a": [], "b": []})
    head = Head(source)
    head.head.close()
    head.head.close()
    assert source.closed == ["a", "b"]


class Locked(Scripts):
    def open(self, partition: str, position: Any | None) -> Reader:
        if partition == "b":
            raise PermissionError("locked")
        return super().open(partition, position)


def test_readers_are_closed_when_another_cannot_be_opened() -> None:
    source = Locked({"a": [], "b": [], "c": []})
    with pytest.raises(PermissionError):
        Head(source)
    assert source.closed == ["a"]


def test_rows_of_another_schema_end_the_job() -> None:
    head = Head(Scripts({"a": [Read(pa.record_batch({"at": ["now"], "x": [1]}))]}))
    with pytest.raises(SchemaError, match="column 'at' is string, but timestamp"):
        head.poll()


def test_a_timestamp_with_a_zone_and_a_coarse_unit_is_an_instant() -> None:
    zone = pa.timestamp("s", "Europe/Berlin")
    fields = pa.schema({"at": zone})
    noon = datetime(2025, 6, 1, 12, tzinfo=UTC)

    class Zoned(Scripts):
        @property
        def schema(self) -> pa.Schema:
            return fields

    source = Zoned({"a": [Read(pa.record_batch([pa.array([noon, noon + timedelta(seconds=1)], zone)], schema=fields))]})
    assert Head(source).poll() == ["2 rows", f"to {int(noon.timestamp() + 1) * 1_000_000}"]
