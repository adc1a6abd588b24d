"""Sales of shops from a topic to topics in every mode: a pipeline that tests run, disturb and validate."""

import datetime
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import penstock as ps
from penstock import col, count, max_, sum_, tumbling
from penstock.engine.connectors.kafka.admin import create_topic, delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.replay.validation_result import Validation
from tests.command_line import penstock
from tests.kafka.reading import Message, read_topic
from tests.replay.conftest import MakeTopic
from tests.replay.validation_reading import from_json

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
SCHEMA = {"at": pa.timestamp("us", "UTC"), "shop": str, "price": float, "n": int}
PARTITIONS = 2
SALES = 4_000
SINKS = ("minutes", "dear", "totals", "changes")
FEW = 572
"""Three of the seven shops come to as many sales, and leave ``totals`` and ``changes`` then."""

PROGRAM = """
import sys
from tests.replay.shop_topics import shops
shops(*sys.argv[2:]).run("shops", checkpoint_dir=sys.argv[1], at_end="close")
"""


def sale(number: int) -> dict[str, Any]:
    at = START + datetime.timedelta(milliseconds=100 * number)
    return {"at": at.isoformat(), "shop": f"s{number % 7}", "price": (number * 37) % 101 / 10, "n": number}


def shops(kafka: str, sales: str) -> ps.Job:
    job = ps.Job()
    rows = ps.read_kafka(sales, kafka=kafka, schema=SCHEMA, time="at", watermark="5s", until="latest", job=job).name(
        "sales"
    )
    minutes = rows.key_by("shop").window(tumbling("1m")).agg(n=count(), total=sum_("price")).name("per minute")
    options: dict[str, Any] = {"kafka": kafka, "guarantee": "exactly_once"}
    minutes.write_kafka(f"{sales}-minutes", key="shop", **options).name("minutes")
    rows.filter(col("price") > 9).select("at", "shop", "n").write_kafka(f"{sales}-dear", kafka=kafka).name("dear")
    few = rows.key_by("shop").agg(n=count(), top=max_("price")).name("totals so far").filter(col("n") < FEW)
    few.write_kafka(f"{sales}-totals", mode="upsert", key="shop", **options).name("totals")
    few.write_kafka(f"{sales}-changes", mode="changelog", key="shop", **options).name("changes")
    return job


class Shop:
    """The pipeline with topics of its own."""

    def __init__(self, kafka: str, sales: str, folder: Path) -> None:
        self.kafka, self.sales, self.folder = kafka, sales, folder
        self.topics = {name: f"{sales}-{name}" for name in SINKS}
        (folder / "shops.py").write_text(PROGRAM)

    def sell(self) -> None:
        for partition in range(PARTITIONS):
            self.put(self.sales, [sale(number) for number in range(partition, SALES, PARTITIONS)], partition=partition)

    def run(self) -> None:
        job = shops(self.kafka, self.sales)
        checkpoints = self.folder / "checkpoints"
        job.run(
            "shops",
            checkpoint_dir=checkpoints,
            checkpoint_interval="10ms",
            batch_rows=250,
            parallelism=2,
            at_end="close",
        )

    def put(self, topic: str, values: Sequence[Any], **more: Any) -> None:
        """Write messages: objects as JSON, bytes and None as they are."""
        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 0, "partitioner": "murmur2_random"})
        for value in values:
            data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            producer.produce(topic, data, **more)
        assert producer.flush(20) == 0

    def validate(self, *options: str) -> tuple[int, Validation]:
        """Run the command; return its exit code and what it found."""
        asked = [str(self.folder / "shops.py"), "--out", str(self.folder), *options]
        code = penstock("validate", *asked, "--", str(self.folder / "checkpoints"), self.kafka, self.sales)
        return code, from_json((self.folder / "validation.json").read_text(), "validation.json")


@pytest.fixture
def shop(kafka: str, topic: MakeTopic, tmp_path: Path) -> Iterator[Shop]:
    """A shop whose sales are in their topic; nothing has run yet."""
    made = Shop(kafka, topic(PARTITIONS), tmp_path)
    settings = KafkaSettings(kafka)
    for name in made.topics.values():
        create_topic(settings, name, PARTITIONS, {"retention.ms": "-1"})
    made.sell()
    yield made
    delete_topics(settings, list(made.topics.values()))


def standing(shop: Shop, name: str, corrections: str | None = None) -> Counter[str]:
    """Return the rows that stand in the topic of a sink, with those of its corrections, as texts.

    What no reader of the topic could read is left out.
    """
    found = read_topic(shop.kafka, shop.topics[name])
    if corrections is not None:
        found += [message for message in read_topic(shop.kafka, corrections) if header(message, "sink") == name]
    if name == "totals":
        last = {message.key: message.value for message in found}
        return Counter(row_text(json.loads(value)) for value in last.values() if value is not None)
    rows: Counter[str] = Counter()
    for message in found:
        if message.value is not None and message.value.startswith(b"{"):
            row = json.loads(message.value)
            taken = header(message, "change") == "retract"
            rows[row_text(row)] += row["weight"] if name == "changes" else -1 if taken else 1
    return Counter({row: times for row, times in rows.items() if times})


def exact(name: str) -> Counter[str]:
    """Return what stands if all is right, worked out row by row."""
    sold: dict[Any, list[Any]] = {}
    for item in map(sale, range(SALES)):
        minute = datetime.datetime.fromisoformat(item["at"]).minute if name == "minutes" else None
        sold.setdefault((item["shop"], minute), []).append(item["price"])
    if name == "dear":
        texts = [(item, datetime.datetime.fromisoformat(item["at"])) for item in map(sale, range(SALES))]
        return Counter(
            row_text({"at": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}", "shop": item["shop"], "n": item["n"]})
            for item, at in texts
            if item["price"] > 9
        )
    if name != "minutes":
        few = {shop: prices for (shop, _), prices in sold.items() if len(prices) < FEW}
        return Counter(row_text({"shop": shop, "n": len(prices), "top": max(prices)}) for shop, prices in few.items())
    times = {minute: f"2024-01-01T00:{minute:02}:00.000000Z" for minute in range(60)}
    return Counter(
        row_text(
            {
                "shop": shop,
                "window_start": times[minute],
                "window_end": times[minute + 1],
                "n": len(prices),
                "total": sum(prices),
            }
        )
        for (shop, minute), prices in sold.items()
    )


def row_text(row: dict[str, Any]) -> str:
    """Return a row as text; sums of floats depend on the order of their summands."""
    values = {name: value if isinstance(value, str) else f"{value:.6f}" for name, value in row.items()}
    values.pop("weight", None)
    return json.dumps(values, sort_keys=True)


def header(message: Message, name: str) -> str | None:
    """Return what a header of a correction says."""
    found = dict(message.headers).get(f"penstock.correction.{name}")
    return None if found is None else found.decode()
