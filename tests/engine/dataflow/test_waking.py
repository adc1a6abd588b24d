"""An idle job sleeps until something comes from outside, and then looks only at whom it came for."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.dsl.aggregates import count
from penstock.dsl.job import Job
from penstock.dsl.readers import read_iterable
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.core.elements import Barrier
from penstock.engine.dataflow.worker import Done, Ran, Waiting
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions

LONG_NS = 1_000_000_000
"""So long an idle loop may at least sleep; sources that were polled every millisecond never let it."""


class Silent:
    """A job whose iterable gives a row whenever the test says so."""

    def __init__(self, folder: Path, parallelism: int = 1) -> None:
        self.more = threading.Semaphore(0)
        self.over = False
        job = Job()
        rows = read_iterable(self._items, schema={"k": int}, bounded=False, job=job)
        self.sink = MemorySink()
        rows.key_by("k").agg(n=count()).write(self.sink, mode="upsert", key="k")
        self.job = EmbeddedJob(JobPlan("silent", job.plan(parallelism), LoopOptions(linger_ms=0), folder))

    def _items(self) -> Iterator[dict[str, Any]]:
        while True:
            self.more.acquire()
            if self.over:
                return
            yield {"k": 1}

    def sleeps(self) -> int | None:
        """Turn the loop as the shell around it does, until it can sleep for long; return until when."""
        while True:
            outcome = self.job.worker.step()
            assert not isinstance(outcome, Done)
            if isinstance(outcome, Waiting):
                until_ns = outcome.until_ns
                if until_ns is None or until_ns - self.job.attempt._clock.monotonic_ns() > LONG_NS:
                    return until_ns
                self.job.attempt._wait(until_ns)

    def until(self, count_of_rows: int) -> None:
        """Turn the loop until so many rows were counted; only a wake can make it look at the source again."""
        while self.sleeps() and self._counted() < count_of_rows:
            self.job.attempt._wakened.get(timeout=30)

    def _counted(self) -> int:
        return max((row["n"] for row in self.sink.rows()), default=0)

    def end(self) -> None:
        self.over = True
        self.more.release()
        self.job.run()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_an_idle_loop_sleeps_until_its_source_wakes_it(tmp_path: Path, parallelism: int) -> None:
    silent = Silent(tmp_path, parallelism)
    for number in range(1, 4):
        silent.sleeps()
        silent.more.release()
        silent.until(number)
    silent.end()


def test_a_stop_and_a_barrier_wake_a_source(tmp_path: Path) -> None:
    silent = Silent(tmp_path)
    silent.sleeps()
    [source] = [item for item in silent.job.worker.instances if item.head is not None]
    source.inject(Barrier(1))
    assert silent.job.worker.step() == Ran(source.name)
    silent.sleeps()
    source.end_input(drain=False)
    assert silent.job.worker.step() == Ran(source.name)
    silent.end()


def test_time_spent_while_asleep_is_waited_for_input(tmp_path: Path) -> None:
    silent = Silent(tmp_path)
    silent.sleeps()
    began_ns = silent.job.attempt._clock.monotonic_ns()
    before = [item.accounting.spent(began_ns) for item in silent.job.worker.instances]
    silent.more.release()
    silent.job.attempt._wakened.get(timeout=30)
    now_ns = silent.job.attempt._clock.monotonic_ns()
    for item, spent in zip(silent.job.worker.instances, before, strict=True):
        after = item.accounting.spent(now_ns)
        assert after.input_wait_ns - spent.input_wait_ns == now_ns - began_ns == after.wall_ns - spent.wall_ns
    silent.end()


def test_a_checkpoint_goes_through_a_job_that_sleeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for is done at once, though nobody would look again for long."""
    monkeypatch.setattr("penstock.engine.executors.embedded_attempt.LONGEST_WAIT_S", 600.0)
    job, more = Job(), threading.Event()

    def items() -> Iterator[dict[str, Any]]:
        yield {"k": 1}
        more.wait()

    rows = read_iterable(items, schema={"k": int}, bounded=False, job=job).name("rows")
    rows.key_by("k").agg(n=count()).name("counts").write_black_hole(mode="changelog").name("out")
    options = {"checkpoint_dir": tmp_path / "checkpoints", "checkpoint_interval": "1h"}
    handle = job.start("asleep", directory=tmp_path / "job", **options)
    try:
        assert [handle.savepoint(name, 60.0) for name in ("one", "two", "three")] == [1, 2, 3]
        handle._job.stop()
        handle.wait(60.0)
    finally:
        more.set()
