"""Partitions of a topic change the instances that read them: each message once, those of a key in their order."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.dsl.kafka import read_kafka
from tests.contracts.executors.metered import task_managers, until
from tests.contracts.executors.test_moves import move
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.ways import PROCESSES
from tests.kafka.reading import read_topic
from tests.kafka.test_source import MakeTopic, produce

pytestmark = pytest.mark.slow

PARTITIONS = 6
ROWS = 400
"""Of a partition, each time that some are written."""


class Following(ps.Process):
    """Says of each row which one came before it of its key."""

    before = ps.value_state(int)

    def process(self, row: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        yield {"key": context.key, "id": row["id"], "before": self.before.get() or 0}
        self.before.set(row["id"])


def test_each_message_is_there_once_and_in_order_of_its_key(kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    source, sink = topic(PARTITIONS), topic(1)
    job = ps.Job()
    messages = read_kafka(source, kafka=kafka, schema={"id": int, "key": int}, discovery="100ms", job=job)
    rows = messages.name("messages").key_by("key")
    chain = rows.process(Following, {"key": int, "id": int, "before": int}, order="arrival").name("following")
    chain.write_kafka(sink, kafka=kafka, guarantee="exactly_once").name("out")
    written = 0

    def write() -> None:
        nonlocal written
        for partition in range(PARTITIONS):
            ids = range(written + 1, written + ROWS + 1)
            values = [json.dumps({"id": row, "key": partition * 10 + row % 3}).encode() for row in ids]
            produce(kafka, source, values, partition)
        written += ROWS

    write()
    handle = job.start(
        "handed-over",
        **PROCESSES,
        parallelism=2,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="200ms",
        restart_delay="1ms",
    )

    def read() -> None:
        until(lambda: handle.metrics().source_rows >= PARTITIONS * written, handle)

    read()
    write()
    wider = handle.rescale("messages", 4)
    assert wider.live and wider.partitions_moved == 2
    write()
    assert move(handle, "messages", 0).partitions == 2
    write()
    assert handle.rescale("messages", 2).live
    read()
    assert (counted := handle.metrics().checkpoints) is not None and counted.restarts == 0
    kill(task_managers()[0].pid)
    until(lambda: (now := handle.metrics().checkpoints) is not None and now.restarts == 1, handle)
    write()
    assert handle.rescale("messages", 3).live
    read()
    handle.stop()
    handle.wait()
    check(kafka, sink, written)


def check(kafka: str, sink: str, written: int) -> None:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for message in read_topic(kafka, sink):
        row = json.loads(message.value or b"")
        found[row["key"]].append((row["before"], row["id"]))
    counts: Counter[int] = Counter()
    for key, pairs in found.items():
        ids = [row for row in range(1, written + 1) if row % 3 == key % 10]
        assert sorted(pairs) == list(zip([0, *ids], ids, strict=False))
        counts[key // 10] += len(pairs)
    assert counts == Counter(dict.fromkeys(range(PARTITIONS), written))
