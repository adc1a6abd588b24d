"""The head of a source: watermarks, idleness, gathering of small reads, retries, and sources kept together."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.aggregates import count
from penstock.engine.connectors.memory_sink import MemorySink
from penstock.engine.elements import Batch, Element, EndOfStream, Idle, Watermark
from penstock.engine.embedded import EmbeddedJob
from penstock.engine.operators.contract import RowCounters
from penstock.engine.source_head import RETRIES, RETRY_NS, SourceHead
from penstock.engine.worker import Done, Ran, Waiting
from penstock.job import Job
from penstock.model.config import LoopOptions
from penstock.model.connectors import ENDED, NOTHING, RawRecord, Read, Reader, Source
from penstock.model.errors import RetryableError, SchemaError
from penstock.model.expressions import col
from penstock.model.schema import TimeColumn
from penstock.readers import read
from penstock.windows import tumbling
from tests.engine.support import ManualClock, Rejected

MS = 1_000_000
FIELDS = pa.schema({"at": pa.timestamp("us"), "x": pa.int64()})

Step = Read | Exception


def rows(*times_us: int | None) -> Read:
    """Return a read of rows at these times."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array(times_us, pa.timestamp("us")), pa.array(range(len(times_us)))], schema=FIELDS
    )
    return Read(batch)


class Scripts(Source):
    """Partitions that do what they are told and end after it; keeps what each was asked for."""

    def __init__(self, steps: Mapping[str, Sequence[Step] | Iterator[Step]], bounded: bool = True) -> None:
        self._steps = steps
        self.bounded = bounded
        self.asked: list[tuple[str, int]] = []
        self.closed: list[str] = []

    @property
    def schema(self) -> pa.Schema:
        return FIELDS

    def partitions(self, parallelism: int) -> list[str]:
        return list(self._steps)

    def open(self, partition: str, position: Any | None) -> Reader:
        return ScriptReader(self, partition, iter(self._steps[partition]))


class ScriptReader(Reader):
    def __init__(self, source: Scripts, partition: str, steps: Iterator[Step]) -> None:
        self._source = source
        self._partition = partition
        self._steps = steps

    def read(self, max_rows: int) -> Read:
        self._source.asked.append((self._partition, max_rows))
        step = next(self._steps, ENDED)
        if isinstance(step, Exception):
            raise step
        return step

    def position(self) -> Any:
        return None

    def close(self) -> None:
        self._source.closed.append(self._partition)


class Head:
    """A head in the test's hands, and what came out of it as short text."""

    def __init__(self, source: Scripts, *, delay_us: int = 0, time: str | None = "at", batch_rows: int = 8) -> None:
        self.clock = ManualClock()
        self.counters = RowCounters()
        self.rejected = Rejected()
        self.head = SourceHead(
            "source",
            source,
            source.partitions(1),
            None if time is None else TimeColumn(time),
            delay_us,
            clock=self.clock,
            counters=self.counters,
            dead_letters=self.rejected,
            batch_rows=batch_rows,
            linger_ns=10 * MS,
            idle_timeout_ns=100 * MS,
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
    Head(source).poll(7)
    assert [partition for partition, _ in source.asked] == ["a", "b", "a", "b", "b", "a", "b"]


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
    assert head.poll(3) == ["1 rows", "1 rows"]
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
    head.clock.advance_ns(MS)
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
    steps: dict[str, Sequence[Step] | Iterator[Step]] = {"a": [rows(index) for index in range(9)], "b": repeat(NOTHING)}
    head = Head(Scripts(steps, bounded=False), batch_rows=80)
    for _ in range(4):
        assert head.poll(2) == []
        head.clock.advance_ns(RETRY_NS)
    head.clock.advance_ns(10 * MS)
    assert head.poll(1) == ["4 rows"]


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


def embedded(
    folder: Path, clock: ManualClock, *sources: Scripts, parallelism: int = 1
) -> tuple[EmbeddedJob, MemorySink]:
    """Count the rows of all sources by x, with an update after every batch."""
    job = Job()
    streams = [read(source, time="at", job=job).rebalance() for source in sources]
    sink = MemorySink()
    merged = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0].filter(col("x") >= 0)
    merged.write(sink)
    options = LoopOptions(batch_rows=80, idle_timeout_ms=1_000)
    return EmbeddedJob("test", job.plan(parallelism), options, folder, clock=clock), sink


