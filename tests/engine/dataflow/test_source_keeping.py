"""A source that keeps its watermark when it has read all there is: what it promises, and what holds it back."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import START_OF_TIME_US, Element, EndOfStream, Idle, Watermark
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.restore.source_positions import restored_partitions
from penstock.model.errors import UserError
from penstock.model.schema import TimeColumn
from tests.engine.restore.test_source_positions import Timed
from tests.engine.scripted import MS
from tests.engine.support import ManualClock, Rejected


class Growing(Timed):
    """As a topic: partitions that ended may go on."""

    grows = True
    partitions_grow = True


def head_of(
    source: Timed, positions: dict[str, Any] | None = None, *, keeps: bool = True, closed: bool = False
) -> SourceHead:
    known = positions or {}
    return SourceHead(
        SourceStream("source", source, TimeColumn("at"), 2),
        SourceStart(restored_partitions(source, 1, known), known, closed=closed),
        ReadPace(16, linger_ns=10 * MS, idle_timeout_ns=100 * MS, keeps=keeps),
        clock=ManualClock(),
        counters=RowCounters(),
        dead_letters=Rejected(),
    )


def exhaust(head: SourceHead) -> list[Element]:
    said: list[Element] = []
    for _ in range(50):
        said += head.poll()
    assert head.exhausted and not head.ended
    assert head.wake_ns() is None
    return said


def watermarks(said: Sequence[Element]) -> list[int]:
    return [element.time_us for element in said if isinstance(element, Watermark)]


def test_nothing_ends_and_the_watermark_stays() -> None:
    head = head_of(Growing({"a": [[10], [30]]}))
    said = exhaust(head)
    assert watermarks(said) == [28]
    assert not any(isinstance(element, EndOfStream) for element in said)
    assert {item["watermark_us"] for item in head.positions().values()} == {28}
    # A drain closes what is open all the same.
    head.stop(drain=True)
    assert head.wake_ns() == 0
    assert list(head.poll()) == [EndOfStream(drained=True)]


def test_a_partition_that_may_go_on_holds_the_others() -> None:
    assert watermarks(exhaust(head_of(Growing({"a": [[10]], "b": [[50]]}))))[-1] == 8


@pytest.mark.parametrize("kind", [Timed, Growing])
def test_files_that_ended_and_partitions_without_rows_hold_nothing(kind: type[Timed]) -> None:
    partitions: dict[str, Any] = {"a": [[10]], "b": [[50]]} if kind is Timed else {"a": [], "b": [[50]]}
    said = exhaust(head_of(kind(partitions)))
    assert watermarks(said)[-1] == 48
    assert isinstance(said[-1], Idle) == (kind is Timed)


def test_a_partition_that_is_silent_for_a_run_holds_nothing_in_it() -> None:
    source = Growing({"a": [[10]], "b": [[20]]})
    head = head_of(source)
    exhaust(head)
    positions = head.positions()
    source.reads = {"a": [[10]], "b": [[20], [90]]}
    said = exhaust(head_of(source, positions))
    assert watermarks(said) == [18, 88]


def test_an_ended_partition_goes_on_where_it_may() -> None:
    for kind, opened in ((Growing, ["a"]), (Timed, [])):
        source = kind({"a": [[10]]})
        head = head_of(source)
        exhaust(head)
        source.opened.clear()
        exhaust(head_of(source, head.positions()))
        assert source.opened == opened


def test_rows_are_refused_behind_what_was_closed() -> None:
    source = Growing({"a": [[10]]})
    head = head_of(source, keeps=False)
    while not head.ended:
        list(head.poll())
    exhaust(head_of(source, head.positions(), closed=True))
    source.reads = {"a": [[10], [20]]}
    with pytest.raises(UserError, match="source 'source' has new rows, but the run before closed all windows"):
        exhaust(head_of(source, head.positions(), closed=True))
    afresh = head_of(source, head.positions())
    assert afresh.watermark_us == START_OF_TIME_US
    assert watermarks(exhaust(afresh)) == [18]
