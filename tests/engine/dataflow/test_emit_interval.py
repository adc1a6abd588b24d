"""Changes of updating results leave within `emit_interval`, however busy the loop is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.dsl.aggregates import count
from penstock.dsl.job import Job
from penstock.dsl.readers import read
from penstock.dsl.stream import Stream
from penstock.dsl.windows import tumbling
from penstock.engine.dataflow.worker import Ran, Waiting
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.connectors import Read
from penstock.model.errors import OptionError
from penstock.model.expressions import col
from penstock.model.function_sink import FunctionSink
from penstock.runs.run_options import make_options
from tests.engine.scripted import MS, Scripts, rows
from tests.engine.support import ManualClock

WAYS = {
    "group": lambda stream: stream.key_by("x").agg(n=count()),
    "window": lambda stream: stream.key_by("x").window(tumbling("1d")).emit("updates").agg(n=count()),
    "reduce": lambda stream: stream.key_by("x").reduce(lambda one, other: other),
    "top": lambda stream: stream.key_by("x").top(1, by=col("at").desc()),
    "over": lambda stream: stream.key_by("x").over(rows=3, by=col("at").desc()).agg(n=count()),
}


def busy(folder: Path, way: Any, **options: int) -> list[int]:
    """Feed a row every millisecond to a loop that is never idle; return when changes left, in ms."""
    clock = ManualClock()

    def steps() -> Iterator[Any]:
        for number in range(1_000):
            clock.advance_ns(MS)
            yield rows(number)

    job = Job()
    times: list[int] = []

    def note(batch: pa.RecordBatch) -> None:
        times.append(clock.monotonic_ns() // MS)

    stream: Stream = way(read(Scripts({"a": steps()}, bounded=False), time="at", job=job))
    stream.write(FunctionSink(note), mode="changelog")
    runs = EmbeddedJob(JobPlan("busy", job.plan(), LoopOptions(batch_rows=1, **options), folder), clock=clock)
    while clock.monotonic_ns() < 900 * MS:
        assert isinstance(runs.worker.step(), Ran), "the loop is to be busy"
    return times


@pytest.mark.parametrize("way", WAYS)
def test_changes_leave_every_100_ms_under_a_steady_load(tmp_path: Path, way: str) -> None:
    times = busy(tmp_path, WAYS[way])
    assert len(times) >= 8
    assert max(after - before for before, after in zip([0, *times], times, strict=False)) <= 102


def test_the_interval_is_the_jobs_or_the_operators_own(tmp_path: Path) -> None:
    assert len(set(busy(tmp_path, WAYS["group"], emit_interval_us=10_000))) >= 80
    slow = busy(tmp_path, lambda stream: stream.key_by("x").emit(every="400ms").agg(n=count()), emit_interval_us=10_000)
    assert len(set(slow)) == 2


def test_quiet_moments_come_once_in_linger_ms(tmp_path: Path) -> None:
    clock = ManualClock()
    times: list[int] = []
    job = Job()
    slow = (Read(rows(number).rows, again_us=1_000) for number in range(1_000))
    stream = read(Scripts({"a": slow}, bounded=False), time="at", job=job).key_by("x").agg(n=count())
    stream.write(FunctionSink(lambda batch: times.append(clock.monotonic_ns() // MS)), mode="changelog")
    runs = EmbeddedJob(JobPlan("slow", job.plan(), LoopOptions(batch_rows=80), tmp_path), clock=clock)
    while clock.monotonic_ns() < 95 * MS:
        outcome = runs.worker.step()
        if isinstance(outcome, Waiting):
            assert outcome.until_ns is not None and outcome.until_ns > clock.monotonic_ns()
            clock.advance_ns(outcome.until_ns - clock.monotonic_ns())
    assert times == list(range(0, 95, 10))


def test_it_is_an_option_of_a_run() -> None:
    assert make_options("job", {}).loop.emit_interval_us == 100_000
    assert make_options("job", {"emit_interval": "20ms"}).loop.emit_interval_us == 20_000
    assert make_options("job", {"emit_interval": 0}).loop.emit_interval_us == 0
    with pytest.raises(OptionError, match="emit_interval must be a duration"):
        make_options("job", {"emit_interval": "soon"})
    with pytest.raises(OptionError, match="emit_interval,"):
        make_options("job", {"emit_intervall": "1s"})
