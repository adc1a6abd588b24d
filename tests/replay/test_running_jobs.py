"""Jobs that have not ended are held against what they had put out at their checkpoint: what is open is no mistake."""

import asyncio
import secrets
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col
from penstock.dsl.job import Job
from penstock.dsl.kafka import read_kafka
from penstock.dsl.process import Context, Process, Timer
from penstock.dsl.stream import Stream
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.replay.validation_result import ComparisonStatus
from tests.kafka.conftest import MakeTopic, kafka
from tests.replay.running import SCHEMA, checkpoint_of, fill, start, validated, wait_for

__all__ = ["kafka"]

WINDOWS = {
    "tumbling": ps.tumbling("7s"),
    "hopping": ps.hopping("10s", "4s", lateness="4s"),
    "session": ps.session("1s"),
    "count": ps.count_window(5),
    "whole": ps.global_window(),
}


@dataclass
class Seen:
    """What a call saw."""

    k: int | None
    what: str
    n: int


class Quiet(Process):
    """Counts the rows of a key, and says so when it was quiet for a while."""

    count = ps.value_state(int, default=0)

    def process(self, row: dict[str, Any], context: Context) -> Iterator[Seen]:
        self.count.set(self.count.get() + 1)
        context.timers.after("2s")
        yield Seen(context.key, "row", row["n"])

    def on_timer(self, timer: Timer, context: Context) -> Iterator[Seen]:
        yield Seen(context.key, "timer", self.count.get())


