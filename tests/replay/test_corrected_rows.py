"""Which rows that differ are corrected: those that wait for it, of windows that are over. The rest is told."""

import datetime
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock import col, count, sum_, tumbling
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.jobs.job_rates import JobRates
from penstock.model.keep_rates import KeepRates
from penstock.model.max_error import MaxError
from penstock.replay.comparison import DIFFERENT, EXTRA, MISSING, STATUS, differences
from penstock.replay.corrected_rows import CHOICE, CORRECTED, LEFT, OPEN, CorrectionRule, chosen, queued_rows
from penstock.replay.validation_result import QueryValidation
from tests.command_line import penstock
from tests.kafka.reading import read_topic
from tests.replay.conftest import MakeTopic
from tests.replay.shop_topics import PARTITIONS, SALES, SCHEMA, Shop, header, sale
from tests.replay.validation_reading import from_json

AT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
COLUMNS = "shop string, window_end timestamp, n bigint, accuracy double, n_low bigint, n_high bigint"
RULE = CorrectionRule("window_end", None, MaxError(0.1, otherwise="correct"), ("n",))


def result(shop: str, n: int, half: int | None = 0, accuracy: float = 0.5, minute: int = 1) -> tuple[Any, ...]:
    ends = (None, None) if half is None else (n - half, n + half)
    return (shop, AT + datetime.timedelta(minutes=minute), n, accuracy, *ends)


STREAM = [
    result("narrow", 100, 10),
    result("wide", 100, 11),
    result("untold", 100, None),
    result("nothing", 0, 1),
    result("pointed", 0, 0),
    result("faulty", 100, accuracy=1.0),
    result("emerged", 7, None),
    result("later", 100, 50, minute=2),
]
ANSWERS = {"narrow": 101, "wide": 101, "untold": 101, "nothing": 1, "pointed": 1, "faulty": 101, "vanished": 3}


def choices(spark: SparkSession, rule: CorrectionRule) -> dict[str, tuple[str, str]]:
    exact = [result(shop, n, accuracy=1.0) for shop, n in ANSWERS.items()] + [result("later", 101, 0, 1.0, 2)]
    sides = [spark.createDataFrame(rows, COLUMNS) for rows in (STREAM, exact)]
    found = chosen(differences(*sides, ["shop", "window_end"]), rule)
    return {row["shop"]: (row[CHOICE], row[STATUS]) for row in found.collect()}


def test_rows_wait_whose_intervals_are_too_wide_and_those_that_are_not_there(spark: SparkSession) -> None:
    found = choices(spark, RULE)
    assert found.pop("narrow") == found.pop("pointed") == (LEFT, DIFFERENT)
    assert found.pop("vanished") == (CORRECTED, MISSING)
    assert found.pop("emerged") == (CORRECTED, EXTRA)
    assert found == dict.fromkeys(("wide", "untold", "nothing", "faulty", "later"), (CORRECTED, DIFFERENT))
    waiting = queued_rows(spark.createDataFrame(STREAM, COLUMNS), RULE)
    assert {row["shop"] for row in waiting.collect()} == {"wide", "untold", "nothing", "emerged", "later"}
    assert {choice for choice, _ in choices(spark, CorrectionRule("window_end")).values()} == {CORRECTED}


def test_windows_that_may_change_are_held_back(spark: SparkSession) -> None:
    minute_us = int(AT.timestamp() * 1e6) + 60_000_000
    still_open = {"later"}
    for final_us in (minute_us, minute_us + 59_999_999):
        found = choices(spark, CorrectionRule("window_end", final_us))
        assert {shop for shop, (choice, _) in found.items() if choice == OPEN} == still_open
    everything = choices(spark, CorrectionRule("window_end", minute_us - 1))
    assert {choice for choice, _ in everything.values()} == {OPEN}
    assert {choice for choice, _ in choices(spark, CorrectionRule(None, 0)).values()} == {CORRECTED}


PROGRAM = """
import sys
from tests.replay.test_corrected_rows import sides
sides(*sys.argv[2:]).run("sides", checkpoint_dir=sys.argv[1])
"""
ERROR = 0.131
"""About the half-width of a sum over 150 of 300 rows, so that some are wider."""


