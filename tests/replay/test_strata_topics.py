"""A job that sheds by strata of message keys, over a restart: a replay draws the same steps and finds the same ends."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import penstock as ps
from penstock import col, count, mean, sum_, tumbling
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.jobs.job_rates import JobRates
from penstock.model.keep_rates import KeepRates
from penstock.replay.validation_result import ComparisonStatus, Validation
from tests.command_line import penstock
from tests.replay.conftest import MakeTopic
from tests.replay.shop_topics import PARTITIONS, SALES, SCHEMA, sale
from tests.replay.validation_reading import from_json

KEEPS = (0.5, 0.25)

PROGRAM = """
import sys
from tests.replay.test_strata_topics import sides
sides(*sys.argv[2:]).run("sides", checkpoint_dir=sys.argv[1], at_end="close")
"""


def sides(kafka: str, sales: str) -> ps.Job:
    job = ps.Job()
    rows = ps.read_kafka(
        sales, kafka=kafka, schema=SCHEMA, key={"side": str}, time="at", watermark="5s", until="latest", job=job
    ).name("sales")
    minutes = rows.filter(col("n") >= 0).key_by("side").window(tumbling("1m"))
    results = minutes.agg(n=count(), total=sum_("price"), mean=mean("price")).name("per minute")
    written = results.write_kafka(f"{sales}-minutes", kafka=kafka, guarantee="exactly_once", key="side")
    written.name("minutes").with_min_accuracy(0.1, strata="key")
    return job


def sell(kafka: str, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    for number in numbers:
        key = str(number // PARTITIONS % 2).encode()
        producer.produce(topic, json.dumps(sale(number)).encode(), key, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def validate(folder: Path, kafka: str, sales: str, log: Path) -> tuple[int, Validation]:
    asked = [str(folder / "sides.py"), "--out", str(folder), "--kept", str(log)]
    code = penstock("validate", *asked, "--", str(folder / "checkpoints"), kafka, sales)
    return code, from_json((folder / "validation.json").read_text(), "validation.json")


def changed(kept: Path, folder: Path, **head: int) -> Path:
    """Write another log: with these fields in its heads, and without them with steps that follow from offsets."""
    folder.mkdir()
    for part in kept.glob("*.jsonl"):
        first, *lines = map(json.loads, part.read_text().splitlines())
        first |= head
        if not head:
            lines = [{name: line[name] for name in line if name not in ("strata", "since")} for line in lines]
        (folder / part.name).write_text("".join(json.dumps(line) + "\n" for line in [first, *lines]))
    return folder


@pytest.mark.long("three validations of a topic; that a replay draws the same steps is tested without a broker")
def test_what_was_kept_by_strata_is_proved(
    kafka: str, topic: MakeTopic, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales = topic(PARTITIONS)
    (tmp_path / "sides.py").write_text(PROGRAM)
    create_topic(KafkaSettings(kafka), f"{sales}-minutes", 1, {"retention.ms": "-1"})
    for run, keep in enumerate(KEEPS):
        sell(kafka, sales, range(run * SALES, (run + 1) * SALES))

        def begin(self: JobRates, rates: KeepRates | None = None, keep: float = keep) -> None:
            self.rates = rates or KeepRates({"sales": keep})

        monkeypatch.setattr(JobRates, "__init__", begin)
        at_end: Any = "close" if run == len(KEEPS) - 1 else "keep"
        checkpoints = {"checkpoint_dir": tmp_path / "checkpoints", "checkpoint_interval": "50ms"}
        sides(kafka, sales).run("sides", batch_rows=250, at_end=at_end, **checkpoints)
        monkeypatch.undo()

    kept = tmp_path / "checkpoints" / "sides" / "kept"
    text = "".join(part.read_text() for part in kept.glob("*.jsonl"))
    lines = [json.loads(line) for line in text.splitlines()]
    assert {(line["strata"], line["since"]) for line in lines if "strata" in line} == {
        ("key", run * SALES // PARTITIONS) for run in range(len(KEEPS))
    }
    code, validation = validate(tmp_path, kafka, sales, kept)
    (query,) = validation.queries
    assert (code, query.status) == (0, ComparisonStatus.SAME)
    assert query.rows_exact == 28
    assert validation.left_out == 0
    # The controls: other draws, and draws that take no account of keys, are seen.
    for log in (changed(kept, tmp_path / "seed", seed=1), changed(kept, tmp_path / "strata")):
        code, validation = validate(tmp_path, kafka, sales, log)
        assert (code, validation.queries[0].status) == (1, ComparisonStatus.DIFFERS)
    delete_topics(KafkaSettings(kafka), [f"{sales}-minutes"])