def more(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Keep the later row with the sum of both."""
    return {**other, "n": one["n"] + other["n"]}


def queries(rows: Stream) -> dict[str, Stream]:
    """Return streams in which something waits for the watermark, and some in which nothing does."""
    keyed = rows.key_by("k")
    odd = rows.filter(col("n") % 16 == 1).select("at", "k", odd="n")
    found = {name: keyed.window(window).agg(n=ps.count(), last=ps.last("n")) for name, window in WINDOWS.items()}
    for name in ("tumbling", "count"):
        found[f"{name} now"] = keyed.window(WINDOWS[name]).emit("updates").agg(n=ps.count())
        found[f"reduce {name}"] = keyed.window(WINDOWS[name]).reduce(more)
    near: dict[str, Any] = {"on": "k", "between": ("-1s", "2s")}
    found |= {f"join {how}": rows.interval_join(odd, how=how, **near) for how in ("left", "full")}
    return found | {
        "reduce": keyed.reduce(more),
        "reduce now": keyed.window(WINDOWS["count"]).emit("updates").reduce(more),
        "first": rows.key_by("n").deduplicate(),
        "often": rows.key_by("name").deduplicate(ttl="2s"),
        "last": keyed.deduplicate("last"),
        "over": keyed.over(3).agg(total=ps.sum_("n")),
        "over by": keyed.over(3, by="name").agg(total=ps.sum_("n")),
        "top": keyed.top(2, by=col("n").desc()),
        "totals": keyed.agg(n=ps.count(), most=ps.max_("n")),
        "process": keyed.process(Quiet, Seen),
        "as of": rows.asof_join(odd, on="k", tolerance="3s"),
        "windows joined": rows.join(odd, on="k", window=ps.tumbling("5s")),
        "joined": rows.filter(col("n") % 20 == 0).join(odd, on="k"),
        "of windows": found["tumbling"].key_by("k").window(ps.tumbling("30s")).agg(most=ps.max_("n")),
        "top of windows": found["hopping"].key_by("window_end").top(1, by=col("n").desc()),
        "plain": rows.filter(col("n") % 3 == 0),
    }


OPEN = {
    *WINDOWS,
    *("reduce tumbling", "reduce count", "reduce", "reduce now", "count now"),
    *("join left", "join full", "first", "often", "over", "process", "as of", "windows joined", "of windows"),
}
"""Those of which something was still to come."""

FEW = ("tumbling", "session", "plain")


def pipeline(kafka: str, topic: str, folder: Path, modes: Collection[str]) -> Job:
    """Return a job that writes answers as texts to a sink for each mode, as each costs Spark many queries.

    All answers are written to ``append`` and ``changelog`` together, and a few to ``few``.
    """
    job = Job()
    rows = read_kafka(topic, kafka=kafka, schema=SCHEMA, time="at", watermark="3s", job=job).name("rows")
    texts: dict[str, list[Stream]] = {"append": [], "changelog": [], "few": []}
    for name, stream in queries(rows).items():
        parts = [part for column in stream.schema.names for part in (col(column).cast(str).fill_null("-"), " ")]
        written = stream.name(f"the {name}").select(case=ps.lit(name), row=ps.concat(*parts))
        texts["changelog" if stream.updating else "append"].append(written)
        if name in FEW:
            texts["few"].append(written)
    for mode in modes:
        streams = texts[mode]
        together = streams[0].union(*streams[1:])
        together.write_parquet(folder / mode, mode="append" if mode == "few" else mode).name(mode)
    return job


@dataclass
class Ran:
    """A job that was stopped in the middle, after a savepoint."""

    job: Job
    folder: Path


@pytest.fixture(scope="module")
def ran(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All answers."""
    return run(kafka, tmp_path_factory.mktemp("running"), ("append", "changelog"))


@pytest.fixture(scope="module")
def ran_few(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A few of them."""
    return run(kafka, tmp_path_factory.mktemp("few"), ("few",))


def run(kafka: str, folder: Path, modes: Collection[str]) -> Ran:
    topic = f"running-{folder.parent.name}-{folder.name}-{secrets.token_hex(4)}"
    create_topic(KafkaSettings(kafka), topic, 2, {"retention.ms": "-1"})
    fill(kafka, topic, 0, 400)
    job = pipeline(kafka, topic, folder, modes)
    handle = start(job, folder, parallelism=2)
    wait_for(handle, 400)
    handle.savepoint("half", 60)
    fill(kafka, topic, 400, 300)
    wait_for(handle, 700)
    handle.stop()
    # Nobody has read these.
    fill(kafka, topic, 700, 100)
    return Ran(job, folder)


@pytest.mark.long("every operator on Spark; test_an_earlier_savepoint_knows_less has three of them")
def test_what_was_put_out_is_what_was_due(ran: Ran, spark: SparkSession) -> None:
    found = validated(ran.job, spark, checkpoint_of(ran.folder), ["append", "changelog"])
    for query in found.values():
        assert (query.why, query.status) == (None, ComparisonStatus.SAME), query
        assert query.rows_exact == query.rows_stream > 0
    said = " ".join(note for query in found.values() for note in query.notes)
    assert {name for name in OPEN if f" results of 'the {name}' were still to come at the checkpoint" in said} == OPEN
    assert said.count(" were still to come") == sum(len(query.notes) for query in found.values())


def test_an_earlier_savepoint_knows_less(ran_few: Ran, spark: SparkSession) -> None:
    (found,) = validated(ran_few.job, spark, checkpoint_of(ran_few.folder, "half"), ["few"]).values()
    assert (found.why, found.status) == (None, ComparisonStatus.SAME), found
    now = sum(pq.read_metadata(file).num_rows for file in (ran_few.folder / "few").glob("part-*"))
    assert 0 < found.rows_exact < now and found.open


@pytest.mark.long("one more answer of Spark; test_validation finds rows that are lost")
def test_a_window_that_was_over_and_is_lost_is_missing(ran_few: Ran, spark: SparkSession) -> None:
    files = [file for file in sorted((ran_few.folder / "few").glob("part-*")) if pq.read_metadata(file).num_rows]
    lost, whole = pq.read_table(files[0]), files[0].read_bytes()
    pq.write_table(lost.slice(1), files[0])
    try:
        (found,) = validated(ran_few.job, spark, checkpoint_of(ran_few.folder), ["few"]).values()
    finally:
        files[0].write_bytes(whole)
    assert (found.missing, found.extra, found.different) == (1, 0, 0)
    assert found.examples[0].exact is not None and found.examples[0].exact == lost.to_pylist()[0]


@pytest.mark.long("four validations of topics; test_an_earlier_savepoint_knows_less validates files")
def test_a_topic_holds_what_its_checkpoint_promises(
    kafka: str, topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    name, outputs = topic(2), {"exactly_once": topic(2), "at_least_once": topic(2)}
    fill(kafka, name, 0, 200)
    job = Job()
    rows = read_kafka(name, kafka=kafka, schema=SCHEMA, time="at", watermark="3s", job=job).name("rows")
    for guarantee, output in outputs.items():
        rows.filter(col("n") % 2 == 0).write_kafka(output, kafka=kafka, guarantee=guarantee, key="k").name(guarantee)
    handle = start(job, tmp_path)
    wait_for(handle, 200)
    handle.savepoint("half", 60)
    fill(kafka, name, 200, 100)
    wait_for(handle, 300)
    handle.stop()
    before = validated(job, spark, checkpoint_of(tmp_path, "half"))
    assert f"has published to topic '{outputs['exactly_once']}' up to checkpoint" in str(before["exactly_once"].why)
    assert (before["at_least_once"].extra, before["at_least_once"].missing) == (50, 0)
    assert before["at_least_once"].notes == [
        f"topic '{outputs['at_least_once']}' is written at least once: what came behind the checkpoint is extra"
    ]
    now = validated(job, spark, checkpoint_of(tmp_path))
    assert {(found.status, found.rows_stream) for found in now.values()} == {(ComparisonStatus.SAME, 150)}


def test_a_source_that_is_no_topic_must_have_ended(spark: SparkSession, tmp_path: Path) -> None:
    held = threading.Event()

    def some() -> Iterator[dict[str, int]]:
        yield from ({"n": number} for number in range(10))
        held.wait(60)

    job = Job()
    ps.read_iterable(some, schema={"n": int}, job=job).name("some").write_parquet(tmp_path / "out").name("out")
    handle = start(job, tmp_path)
    wait_for(handle, 10)
    handle.savepoint("half", 60)
    held.set()
    handle.wait(60)
    (found,) = validated(job, spark, checkpoint_of(tmp_path, "half")).values()
    assert "source 'some' had not been read to its end at the checkpoint" in str(found.why)


@pytest.mark.long("a job that waits; test_a_source_that_is_no_topic_must_have_ended is refused too")
def test_answers_that_are_awaited_are_not_guessed(
    kafka: str, topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    answering = threading.Event()

    async def slow(row: dict[str, Any]) -> dict[str, Any]:
        while row["n"] >= 50 and not answering.is_set():
            await asyncio.sleep(0.02)
        return row

    name = topic(2)
    fill(kafka, name, 0, 60)
    job = Job()
    rows = read_kafka(name, kafka=kafka, schema=SCHEMA, time="at", job=job).name("rows")
    rows.map_async(slow, schema=rows.schema, timeout="2h").name("slow").write_parquet(tmp_path / "out").name("out")
    handle = start(job, tmp_path)
    wait_for(handle, 60)
    handle.savepoint("half", 60)
    (found,) = validated(job, spark, checkpoint_of(tmp_path, "half")).values()
    answering.set()
    handle.stop()
    assert "operator 'slow'" in str(found.why) and "rows there that wait for their answers" in str(found.why)
