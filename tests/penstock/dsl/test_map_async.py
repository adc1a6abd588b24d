"""`map_async` as users write it: real coroutines, real time."""

import asyncio
import itertools
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.core import async_calls
from penstock.model.errors import BadRecordError, OptionError, PlanError
from tests.penstock.front_door import NOON, Row, dead_letters, line, noon, orders, rows
from tests.penstock.runs.test_interrupt import LONG_S


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Service:
    """Counts who is being served."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def ask(self, x: int) -> Row:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(x % 4):
            await asyncio.sleep(0)
        self.now -= 1
        return {"x": x, "y": -x}


def numbers(count: int, job: Job) -> ps.Stream:
    return ps.read_memory(pa.table({"x": range(count)}), job=job)


@pytest.mark.fixed_settings("parallelism", "state_bytes")
@pytest.mark.parametrize("ordered", [True, False])
def test_many_calls_at_a_time_but_no_more_than_allowed(ordered: bool) -> None:
    service = Service()
    job = Job()
    asked = numbers(10_000, job).map_async(service.ask, {"x": int, "y": int}, capacity=500, ordered=ordered)
    result = asked.name("ask").collect()
    metrics = job.run("many", batch_rows=3_000)
    found = [(row["x"], row["y"]) for row in result.rows()]
    expected = [(x, -x) for x in range(10_000)]
    assert (found if ordered else sorted(found)) == expected
    assert 1 < service.most <= 500
    assert line(metrics, "ask") == {"rows_in": 10_000, "passed": 10_000, "rows_out": 10_000}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_one_behind_the_other_in_a_chain_that_multiplies_rows(parallelism: int) -> None:
    first, second = Service(), Service()
    job = Job()
    many = numbers(40, job).flat_map(lambda x: [{"x": x}] * (x % 50), {"x": int})
    asked = many.map_async(first.ask, {"x": int, "y": int}, capacity=7, ordered=False)
    again = asked.map_async(second.ask, {"x": int, "y": int}, capacity=3)
    result = again.key_by("x").agg(rows=ps.count()).collect()
    job.run("chained", parallelism=parallelism, batch_rows=16, channel_bytes=100)
    assert {row["x"]: row["rows"] for row in result.rows()} == {x: x for x in range(1, 40)}
    assert first.most <= 7 * parallelism
    assert second.most <= 3 * parallelism


def test_the_function_takes_a_row_and_returns_what_its_annotation_says() -> None:
    @dataclass
    class Priced:
        item: str
        total: int

    async def priced(row: Row) -> Priced:
        if row["price"] is None:
            raise ValueError("no price")
        return Priced(row["item"], row["price"] * 2)

    assert rows(orders().filter(ps.col("price") != 2).map_async(priced)) == [
        {"item": "ink", "total": 16},
        {"item": "pen", "total": 6},
        {"item": "pen", "total": 8},
        {"item": "pen", "total": 10},
    ]


def test_event_time_goes_on_behind_it() -> None:
    async def later(row: Row) -> Row:
        await asyncio.sleep(0)
        if row["price"] == 5:
            return {**row, "at": None}
        return row

    job = Job()
    windows = orders(job).map_async(later).name("later").window(ps.tumbling("10s")).agg(rows=ps.count())
    result = windows.collect()
    metrics = job.run("timed", batch_rows=1, directory="out")
    assert [(row["window_start"], row["rows"]) for row in result.rows()] == [(NOON, 2), (noon(10), 2), (noon(20), 1)]
    assert metrics.ledger.late == 0
    (letter,) = dead_letters(Path("out"))
    assert letter["error"] == "in the result, event time column 'at' is null"


def test_a_call_that_is_never_answered_is_given_up() -> None:
    attempts: list[int] = []

    async def silent(x: int) -> Row:
        attempts.append(x)
        await asyncio.Event().wait()
        return {"x": x}

    job = Job()
    result = numbers(2, job).map_async(silent, timeout="20ms", retries=1).collect()
    metrics = job.run("silent", directory="out", max_dead_letters="any")
    assert result.rows() == []
    assert sorted(attempts) == [0, 0, 1, 1]
    assert metrics.ledger.dead_lettered == 2
    errors = {letter["error"] for letter in dead_letters(Path("out"))}
    assert errors == {"no answer within 20ms, the last of 2 attempts"}


async def odd_fails(x: int) -> Row:
    if x % 2:
        raise ValueError(f"{x} is odd")
    return {"x": x}


def test_bad_rows_can_be_skipped_or_end_the_job() -> None:
    job = Job()
    result = numbers(4, job).map_async(odd_fails, on_error="skip").collect()
    assert job.run("skip", directory="out").ledger.dead_lettered == 2
    assert [row["x"] for row in result.rows()] == [0, 2]
    assert dead_letters(Path("out")) == []
    job = Job()
    numbers(4, job).map_async(odd_fails, on_error="fail").collect()
    with pytest.raises(BadRecordError, match="1 is odd"):
        job.run("fail")
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-async"]


def test_bad_rows_can_be_a_stream() -> None:
    job = Job()
    asked = numbers(4, job).map_async(odd_fails)
    letters = asked.side_output("dead_letter").collect()
    result = asked.collect()
    job.run("letters")
    assert [row["x"] for row in result.rows()] == [0, 2]
    assert sorted(row["text"] for row in letters.rows()) == ['{"x":1}', '{"x":3}']


@pytest.mark.parametrize("drain", [True, False])
def test_a_stop_waits_for_what_was_read(drain: bool) -> None:
    asked, answer = threading.Event(), threading.Event()
    endless = threading.Event()

    def source() -> Any:
        yield {"x": 1}
        yield {"x": 2}
        endless.wait()

    async def slow(x: int) -> Row:
        if x == 2:
            asked.set()
        while not answer.is_set():
            await asyncio.sleep(0.001)
        return {"x": x}

    job = Job()
    result = ps.read_iterable(source, schema={"x": int}, job=job).map_async(slow, capacity=2).collect()
    handle = job.start("stopped")
    try:
        assert asked.wait(LONG_S)
        threading.Timer(0.02, answer.set).start()
        metrics = handle.stop(drain=drain)
    finally:
        endless.set()
    assert [row["x"] for row in result.rows()] == [1, 2]
    assert metrics.ledger.dead_lettered == 0


def test_ctrl_c_waits_for_what_was_read() -> None:
    service = Service()
    interrupting: list[int] = []
    written = 0

    def interrupt(rows: pa.RecordBatch) -> None:
        nonlocal written
        written += rows.num_rows
        if not interrupting:
            interrupting.append(1)
            signal.raise_signal(signal.SIGINT)

    job = Job()
    source = ps.read_iterable(({"x": x} for x in itertools.count()), schema={"x": int}, job=job)
    source.map_async(service.ask, {"x": int, "y": int}, capacity=50).for_each_batch(interrupt)
    metrics = job.run("interrupted", batch_rows=100)
    assert interrupting
    assert written == metrics.source_rows < 100_000
    assert service.now == 0


def test_a_failure_cancels_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_calls, "STOP_S", 60.0)
    begun, cancelled = threading.Event(), threading.Event()

    async def ask(x: int) -> Row:
        if x == 1:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
        while not begun.is_set():
            await asyncio.sleep(0)
        return {"x": x}

    def fail(x: int) -> Row:
        raise ValueError("failed")

    job = Job()
    numbers(3, job).map_async(ask).map(fail, on_error="fail").collect()
    with pytest.raises(BadRecordError, match="failed"):
        job.run("failure")
    assert cancelled.is_set()


def test_it_says_what_it_wants() -> None:
    stream = numbers(1, Job())

    def plain(x: int) -> Row:
        return {"x": x}

    with pytest.raises(PlanError, match="takes an async function"):
        stream.map_async(plain)
    with pytest.raises(OptionError, match="capacity"):
        stream.map_async(odd_fails, capacity=0)
    with pytest.raises(OptionError, match="retries"):
        stream.map_async(odd_fails, retries=-1)
    with pytest.raises(OptionError, match="timeout"):
        stream.map_async(odd_fails, timeout=0)
