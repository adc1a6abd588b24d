"""What is slow and no core, in jobs that run: a source is held back, or a steady share is kept."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.handle import Handle
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_overload import Peak, dear

pytestmark = pytest.mark.long("seconds of overload; tests/engine/control/test_slow_parts.py closes the loop in a model")

EXECUTORS: dict[str, dict[str, Any]] = {"embedded": {}, "processes": {"executor": "processes", "task_managers": 1}}
CONTROL = ps.Control(shed="qod", mode="act", period_s=1)
PER_S = 1_000
"""Rows that come in a second."""

LOOKS = 20
"""Cycles that are looked at."""


class Trickle(ps.Sink):
    """Has room for a few rows now and then, and makes nobody wait within a call."""

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> ps.Writer:
        return _Trickle()


class _Trickle(ps.Writer):
    def __init__(self) -> None:
        self._free_s = 0.0

    def write(self, rows: pa.RecordBatch) -> None:
        self._free_s = time.monotonic() + rows.num_rows * 5 / PER_S

    def has_room(self) -> bool:
        return time.monotonic() >= self._free_s


class Flushes:
    """A disk that every two seconds takes half of one for what it had only noted; the loop stands still meanwhile."""

    def __init__(self) -> None:
        self._due_s = 0.0

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + 2.0
            while time.monotonic() < now_s + 0.5:
                pass
        return dear(rows, row_ns=2_000_000)


async def answer(row: dict[str, Any]) -> dict[str, Any]:
    """Answer after a while, as a service does: of ten calls at a time a hundred a second."""
    await asyncio.sleep(0.1)
    return row


def slow_sink(rows: ps.Stream) -> Any:
    return rows.write(Trickle())


def slow_call(rows: ps.Stream) -> Any:
    return rows.map_async(answer, capacity=10).name("service").write_black_hole()


def slow_disk(rows: ps.Stream) -> Any:
    return rows.map_batches(Flushes()).name("disk").write_black_hole()


def start(folder: Path, behind: Callable[[ps.Stream], Any], executor: str) -> Handle:
    job = ps.Job()
    rows = ps.read(Peak(PER_S, 1e9), job=job).name("due")
    behind(rows).name("sink").with_min_accuracy(0.05)
    return job.start("slow", control=CONTROL, batch_rows=20, directory=folder, **EXECUTORS[executor])


def rates(handle: Handle) -> list[float]:
    """Return the rates of the source that were in force while so many cycles' rows came."""
    found: list[float] = []
    read = handle.metrics().source_rows

    def has_seen_all() -> bool:
        metrics = handle.metrics()
        if metrics.shedding is not None:
            found.append(dict(metrics.shedding.sources).get("due", 1.0))
        return metrics.source_rows > read + LOOKS * PER_S

    until(has_seen_all, handle)
    return found


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("behind", [slow_sink, slow_call])
def test_what_makes_rows_wait_holds_the_source_back(tmp_path: Path, behind: Any, executor: str) -> None:
    handle = start(tmp_path, behind, executor)

    def has_fallen_behind() -> bool:
        waiting = [each.messages for source in handle.metrics().sources for each in source.partitions]
        return sum(waiting) > 10 * PER_S

    until(has_fallen_behind, handle)
    metrics = handle.stop()
    assert metrics.ledger.shed == 0
    assert metrics.shedding is not None and metrics.shedding.sources == ()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_stands_in_the_loops_way_ends_in_a_steady_share(tmp_path: Path, executor: str) -> None:
    handle = start(tmp_path, slow_disk, executor)
    until(lambda: handle.metrics().ledger.shed > 5 * PER_S, handle)
    found = rates(handle)
    handle.stop()
    # Of two cores' worth of rows one takes three quarters of half; a swing of guard and controller would reach 1, and
    # one that lowers only what is lower already would end at the minimum.
    assert median(found) > 0.1 and max(found) < 0.75, found
