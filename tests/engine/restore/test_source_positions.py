"""A source instance that is cut and goes on elsewhere: no row twice or lost, and watermarks stay where they were."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch, Element, EndOfStream, Idle, Watermark
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.restore.source_positions import restored_partitions
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source
from penstock.model.errors import FatalError
from penstock.model.schema import TimeColumn
from tests.engine.scripted import FIELDS, MS
from tests.engine.support import ManualClock, Rejected

BATCH_ROWS = 16

Times = Sequence[Sequence[int | None]]
"""The event times of each read of a partition; a read without any brings nothing."""


class Timed(Source):
    """Partitions whose reads bring rows at given times; ``x`` numbers them."""

    def __init__(self, reads: Mapping[str, Times], bounded: bool = True) -> None:
        self.reads = dict(reads)
        self.bounded = bounded
        self.opened: list[str] = []

    @property
    def schema(self) -> pa.Schema:
        return FIELDS

    def partitions(self, parallelism: int) -> list[str]:
        return list(self.reads)

    def partitions_since(self, known: Sequence[str]) -> list[str]:
        return [name for name in self.reads if name not in known]

    def open(self, partition: str, position: Any | None) -> Reader:
        self.opened.append(partition)
        return TimedReader(self.reads[partition], position or 0, self.bounded)


class TimedReader(Reader):
    def __init__(self, reads: Times, position: int, bounded: bool) -> None:
        self._reads = reads
        self._next = position
        self._end = ENDED if bounded else NOTHING

    def read(self, max_rows: int) -> Read:
        if self._next == len(self._reads):
            return self._end
        times = self._reads[self._next]
        first = 100 * self._next
        self._next += 1
        if not times:
            return NOTHING
        numbers = pa.array(range(first, first + len(times)), pa.int64())
        return Read(pa.RecordBatch.from_arrays([pa.array(times, pa.timestamp("us")), numbers], schema=FIELDS))

    def position(self) -> int:
        return self._next


class Run:
    """One source instance after another, each with what the one before told."""

    def __init__(self, source: Source, delay_us: int = 0) -> None:
        self.source = source
        self.delay_us = delay_us
        self.clock = ManualClock()
        self.rejected = Rejected()
        self.rows: list[tuple[int, int]] = []
        self.told: list[Element] = []

    def start(self, positions: Mapping[str, Any], partitions: Sequence[str] | None = None) -> SourceHead:
        return SourceHead(
            SourceStream("source", self.source, TimeColumn("at"), self.delay_us),
            SourceStart(
                restored_partitions(self.source, 1, positions) if partitions is None else partitions, positions
            ),
            ReadPace(BATCH_ROWS, linger_ns=10 * MS, idle_timeout_ns=100 * MS),
            clock=self.clock,
            counters=RowCounters(),
            dead_letters=self.rejected,
        )

    def take(self, elements: Sequence[Element]) -> list[Element]:
        for element in elements:
            if isinstance(element, Batch):
                times = element.rows.column("at").cast(pa.int64()).to_pylist()
                self.rows += zip(times, element.rows.column("x").to_pylist(), strict=True)
        self.told += elements
        return list(elements)

    def cut(self, head: SourceHead) -> dict[str, Any]:
        self.take(list(head.cut()))
        assert head.linger_ns() is None, "a row was kept back"
        positions: dict[str, Any] = json.loads(json.dumps(head.positions()))
        head.close()
        return positions

    def to_the_end(self, head: SourceHead) -> None:
        while not head.ended:
            self.take(list(head.poll()))
            self.clock.advance_ns(MS)

    @property
    def watermarks(self) -> list[int]:
        return [element.time_us for element in self.told if isinstance(element, Watermark)]


READS = st.lists(st.lists(st.integers(0, 60) | st.none(), max_size=5), max_size=6)


@settings(max_examples=60)
@given(
    reads=st.dictionaries(st.sampled_from("abc"), READS, min_size=1),
    delay_us=st.sampled_from([0, 7]),
    polls=st.lists(st.integers(0, 6), min_size=1, max_size=4),
)
def test_a_cut_anywhere_changes_no_row_and_no_watermark(
    reads: dict[str, Times], delay_us: int, polls: list[int]
) -> None:
    whole = Run(Timed(reads), delay_us)
    whole.to_the_end(whole.start({}))
    run = Run(Timed(reads), delay_us)
    positions: dict[str, Any] = {}
    for count in polls:
        head = run.start(positions)
        before_us = head.watermark_us
        assert before_us == max(run.watermarks, default=START_OF_TIME_US) or all(
            item["ended"] for item in positions.values()
        )
        for _ in range(count):
            if not head.ended:
                run.take(list(head.poll()))
                run.clock.advance_ns(MS)
        if head.ended:
            head.close()
            break
        positions = run.cut(head)
        latest = [item["latest_us"] for item in positions.values() if not item["ended"]]
        assert head.watermark_us >= before_us
        if START_OF_TIME_US not in latest:
            assert head.watermark_us == min((time - delay_us for time in latest), default=END_OF_TIME_US)
    else:
        run.to_the_end(run.start(positions))
    assert sorted(run.rows) == sorted(whole.rows)
    assert run.watermarks == sorted(run.watermarks)
    assert sorted(record.position for record in run.rejected.raw) == sorted(
        record.position for record in whole.rejected.raw
    )


def test_the_watermark_is_said_again_and_only_once() -> None:
    run = Run(Timed({"a": [[10], [20], [30]], "b": [[15], [40]]}))
    head = run.start({})
    for _ in range(3):
        run.take(list(head.poll()))
    positions = run.cut(head)
    said_us = run.watermarks[-1]
    assert {item["watermark_us"] for item in positions.values()} == {said_us}
    head = run.start(positions)
    assert head.watermark_us == said_us
    assert run.take(list(head.cut())) == [Watermark(said_us)]
    assert list(head.cut()) == []
    assert json.loads(json.dumps(head.positions())) == positions


def test_partitions_of_several_instances_go_on_with_the_least_watermark() -> None:
    run = Run(Timed({"a": [[10], [50]], "b": [[30], [60]]}))
    positions: dict[str, Any] = {}
    for name in ("a", "b"):
        head = run.start({}, [name])
        run.take(list(head.poll()))
        positions |= run.cut(head)
    assert [item["watermark_us"] for item in positions.values()] == [10, 30]
    both = run.start(positions)
    assert both.watermark_us == 10
    run.told.clear()
    run.to_the_end(both)
    assert run.watermarks and run.watermarks == sorted(run.watermarks)
    assert sorted(time for time, _ in run.rows) == [10, 30, 50, 60]


def test_an_idle_partition_does_not_take_the_watermark_back() -> None:
    run = Run(Timed({"a": [[10], [90]], "b": [[20]]}, bounded=False))
    head = run.start({})
    for _ in range(5):
        run.take(list(head.poll()))
        run.clock.advance_ns(60 * MS)
    run.take(list(head.poll()))
    assert run.watermarks[-1] == 90
    positions = run.cut(head)
    again = run.start(positions)
    told = [element for _ in range(5) for element in run.take(list(again.poll()))]
    assert again.watermark_us == 90
    assert [element for element in told if not isinstance(element, Idle)] == [Watermark(90)]


def test_a_partition_that_came_since_begins_behind_the_watermark() -> None:
    source = Timed({"a": [[50], [80]]})
    run = Run(source)
    head = run.start({})
    run.take(list(head.poll()))
    positions = run.cut(head)
    source.reads["b"] = [[20], [70]]
    assert restored_partitions(source, 3, positions) == ["a", "b"]
    run.to_the_end(run.start(positions))
    assert sorted(time for time, _ in run.rows) == [20, 50, 70, 80]
    assert run.watermarks == sorted(run.watermarks)


def test_an_ended_partition_is_not_opened_again() -> None:
    source = Timed({"a": [[1]], "b": [[2], [3], [4], [5]]})
    run = Run(source)
    head = run.start({})
    for _ in range(4):
        run.take(list(head.poll()))
    positions = run.cut(head)
    assert [item["ended"] for item in positions.values()] == [True, False]
    source.opened.clear()
    head = run.start(positions)
    assert source.opened == ["b"]
    assert head.positions() == positions
    run.to_the_end(head)
    assert [time for time, _ in run.rows] == [1, 2, 3, 4, 5]
    assert isinstance(run.told[-1], EndOfStream)


def test_positions_are_checked() -> None:
    with pytest.raises(FatalError, match="positions of source 'source' are not positions"):
        Run(Timed({"a": []})).start({"a": {"at": 0, "ended": "no"}})
