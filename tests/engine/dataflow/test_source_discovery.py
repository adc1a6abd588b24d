"""Partitions that come while a source is read: one instance reads each, and it holds nothing back without rows."""

from collections.abc import Sequence
from itertools import chain, repeat

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import Batch, Element, Idle, Watermark
from penstock.engine.dataflow.source_discovery import SourceDiscovery, discovery_of
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.model.connectors import NOTHING, Read
from penstock.model.errors import RetryableError
from penstock.model.schema import TimeColumn
from tests.engine.scripted import MS, Scripts, Step, rows
from tests.engine.support import ManualClock, Rejected


class Growing(Scripts):
    """Endless partitions, of which some come later."""

    discovery_us = 50_000

    def __init__(self, steps: dict[str, Sequence[Step]], first: Sequence[str]) -> None:
        super().__init__({name: chain(known, repeat(NOTHING)) for name, known in steps.items()}, bounded=False)
        self.there = list(first)
        self.down = False

    def partitions(self, parallelism: int) -> list[str]:
        return list(self.there)

    def partitions_since(self, known: Sequence[str]) -> Sequence[str]:
        if self.down:
            raise RetryableError("nobody answers")
        return [name for name in self.there if name not in known]


class Head:
    def __init__(self, source: Growing, index: int = 0, parallelism: int = 1) -> None:
        self.clock = ManualClock()
        known = source.partitions(parallelism)
        self.head = SourceHead(
            SourceStream("source", source, TimeColumn("at"), 0),
            SourceStart(known[index::parallelism], discovery=discovery_of(source, index, parallelism, known)),
            ReadPace(8, linger_ns=0, idle_timeout_ns=100 * MS),
            clock=self.clock,
            counters=RowCounters(),
            dead_letters=Rejected(),
        )

    def poll(self, times: int = 1) -> list[str]:
        told: list[str] = []
        for _ in range(times):
            for element in self.head.poll():
                told.append(_text(element))
            self.clock.advance_ns(2 * MS)
        return told


def _text(element: Element) -> str:
    match element:
        case Batch():
            return f"{element.rows.num_rows} rows"
        case Watermark():
            return f"to {element.time_us}"
        case Idle():
            return "idle"
        case _:
            raise AssertionError(element)


def test_a_new_partition_is_read_and_holds_no_watermark_back() -> None:
    source = Growing({"a": [rows(10)], "b": [NOTHING, rows(20)]}, ["a"])
    head = Head(source)
    assert head.poll(2) == ["1 rows", "to 10"]
    source.there.append("b")
    source.down = True
    assert head.poll(30) == []
    source.down = False
    assert head.poll(40) == ["1 rows", "to 20"]
    assert set(head.head.positions()) == {"a", "b"}


def test_an_instance_without_partitions_is_idle_and_waits_for_one() -> None:
    source = Growing({"a": [rows(10)]}, [])
    head = Head(source)
    assert head.poll() == ["idle"]
    assert head.poll() == []
    assert head.head.wake_ns() == 50 * MS
    source.there.append("a")
    head.clock.advance_ns(50 * MS)
    assert head.poll(2) == ["1 rows", "to 10"]
    assert not head.head.ended


def test_a_partition_out_of_reach_is_not_idle() -> None:
    source = Growing({"a": [rows(10), *[Read(out_of_reach=True, again_us=1_000)] * 100]}, ["a"])
    head = Head(source)
    assert head.poll(90) == ["1 rows", "to 10"]
    assert head.poll(120) == ["idle"]


@given(st.lists(st.text(min_size=1, max_size=6), unique=True), st.integers(1, 4), st.data())
def test_every_new_partition_has_one_owner_whoever_sees_it_when(
    names: list[str], parallelism: int, data: st.DataObject
) -> None:
    known = names[: data.draw(st.integers(0, len(names)))]
    source = Growing({}, known)
    views = [SourceDiscovery(source, index, parallelism, known) for index in range(parallelism)]
    owners: dict[str, int] = {}
    for _ in range(3):
        for index in data.draw(st.permutations(range(parallelism))):
            source.there = names[: data.draw(st.integers(len(known), len(names)))]
            views[index].due_ns = 0
            for name in views[index].find(0):
                assert name not in owners
                assert name not in known
                owners[name] = index
                views[index].opened(name)
    source.there = names
    for index, view in enumerate(views):
        view.due_ns = 0
        for name in view.find(0):
            assert name not in owners
            owners[name] = index
            view.opened(name)
    assert set(owners) == set(names) - set(known)


@pytest.mark.parametrize("bounded", [True, False])
def test_only_endless_sources_that_ask_for_it_are_watched(bounded: bool) -> None:
    assert discovery_of(Scripts({}, bounded=bounded), 0, 1, []) is None
    source = Growing({}, [])
    source.bounded = bounded
    assert (discovery_of(source, 0, 1, []) is None) == bounded
    assert source.schema.field("at").type == pa.timestamp("us")