def sides(kafka: str, sales: str) -> ps.Job:
    """Return a job whose windows are upserts that are updated until they are over."""
    job = ps.Job()
    rows = ps.read_kafka(sales, kafka=kafka, schema=SCHEMA, time="at", watermark="5s", until="latest", job=job)
    keyed = rows.name("sales").with_columns(side=col("n") % 2).key_by("side").window(tumbling("1m"))
    minutes = keyed.allowed_lateness("10s").emit("updates").agg(n=count(), total=sum_("price")).name("per minute")
    sink = minutes.write_kafka(
        f"{sales}-sides", mode="upsert", key=("side", "window_start"), kafka=kafka, guarantee="exactly_once"
    )
    sink.with_max_error(ERROR, otherwise="correct").with_min_accuracy(0.4).name("sides")
    return job


class SidesJob:
    """The job, stopped and begun again, and its validation."""

    def __init__(self, kafka: str, sales: str, folder: Path) -> None:
        self.kafka, self.sales, self.folder = kafka, sales, folder
        (folder / "sides.py").write_text(PROGRAM)

    def run(self, first: int, last: int) -> None:
        shop = Shop(self.kafka, self.sales, self.folder)
        for partition in range(PARTITIONS):
            numbers = range(first + partition, last, PARTITIONS)
            shop.put(self.sales, [sale(number) for number in numbers], partition=partition)
        job = sides(self.kafka, self.sales)
        job.run("sides", checkpoint_dir=self.folder / "checkpoints", checkpoint_interval="50ms", batch_rows=250)

    def correct(self) -> QueryValidation:
        asked = [str(self.folder / "sides.py"), "--out", str(self.folder), "--correct", f"{self.sales}-sides"]
        code = penstock("validate", *asked, "--", str(self.folder / "checkpoints"), self.kafka, self.sales)
        assert code == 0
        validation = from_json((self.folder / "validation.json").read_text(), "validation.json")
        (query,) = validation.queries
        assert query.correction is not None and query.correction.why is None
        return query

    def standing(self) -> dict[tuple[int, str], tuple[dict[str, Any], bool]]:
        """Return the last row of each key, and whether it is a correction."""
        last = {message.key: message for message in read_topic(self.kafka, f"{self.sales}-sides")}
        rows = [(json.loads(item.value or b""), header(item, "sink") is not None) for item in last.values()]
        return {(row["side"], row["window_start"]): (row, corrected) for row, corrected in rows}


@pytest.fixture
def sides_job(kafka: str, topic: MakeTopic, tmp_path: Path) -> Iterator[SidesJob]:
    made = SidesJob(kafka, topic(PARTITIONS), tmp_path)
    name = f"{made.sales}-sides"
    create_topic(KafkaSettings(kafka), name, 1, {"retention.ms": "-1"})
    yield made
    delete_topics(KafkaSettings(kafka), [name])


@pytest.mark.long("two runs and three validations of a topic; which rows are chosen is tested without a broker")
def test_a_correction_is_the_last_word_on_its_window_in_the_topic_of_the_sink(
    sides_job: SidesJob, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(self: JobRates, rates: KeepRates | None = None) -> None:
        self.rates = rates or KeepRates({"sales": 0.5})

    monkeypatch.setattr(JobRates, "__init__", begin)
    half = SALES // 2
    sides_job.run(0, half)
    query = sides_job.correct()
    told = query.correction
    assert told is not None and query.queued
    # 200 s are there, less 5 s of watermark and 10 s of lateness: three minutes are over.
    before = sides_job.standing()
    corrected = {key for key, (_, is_correction) in before.items() if is_correction}
    assert 0 < len(corrected) == told.rows and told.open == 2 and told.left > 0
    assert told.rows + told.open + told.left == query.estimated
    for row, is_correction in before.values():
        if is_correction:
            assert (row["n"], row["n_low"], row["n_high"], row["accuracy"], row["biased"]) == (300, 300, 300, 1, False)
    assert sides_job.correct().correction == replace(told, missing=0, extra=0, different=0, messages=0)
    sides_job.run(half, SALES)
    after = sides_job.standing()
    assert {key: after[key] for key in corrected} == {key: before[key] for key in corrected}
    query = sides_job.correct()
    assert query.correction is not None and query.correction.rows > 0
    assert {key: sides_job.standing()[key] for key in corrected} == {key: before[key] for key in corrected}
