"""Process functions with state and timers: in Spark they see and put out what they do in our stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.dsl.job import Job
from penstock.dsl.process import Context, Process, Timer
from penstock.dsl.stream import Stream
from penstock.replay.frames import ReplayError
from tests.replay.both import check_both, collected, compiled, random_rows, timed

ROWS = random_rows(31, 200, span_s=20).select(["k", "at", "name", "small"])


@dataclass
class Seen:
    """What a call saw."""

    k: int | None
    what: str
    count: int
    names: str


class Watch(Process):
    """Counts rows, keeps the last names, and says so when a key was quiet for a while."""

    count = ps.value_state(int, default=0)
    names = ps.list_state(str)
    times = ps.map_state(str, int)
    quiet = ps.value_state(pa.timestamp("us"), ttl="30s")

    def process(self, row: dict[str, Any], context: Context) -> Iterator[Seen]:
        if row["small"] == 1:
            raise ValueError("a row that becomes a dead letter, and whose changes are undone")
        self.count.set(self.count.get() + 1)
        self.names.append(row["name"] or "")
        self.times.put(row["name"] or "", self.count.get())
        if self.quiet.get() is not None:
            context.timers.cancel(self.quiet.get())
        self.quiet.set(context.timers.after("2s"))
        yield Seen(context.key, "row", self.count.get(), "|".join(self.names))

    def on_timer(self, timer: Timer, context: Context) -> Iterator[Seen]:
        yield Seen(context.key, f"quiet at {timer.time}", self.count.get(), str(sorted(self.times.items())))
        self.names.clear()


def test_state_and_timers(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        stream = timed(job, ROWS)
        watched = stream.key_by("k").process(Watch, Seen)
        return {"seen": watched, "counts": watched.key_by("what").agg(n=ps.count())}

    answers = check_both(spark, build)
    assert any(what.startswith("quiet") for what in answers["seen"]["what"].to_pylist())


def follow(row: dict[str, Any], context: Context) -> Iterator[dict[str, Any]]:
    yield {**row, "small": context.state.n.get()}
    context.state.n.set(context.state.n.get() + 1)


def test_a_function_whose_rows_keep_their_time(spark: SparkSession) -> None:
    def build(job: Job) -> dict[str, Stream]:
        numbered = timed(job, ROWS).key_by("k", "name").process(follow, state={"n": ps.value_state(int, default=0)})
        return {"rows": numbered, "windows": numbered.window(ps.tumbling("5s")).agg(most=ps.max_("small"))}

    check_both(spark, build)


class InProcessingTime(Process):
    """Sets a timer that no batch has."""

    def process(self, row: dict[str, Any], context: Context) -> None:
        context.timers.after_processing(timedelta(seconds=1))


def test_timers_in_processing_time_are_refused_when_they_are_set(spark: SparkSession) -> None:
    frames = compiled(spark, lambda job: {"all": timed(job, ROWS).key_by("k").process(InProcessingTime, Seen)})
    with pytest.raises(Exception, match="'process-1' cannot be replayed: it sets timers in processing time"):
        collected(frames["all"])


def test_what_depends_on_arrival_or_clocks_is_refused(spark: SparkSession) -> None:
    def by_arrival(job: Job) -> dict[str, Stream]:
        return {"all": timed(job, ROWS).key_by("k").process(Watch, Seen, order="arrival")}

    def by_clock(job: Job) -> dict[str, Stream]:
        state = {"n": ps.value_state(int, default=0, ttl="1s", ttl_clock="processing")}
        return {"all": timed(job, ROWS).key_by("k").process(follow, state=state)}

    with pytest.raises(ReplayError, match=r"'process-1' cannot be replayed: it takes rows as they arrive"):
        compiled(spark, by_arrival)
    with pytest.raises(ReplayError, match=r"'process-1' cannot be replayed: its state 'n' expires by processing time"):
        compiled(spark, by_clock)
