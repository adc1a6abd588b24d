"""A partition goes from one source instance to another between two reads: its rows once, its watermark held."""

from collections.abc import Sequence
from typing import Any

from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import START_OF_TIME_US, Batch, Element, EndOfStream, Idle, Left, Watermark
from penstock.engine.dataflow.source_discovery import SourceDiscovery
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.dataflow.source_watermark import BEFORE_ALL_US
from penstock.model.connectors import NOTHING, Read, Reader, Source
from penstock.model.schema import TimeColumn
from tests.engine.scripted import FIELDS, MS, rows
from tests.engine.support import ManualClock, Rejected


class Timed(Source):
    """Partitions with a row at each of some times, read one by one; those named ``open`` never end."""

    discovery_us = None

    def __init__(self, times: dict[str, list[int]], *, bounded: bool = True, since: Sequence[str] = ()) -> None:
        self.times, self.bounded, self.since = times, bounded, since

    @property
    def schema(self) -> Any:
        return FIELDS

    def partitions(self, parallelism: int) -> Sequence[str]:
        return list(self.times)

    def partitions_since(self, known: Sequence[str]) -> Sequence[str]:
        return [name for name in self.since if name not in known]

    def open(self, partition: str, position: Any | None) -> Reader:
        return TimedReader(self, partition, position or 0)


class TimedReader(Reader):
    def __init__(self, source: Timed, partition: str, row: int) -> None:
        self.source, self.partition, self.row = source, partition, row

    def read(self, max_rows: int) -> Read:
        times = self.source.times.get(self.partition, [])
        if self.row < len(times):
            self.row += 1
            return rows(times[self.row - 1])
        return Read(ended=True) if self.source.bounded else NOTHING

    def position(self) -> Any:
        return self.row


class One:
    """An instance of a source in the test's hands."""

    def __init__(self, source: Timed, partitions: Sequence[str], *, joins: bool = False, keeps: bool = False) -> None:
        self.clock = ManualClock()
        discovery = None if source.bounded else SourceDiscovery(source, 0, 1, list(source.times))
        self.head = SourceHead(
            SourceStream("source", source, TimeColumn("at"), 0),
            SourceStart(partitions, discovery=discovery, joins=joins),
            ReadPace(1, linger_ns=0, idle_timeout_ns=100 * MS, keeps=keeps),
            clock=self.clock,
            counters=RowCounters(),
            dead_letters=Rejected(),
        )

    def poll(self, times: int = 1) -> list[str]:
        told: list[str] = []
        for _ in range(times):
            if not self.head.ended:
                told += map(text, self.head.poll())
        return told

    def give(self, *names: str, above_us: int = START_OF_TIME_US) -> Any:
        self.head.hold_partitions("source[0]")
        self.head.handover.stop(names, above_us, None)
        assert self.head.has_stopped()
        assert list(map(text, self.head.cut())) == []
        return self.head.give_partitions()


def text(element: Element) -> str:
    match element:
        case Batch():
            return "rows at " + ", ".join(str(at.as_py().microsecond) for at in element.rows.column("at"))
        case Watermark():
            return f"to {element.time_us}"
        case Idle():
            return "idle"
        case EndOfStream():
            return "end"
        case Left():
            return "left"
        case _:
            raise AssertionError(element)


TIMES = {"a": [10, 20, 30], "b": [12, 22, 32]}


def test_rows_are_read_once_and_the_watermark_waits_for_the_partition() -> None:
    source = Timed(TIMES)
    giver, taker = One(source, ["a", "b"]), One(source, [], joins=True)
    assert giver.poll(2) == ["rows at 10", "rows at 12", "to 10"]
    assert taker.poll(3) == [] and not taker.head.ended
    given = giver.give("b")
    giver.head.go_on({}, 0, 2, ["a", "b"])
    taker.head.go_on(given, 1, 2, ["a", "b"])
    assert giver.poll(4) == ["rows at 20", "to 20", "rows at 30", "to 30", "end"]
    # What the one before had said comes first.
    assert taker.poll(4) == ["rows at 22", "to 22", "rows at 32", "to 32", "end"]


def test_what_goes_is_read_until_it_is_past_the_watermark_of_who_takes_it() -> None:
    source = Timed({"a": [10, 20, 30, 40, 50], "b": [35, 45]})
    giver, taker = One(source, ["a"]), One(source, ["b"])
    giver.poll()
    assert taker.poll() == ["rows at 35", "to 35"]
    giver.head.hold_partitions("source[0]")
    above_us = taker.head.hold_partitions("source[1]").watermark_us
    giver.head.handover.stop(["a"], above_us, None)
    told = []
    while not giver.head.has_stopped():
        told += giver.poll()
    assert told == ["rows at 20", "rows at 30", "rows at 40"]
    assert giver.poll(3) == [] and giver.head.wake_ns() is None
    # Meanwhile the other reads on, and says no watermark.
    assert taker.poll() == ["rows at 45"]
    taker.head.go_on(giver.head.give_partitions(), 1, 2, ["a", "b"])
    assert taker.poll() == ["rows at 50", "to 45"]


