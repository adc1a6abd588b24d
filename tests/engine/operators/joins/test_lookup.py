"""Lookups of side tables: pairs, null keys, outer rows, and tables that are read again."""

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.connectors.local.lookup_tables import FunctionTable, SourceTable
from penstock.engine.connectors.local.memory import MemorySource
from penstock.engine.core.elements import Batch
from penstock.engine.operators.joins.lookup import Lookup
from penstock.model.connectors import RawRecord, Read, Reader
from penstock.model.errors import BadRecordError, PlanError
from penstock.model.expressions import col
from penstock.model.join_specs import LookupSpec
from penstock.model.schema import StreamSchema
from tests.engine.restarts import RESTARTS, Restarting
from tests.engine.support import Collected, ManualClock, collect, open_operator

LEFT = pa.schema({"id": pa.int64(), "code": pa.int64()})
TABLE = pa.schema({"code": pa.int32(), "text": pa.string()})
Rows = list[dict[str, Any]]


def lookup(
    table: Rows | FunctionTable, how: str = "inner", batch_rows: int = 4, clock: ManualClock | None = None
) -> Lookup:
    side = SourceTable(MemorySource(table, TABLE)) if isinstance(table, list) else table
    output = (("id", 0, "id"), ("code", 0, "code"), ("text", 1, "text"))
    spec = LookupSpec((col("code"),), side, ("code",), output, how)
    return open_operator(Lookup(spec, StreamSchema(LEFT), "op"), batch_rows=batch_rows, clock=clock)


def batch(codes: list[int | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": i, "code": code} for i, code in enumerate(codes)], schema=LEFT)


codes = st.lists(st.none() | st.integers(0, 5), max_size=20)


@given(codes=codes, keys=codes, how=st.sampled_from(["inner", "left"]), batch_rows=st.integers(1, 7), cuts=RESTARTS)
def test_every_pair_in_order(
    codes: list[int | None], keys: list[int | None], how: str, batch_rows: int, cuts: list[str]
) -> None:
    table = [{"code": key, "text": f"t{i}"} for i, key in enumerate(keys)]
    operator = open_operator(Restarting(lambda: lookup(table, how), cuts), batch_rows=batch_rows)
    rows = batch(codes)
    found = collect(operator, [rows.slice(start, 8) for start in range(0, rows.num_rows, 8)])
    expected = []
    for i, code in enumerate(codes):
        texts = [row["text"] for row in table if code is not None and row["code"] == code]
        if how == "left" and not texts:
            texts = [None]
        expected += [{"id": i, "code": code, "text": text} for text in texts]
    assert found.rows() == expected
    assert all(rows.num_rows <= batch_rows for rows in found.batches.get("main", []))


def test_rows_are_counted_in_numbers_that_a_checkpoint_can_hold() -> None:
    operator = lookup([{"code": 1, "text": "a"}, {"code": 1, "text": "b"}])
    collect(operator, [batch([1, None, 1, 2]), batch([1])])
    counters = operator.context.counters
    assert (counters.rows_in, counters.passed, counters.filtered) == (5, 3, 2)
    assert {type(count) for count in (counters.rows_in, counters.passed, counters.filtered)} == {int}


def test_a_pair_of_types_that_cannot_be_equal_is_refused() -> None:
    table = SourceTable(MemorySource([{"code": "a", "text": "b"}]))
    output = (("id", 0, "id"), ("text", 1, "text"))
    with pytest.raises(PlanError, match="cast one of them"):
        Lookup(LookupSpec((col("code"),), table, ("code",), output), StreamSchema(LEFT), "op")


def test_an_updating_stream_is_refused() -> None:
    table = SourceTable(MemorySource([{"code": 1, "text": "b"}], TABLE))
    with pytest.raises(PlanError, match="updating stream"):
        Lookup(
            LookupSpec((col("code"),), table, ("code",), (("id", 0, "id"),)), StreamSchema(LEFT, changelog=True), "op"
        )


class Versions:
    """A table that is another at every reading, read when the test lets it."""

    def __init__(self, readings: list[Callable[[], Any]]) -> None:
        self._readings = iter(readings)
        self.permission = threading.Semaphore(1)

    def __call__(self) -> Any:
        assert self.permission.acquire(timeout=30)
        return next(self._readings)()


def fail() -> Any:
    raise OSError("the disk is gone")


def wait_for_reading(operator: Lookup) -> None:
    """Let the thread that reads the table come to its end."""
    for thread in threading.enumerate():
        if thread.name == "penstock-lookup":
            thread.join(30)
            assert not thread.is_alive()


def texts(operator: Lookup) -> list[Any]:
    collected = Collected()
    collected.add(operator.process(0, Batch(batch([1]))))
    return [row["text"] for row in collected.rows()]


def test_the_table_is_read_again_while_rows_go_on(caplog: pytest.LogCaptureFixture) -> None:
    versions = Versions([lambda: [{"code": 1, "text": "old"}], lambda: [{"code": 1, "text": "new"}], fail])
    clock = ManualClock()
    operator = lookup(FunctionTable(versions, TABLE, refresh_us=5_000_000), clock=clock)
    assert texts(operator) == ["old"]
    due_ns = operator.timer_ns()
    assert due_ns == 5_000_000_000
    clock.advance_ns(due_ns)
    operator.on_timer(clock.monotonic_ns())
    # The new table is not whole yet.
    assert texts(operator) == ["old"]
    versions.permission.release()
    wait_for_reading(operator)
    assert texts(operator) == ["new"]
    assert operator.timer_ns() == 10_000_000_000
    clock.advance_ns(5_000_000_000)
    versions.permission.release()
    operator.on_timer(clock.monotonic_ns())
    wait_for_reading(operator)
    assert texts(operator) == ["new"]
    assert operator.failed_refreshes == 1
    assert "goes on with the table it has" in caplog.text


class Unreadable(Reader):
    """Has one record, which cannot be read."""

    def read(self, max_rows: int) -> Read:
        return Read(ended=True, rejected=[RawRecord(b"x", "line 3", "no number")])

    def position(self) -> Any:
        return None


class Broken(MemorySource):
    def open(self, partition: str, position: Any | None) -> Reader:
        return Unreadable()


def test_a_bad_record_refuses_the_table() -> None:
    with pytest.raises(BadRecordError, match="line 3: no number"):
        SourceTable(Broken([{"code": 1, "text": "a"}], TABLE)).load()
