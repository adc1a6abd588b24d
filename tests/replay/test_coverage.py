"""Over 2,000 disjoint windows of a job that shed, graded by Spark: intervals hold exact values as often as said."""

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import count, mean, sum_, tumbling
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.jobs.job_rates import JobRates
from penstock.model.keep_rates import KeepRates
from penstock.replay.validation_result import ComparisonStatus
from tests.command_line import penstock
from tests.replay.conftest import MakeTopic
from tests.replay.shop_topics import PARTITIONS, SCHEMA, Shop, sale
from tests.replay.validation_reading import from_json

WINDOWS, ROWS = 2_100, 120
"""Windows, and rows of each: 100 ms apart."""

AT_ONCE = 50_000
"""A producer takes up to twice as many messages before they are sent."""

PROGRAM = """
import sys
from tests.replay.test_coverage import short_windows
short_windows(*sys.argv[2:]).run("short", checkpoint_dir=sys.argv[1], at_end="close")
"""


def short_windows(kafka: str, sales: str) -> ps.Job:
    job = ps.Job()
    rows = ps.read_kafka(sales, kafka=kafka, schema=SCHEMA, time="at", watermark="5s", until="latest", job=job)
    windows = rows.name("sales").window(tumbling("12s"))
    made = windows.agg(n=count(), total=sum_("price"), mean=mean("price")).name("windows")
    sink = made.write_kafka(f"{sales}-windows", kafka=kafka, guarantee="exactly_once")
    sink.with_min_accuracy(0.5).name("out")
    return job


@pytest.mark.long("a quarter of a million messages; coverage by `benchmarks.estimates`, and grades of few windows stay")
def test_intervals_of_a_run_cover_as_often_as_they_say(
    kafka: str, topic: MakeTopic, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales = topic(PARTITIONS)
    create_topic(KafkaSettings(kafka), f"{sales}-windows", 1, {"retention.ms": "-1"})
    shop = Shop(kafka, sales, tmp_path)
    for partition in range(PARTITIONS):
        numbers = range(partition, WINDOWS * ROWS, PARTITIONS)
        for first in range(0, len(numbers), AT_ONCE):
            shop.put(sales, [sale(n) for n in numbers[first : first + AT_ONCE]], partition=partition)

    def begin(self: JobRates, rates: KeepRates | None = None) -> None:
        self.rates = rates or KeepRates({"sales": 0.625})

    monkeypatch.setattr(JobRates, "__init__", begin)
    short_windows(kafka, sales).run("short", checkpoint_dir=tmp_path / "checkpoints", at_end="close")
    monkeypatch.undo()
    (tmp_path / "short.py").write_text(PROGRAM)
    asked = [str(tmp_path / "short.py"), "--out", str(tmp_path), "--", str(tmp_path / "checkpoints"), kafka, sales]
    assert penstock("validate", *asked) == 0
    (query,) = from_json((tmp_path / "validation.json").read_text(), "validation.json").queries
    assert (query.status, query.rows_exact) == (ComparisonStatus.ESTIMATED, WINDOWS)
    assert query.grade is not None and query.grade.counted
    found = {item.aggregate: item for item in query.grade.aggregates}
    assert found.keys() == {"n", "total", "mean"}
    for name, item in found.items():
        print(f"{name}: {item.intervals} intervals, coverage {item.coverage:.4f}, bias {item.bias:+.2f}")
        assert item.intervals >= 2_000 and item.coverage is not None and item.bias is not None
        assert 0.93 <= item.coverage <= 0.97, name
        assert abs(item.bias) <= 3.5, name
    delete_topics(KafkaSettings(kafka), [f"{sales}-windows"])
