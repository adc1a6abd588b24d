"""A job whose rows and totals go to one topic, exactly once, and what the topic must have in the end."""

import json
from collections import Counter

import penstock as ps
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.chaos.kafka_outputs import committed_messages
from tests.contracts.executors.metered import KEYS, PARTITIONS, ROWS, Metered, MeteredJob


def metered_topic(metered: MeteredJob, kafka: str, topic: str) -> ps.Job:
    """Return the job: each row, and a changelog of how many there are of each key."""
    job = ps.Job()
    numbers = ps.read(Metered(metered.folder / "meter"), time="at", job=job).name("numbers")
    totals = numbers.key_by("key").agg(n=ps.count()).name("per key")
    totals.write_kafka(topic, kafka=kafka, guarantee="exactly_once", mode="changelog").name("totals")
    numbers.write_kafka(topic, kafka=kafka, guarantee="exactly_once").name("rows")
    return job


def check_topic(settings: KafkaSettings, topic: str) -> None:
    """Hold what is committed against all rows: each is there once, and of the totals those that stand are right."""
    ids: Counter[int] = Counter()
    standing: Counter[tuple[int, int]] = Counter()
    for _, value in committed_messages(settings, topic, PARTITIONS):
        row = json.loads(value or b"null")
        if "id" in row:
            ids[row["id"]] += 1
        else:
            standing[row["key"], row["n"]] += row["weight"]
    assert ids == Counter(range(PARTITIONS * ROWS))
    keys = Counter(number * 7 % KEYS for number in range(PARTITIONS * ROWS))
    assert +standing == Counter(dict.fromkeys(keys.items(), 1)) and not -standing