def test_a_stopped_partition_holds_no_other_source() -> None:
    source = Timed({"a": [10, 20], "b": [30, 40]})
    giver = One(source, ["a", "b"])
    giver.poll(2)
    assert giver.head.progress_us == 10
    giver.head.hold_partitions("source[0]")
    giver.head.handover.stop(["a"], START_OF_TIME_US, None)
    assert giver.head.has_stopped() and giver.head.progress_us == 30
    assert giver.poll() == ["rows at 40"]


def test_one_that_is_idle_is_waited_for_before_it_takes_anything() -> None:
    source = Timed({"a": [10, 20], "b": []}, bounded=False)
    giver, taker = One(source, ["a"]), One(source, ["b"])
    giver.poll()
    taker.poll()
    taker.clock.advance_ns(200 * MS)
    assert taker.poll() == ["idle"]
    assert taker.head.hold_partitions("source[1]").is_idle
    said_us = giver.head.hold_partitions("source[0]").watermark_us
    taker.head.handover.stop([], START_OF_TIME_US, said_us)
    assert list(map(text, taker.head.cut())) == ["to 10"]
    again = One(source, ["b"])
    again.poll()
    again.clock.advance_ns(200 * MS)
    assert again.poll() == ["idle"]
    again.head.hold_partitions("source[1]")
    again.head.handover.stop([], START_OF_TIME_US, START_OF_TIME_US)
    assert list(map(text, again.head.cut())) == [f"to {BEFORE_ALL_US}"]


def test_one_that_has_given_all_ends_or_is_idle_and_one_that_is_dismissed_leaves() -> None:
    ends, leaves = One(Timed(TIMES), ["a", "b"]), One(Timed(TIMES), ["a", "b"])
    stays = One(Timed(TIMES, bounded=False), ["a", "b"])
    for each in (ends, leaves, stays):
        assert sorted(each.give("a", "b")) == ["a", "b"]
        assert each.poll(2) == [] and not each.head.ended
        each.head.go_on({}, 0, 1, ["a", "b"])
    leaves.head.dismiss()
    assert (ends.poll(), leaves.poll(), stays.poll()) == (["end"], ["left"], ["idle"])
    assert ends.head.positions() == {}


def test_a_drain_waits_until_partitions_are_where_they_go() -> None:
    giver, taker = One(Timed(TIMES), ["a", "b"]), One(Timed(TIMES), [], joins=True)
    giver.poll(2)
    giver.head.hold_partitions("source[0]")
    giver.head.handover.stop(["b"], 1_000_000, None)
    assert not giver.head.has_stopped()
    for each in (giver, taker):
        each.head.stop(drain=True)
        assert each.head.wake_ns() is None
    assert giver.head.has_stopped()
    taker.head.go_on(giver.head.give_partitions(), 1, 2, ["a", "b"])
    giver.head.go_on({}, 0, 2, ["a", "b"])
    assert giver.poll()[-1] == taker.poll()[-1] == "end"
    assert taker.head.positions()["b"]["at"] == 1


def test_an_ended_partition_goes_along_and_stays_at_its_end() -> None:
    giver, taker = One(Timed({"a": [10], "b": [12, 22]}), ["a", "b"]), One(Timed(TIMES), [], joins=True)
    giver.poll(3)
    held = giver.head.hold_partitions("source[0]")
    assert (held.live, held.ended) == (("b",), ("a",))
    giver.head.handover.stop(["a", "b"], START_OF_TIME_US, None)
    assert giver.head.has_stopped()
    taker.head.go_on(giver.head.give_partitions(), 0, 1, ["a", "b"])
    positions = taker.head.positions()
    assert (positions["a"]["ended"], positions["b"]["ended"]) == (True, False)


def test_an_exhausted_source_that_is_given_a_partition_reads_it() -> None:
    source = Timed({"a": [10], "b": [12, 22]})
    taker, giver = One(source, ["a"], keeps=True), One(source, ["b"], keeps=True)
    taker.poll(2)
    assert taker.head.exhausted
    taker.head.hold_partitions("source[0]")
    assert not taker.head.exhausted
    taker.head.go_on(giver.give("b"), 0, 1, ["a", "b"])
    assert [said for said in taker.poll(4) if "rows" in said] == ["rows at 12", "rows at 22"]


def test_new_partitions_are_found_by_one_of_those_that_stay() -> None:
    found: list[str] = []
    for index in range(3):
        source = Timed({"a": []}, bounded=False, since=[f"new {number}" for number in range(20)])
        one = One(source, ["a"])
        # It has seen them as those of others.
        one.poll()
        one.head.hold_partitions("source[0]")
        one.head.go_on({}, index, 3, ["a"])
        fresh = One(source, [], joins=True)
        fresh.head.go_on({}, index, 3, ["a"])
        fresh.poll()
        found += fresh.head.positions()
    assert sorted(found) == sorted(f"new {number}" for number in range(20))