def quiet(job: EmbeddedJob) -> Waiting | Done:
    while isinstance(outcome := job.worker.step(), Ran):
        pass
    return outcome


def test_rows_leave_in_time_although_another_source_is_behind(tmp_path: Path) -> None:
    clock = ManualClock()
    ahead = Scripts({"a": [NOTHING, rows(100), rows(200)]}, bounded=False)
    behind = Scripts({"b": [rows(50), *repeat(NOTHING, 5_000)]}, bounded=False)
    job, sink = embedded(tmp_path, clock, ahead, behind)
    asleep_ms = 0
    while len(sink.rows()) < 2:
        outcome = quiet(job)
        assert isinstance(outcome, Waiting)
        assert outcome.until_ns is not None
        assert outcome.until_ns > clock.monotonic_ns(), "the loop would spin"
        clock.advance_ns(outcome.until_ns - clock.monotonic_ns())
        asleep_ms += 1
        assert asleep_ms < 100
    assert clock.monotonic_ns() <= 12 * MS
    # The rows that came are ahead of the other source, so this one is not asked for more until that is idle.
    assert len(ahead.asked) == 2


def test_a_silent_source_holds_others_back_until_it_is_idle(tmp_path: Path) -> None:
    clock = ManualClock()
    ahead = Scripts({"a": [rows(second) for second in range(100, 110)]}, bounded=False)
    silent = Scripts({"b": repeat(NOTHING, 3_000)}, bounded=False)
    job, sink = embedded(tmp_path, clock, ahead, silent)
    while clock.monotonic_ns() < 900 * MS:
        assert isinstance(quiet(job), Waiting)
        clock.advance_ns(MS)
    assert len(ahead.asked) == 1
    while clock.monotonic_ns() < 1_100 * MS:
        quiet(job)
        clock.advance_ns(MS)
    assert len(sink.rows()) == 10
    assert len(silent.asked) > 1_050, "an idle source is still asked"


@pytest.mark.parametrize("parallelism", [2, 3])
def test_an_instance_without_partitions_holds_nobody_back(tmp_path: Path, parallelism: int) -> None:
    job = Job()
    source = Scripts({"a": [rows(10, 20), rows(70), *repeat(NOTHING, 9)]}, bounded=False)
    seen = MemorySink()
    read(source, time="at", job=job).window(tumbling(50e-6)).agg(n=count()).write(seen)
    runs = EmbeddedJob("test", job.plan(parallelism), LoopOptions(), tmp_path, clock=ManualClock())
    assert isinstance(quiet(runs), Waiting)
    assert [row["n"] for row in seen.rows()] == [2]


class Recorded(Scripts):
    """Keeps the event time of every batch in one list with other sources."""

    def __init__(self, name: str, times: Sequence[int], log: list[tuple[str, int]], size: int = 3) -> None:
        steps = [rows(*times[start : start + size]) for start in range(0, len(times), size)]
        super().__init__({name: steps})
        self.log = log

    def open(self, partition: str, position: Any | None) -> Reader:
        reader = super().open(partition, position)
        return RecordedReader(partition, reader, self.log)


class RecordedReader(Reader):
    def __init__(self, name: str, reader: Reader, log: list[tuple[str, int]]) -> None:
        self._name = name
        self._reader = reader
        self._log = log

    def read(self, max_rows: int) -> Read:
        got = self._reader.read(max_rows)
        if got.rows is not None:
            self._log.append((self._name, got.rows["at"].cast(pa.int64())[-1].as_py()))
        return got

    def position(self) -> Any:
        return None


def test_no_source_is_more_than_a_batch_ahead(tmp_path: Path) -> None:
    log: list[tuple[str, int]] = []
    steady = Recorded("steady", range(0, 300, 2), log)
    sparse = Recorded("sparse", range(0, 300, 35), log, size=1)
    bursty = Recorded("bursty", [*range(20), *range(200, 300)], log, size=5)
    job, sink = embedded(tmp_path, ManualClock(), steady, sparse, bursty, parallelism=2)
    job.run()
    assert len(sink.rows()) == 150 + 9 + 120
    reached = {"steady": -1, "sparse": -1, "bursty": -1}
    left = {name: [item for item in log if item[0] == name] for name in reached}
    for name, time in log:
        # Whoever read was behind all others that had more to read.
        assert all(reached[name] <= reached[other] for other in reached if left[other])
        reached[name] = time
        left[name].pop(0)


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
