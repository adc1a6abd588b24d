import dataclasses
import datetime
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.local.iterable import IterableSource
from penstock.engine.connectors.local.puller import BOUND_ROWS
from penstock.model.connectors import NOTHING, Read, Reader
from penstock.model.errors import SchemaError, UserError
from tests.engine.connectors.reading import read_all

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us"))])


@dataclasses.dataclass
class Item:
    a: int
    s: str = "item"


def test_mappings_dataclasses_and_batches() -> None:
    batch = pa.table({"a": [3, 4], "s": ["x", "y"], "t": pa.nulls(2, pa.timestamp("us"))})
    items = [{"a": 1, "zz": 5}, Item(2), batch, {"t": 0}]
    got = read_all(IterableSource(items, SCHEMA))
    assert got.column("a") == [1, 2, 3, 4, None]
    assert got.column("s") == [None, "item", "x", "y", None]
    assert got.column("t")[-1] == datetime.datetime(1970, 1, 1)
    assert read_all(IterableSource(items, SCHEMA).restrict(["s"], None)).rows[1] == {"s": "item"}


@pytest.mark.parametrize(
    ("item", "raw"),
    [
        ({"a": "x"}, b'{"a":"x"}'),
        ({"a": 1.5}, b'{"a":1.5}'),
        ({"a": 2**70}, b'{"a":%d}' % 2**70),
        ({"s": 5}, b'{"s":5}'),
        ({"s": b"\xff"}, b'{"s":"/w=="}'),
        ({"s": "\ud800"}, b"{'s': '\\ud800'}"),
        ({"t": "soon"}, b'{"t":"soon"}'),
        (7, b"7"),
    ],
)
def test_an_item_that_does_not_fit_is_a_raw_record(item: Any, raw: bytes) -> None:
    got = read_all(IterableSource([{"a": 1}, item, {"a": 2}], SCHEMA))
    assert got.column("a") == [1, 2]
    assert [(record.raw, record.position) for record in got.rejected] == [(raw, "item 2")]


def test_batches_that_do_not_fit_end_the_job() -> None:
    with pytest.raises(SchemaError, match="'s' is missing"):
        read_all(IterableSource([pa.table({"a": [1]})], SCHEMA))


def test_an_exception_in_the_iterator_ends_the_job() -> None:
    def failing() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise ValueError("no more")

    with pytest.raises(UserError, match="items of failing raised ValueError after 1 items: no more"):
        read_all(IterableSource(failing, SCHEMA))
    with pytest.raises(UserError, match="items of int cannot be iterated over"):
        IterableSource(5, SCHEMA).open("0/1", None)  # type: ignore[arg-type]


def test_an_iterator_that_blocks_is_not_waited_for() -> None:
    go_on = threading.Event()

    def blocking() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        go_on.wait()
        yield {"a": 2}
        raise AssertionError("asked again after it was closed")

    source = IterableSource(blocking, SCHEMA, bounded=False)
    assert not source.bounded
    others = threading.enumerate()
    reader = source.open("0/1", None)
    assert set(threading.enumerate()) <= set(others)
    assert [read.rows.num_rows for read in reads(reader, 1) if read.rows] == [1]
    assert reader.position() == {"items": 1, "rows": 0}
    assert [reader.read(10) for _ in range(3)] == [NOTHING] * 3
    [thread] = set(threading.enumerate()) - set(others)
    reader.close()
    assert thread.is_alive() and thread.daemon
    go_on.set()
    thread.join(30)
    assert not thread.is_alive()


def test_none_means_nothing_now() -> None:
    asked: list[int] = []

    def items() -> Iterator[dict[str, int] | None]:
        for number, item in enumerate([{"a": 1}, None, None, {"a": 2}]):
            asked.append(number)
            yield item

    reader = IterableSource(items, SCHEMA).open("0/1", None)
    got = list(reads(reader, 1))
    assert sum(read.rows.num_rows for read in got if read.rows) == 1
    assert asked[-1] < 3, "the item behind a None is asked for once the None was taken"
    assert sum(read.rows.num_rows for read in reads(reader, 2) if read.rows) == 1
    assert reader.position() == {"items": 2, "rows": 0}, "how often nothing is there differs from run to run"


def test_items_before_an_exception_are_delivered_and_no_more_than_the_bound_is_pulled_ahead() -> None:
    pulled = 0

    def failing() -> Iterator[dict[str, int]]:
        nonlocal pulled
        for pulled in range(300_000):
            yield {"a": pulled}
        raise ValueError("no more")

    source = IterableSource(failing, SCHEMA)
    reader, taken = source.open("0/1", None), 0
    with pytest.raises(UserError, match="raised ValueError after 300000 items: no more"):
        for read in reads(reader, 300_001):
            taken += read.rows.num_rows if read.rows else 0
            assert pulled - taken <= BOUND_ROWS + 1000
    assert taken == 300_000
    with pytest.raises(UserError, match="raised ValueError after 300000 items: no more"):
        list(reads(source.open("0/1", {"items": 300_001, "rows": 0}), 1))


def reads(reader: Reader, rows: int) -> Iterator[Read]:
    """Read until so many rows have come, or the end."""
    for _ in range(100_000_000):
        read = reader.read(1000)
        yield read
        rows -= read.rows.num_rows if read.rows else 0
        if rows <= 0 or read.ended:
            return
    raise AssertionError("the rows did not come")


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 3))
def test_a_restartable_iterable_goes_on_from_any_position(max_rows: int, stop_after: int) -> None:
    def items() -> Iterator[Any]:
        for number in range(0, 40, 8):
            yield {"a": number}
            yield pa.table({"a": range(number + 1, number + 6), "s": ["x"] * 5, "t": pa.nulls(5, pa.timestamp("us"))})
            yield {"a": "bad"}
            yield {"a": number + 6}
            yield {"a": number + 7}

    got = read_all(IterableSource(items, SCHEMA), max_rows, 1, stop_after)
    assert got.column("a") == list(range(40))
    assert len(got.rejected) == 5


def test_arrow_items_without_rows_are_passed_over() -> None:
    empty = SCHEMA.empty_table()
    assert read_all(IterableSource([empty, empty, {"a": 1}, empty], SCHEMA)).column("a") == [1]
