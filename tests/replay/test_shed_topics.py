"""A job that sheds, from a real broker to Spark: its estimates graded, what it kept proved, its windows put right."""

import json
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import col, count, max_, mean, sum_, tumbling
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.jobs.job_rates import JobRates
from penstock.model.keep_rates import KeepRates
from penstock.replay.validation_result import ComparisonStatus, Validation
from tests.command_line import penstock
from tests.kafka.reading import read_topic
from tests.replay.conftest import MakeTopic
from tests.replay.shop_topics import PARTITIONS, SALES, SCHEMA, Shop, header
from tests.replay.validation_reading import from_json

KEEP = 0.5

PROGRAM = """
import sys
from tests.replay.test_shed_topics import shed_shops
shed_shops(*sys.argv[2:]).run("shed", checkpoint_dir=sys.argv[1], at_end="close")
"""


def shed_shops(kafka: str, sales: str) -> ps.Job:
    job = ps.Job()
    rows = ps.read_kafka(sales, kafka=kafka, schema=SCHEMA, time="at", watermark="5s", until="latest", job=job)
    rows = rows.name("sales")
    sides = rows.with_columns(side=col("n") % 2).key_by("side").window(tumbling("1m"))
    minutes = sides.agg(n=count(), total=sum_("price"), mean=mean("price"), top=max_("price")).name("per minute")
    minutes = minutes.select("side", "window_start", "window_end", "n", "total", "mean", "top")
    options: dict[str, Any] = {"kafka": kafka, "guarantee": "exactly_once"}
    minutes.write_kafka(f"{sales}-minutes", key="side", **options).with_min_accuracy(0.4).name("minutes")
    dear = rows.filter(col("price") > 9).select("at", "shop", "n")
    dear.write_kafka(f"{sales}-dear", **options).with_min_accuracy(0.4).name("dear")
    return job


def validate(folder: Path, kafka: str, sales: str, *options: str) -> tuple[int, Validation]:
    asked = [str(folder / "shed.py"), "--out", str(folder), *options]
    code = penstock("validate", *asked, "--", str(folder / "checkpoints"), kafka, sales)
    return code, from_json((folder / "validation.json").read_text(), "validation.json")


@pytest.mark.long("four validations of a topic; grades, and replays of what was kept, are tested without a broker")
def test_what_a_job_shed_is_graded_proved_and_put_right(
    kafka: str, topic: MakeTopic, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales, right = topic(PARTITIONS), topic(1)
    shop = Shop(kafka, sales, tmp_path)
    (tmp_path / "shed.py").write_text(PROGRAM)
    names = [f"{sales}-minutes", f"{sales}-dear"]
    for name in names:
        create_topic(KafkaSettings(kafka), name, 1, {"retention.ms": "-1"})
    shop.sell()

    def begin(self: JobRates, rates: KeepRates | None = None) -> None:
        self.rates = rates or KeepRates({"sales": KEEP})

    monkeypatch.setattr(JobRates, "__init__", begin)
    job = shed_shops(kafka, sales)
    job.run("shed", checkpoint_dir=tmp_path / "checkpoints", checkpoint_interval="50ms", batch_rows=250, at_end="close")
    monkeypatch.undo()

    code, validation = validate(tmp_path, kafka, sales)
    found = {query.query: query for query in validation.queries}
    assert {name: query.status for name, query in found.items()} == dict.fromkeys(found, ComparisonStatus.ESTIMATED)
    assert code == 0
    minutes = found["minutes"]
    assert minutes.rows_expected == SALES
    assert minutes.rows_used is not None and 0.45 < minutes.rows_used / SALES < 0.55
    assert (minutes.missing, minutes.extra, minutes.different, minutes.rows_exact) == (0, 0, 0, 14)
    assert sum(window.intervals for window in minutes.windows) >= 30

    kept = tmp_path / "checkpoints" / "shed" / "kept"
    code, validation = validate(tmp_path, kafka, sales, "--kept", str(kept))
    assert (code, [query.status for query in validation.queries]) == (0, [ComparisonStatus.SAME] * 2)
    for part in kept.glob("*.jsonl"):
        head, *lines = part.read_text().splitlines()
        other = json.dumps({**json.loads(head), "seed": json.loads(head)["seed"] + 1})
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / part.name).write_text("\n".join([other, *lines]) + "\n")
    code, validation = validate(tmp_path, kafka, sales, "--kept", str(tmp_path / "other"))
    assert (code, [query.status for query in validation.queries]) == (1, [ComparisonStatus.DIFFERS] * 2)

    code, validation = validate(tmp_path, kafka, sales, "--sink", "minutes", "--correct", right)
    (query,) = validation.queries
    assert code == 0 and query.correction is not None
    assert (query.correction.why, query.correction.rows) == (None, query.estimated)
    published = [message for message in read_topic(kafka, right) if header(message, "change") == "insert"]
    rows = [json.loads(message.value or b"") for message in published]
    assert len(rows) == query.estimated
    assert {(row["accuracy"], row["biased"]) for row in rows} == {(1.0, False)}
    assert all(row["n"] == row["n_low"] == row["n_high"] for row in rows)
    delete_topics(KafkaSettings(kafka), names)
