"""The process that offers rows: writes messages into topics at their pace, and notes what the log has taken.

``python -m penstock.benchmarks.papers.real.injector NOTES``, its orders as a line of JSON on stdin. A line of NOTES a
quarter of a second: when the first phase begins and the time, both by the monotonic clock, the process's CPU, and how
many messages each partition has delivered.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks.papers.real.application import attribute
from penstock.benchmarks.papers.real.schedule import TopicLoad
from penstock.engine.connectors.kafka.clients import make_producer
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import FatalError

CLIENT_ID = "penstock-injector"
NOTE_S = 0.25
_PACE_S = 0.01
_FLUSH_S = 60.0
_FULL_S = 0.01


@dataclass(frozen=True, slots=True)
class Orders:
    """What to write where; ``lead_s``: so long after the process can write the first phase begins."""

    kafka: str
    loads: tuple[TopicLoad, ...]
    lead_s: float

    def text(self) -> str:
        """Return the orders as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> "Orders":
        """Return the orders that are in a text."""
        plain = json.loads(text)
        return cls(plain["kafka"], tuple(map(TopicLoad.parse, plain["loads"])), plain["lead_s"])


class Injector:
    """Writes messages of pools to partitions, in turn, and counts what the broker has confirmed."""

    def __init__(self, kafka: str, loads: Sequence[TopicLoad]) -> None:
        """Make the pools and a producer; nothing is written yet."""
        self._failed: list[object] = []
        self.delivered: Counter[tuple[str, int]] = Counter()
        self._loads = loads
        self._pools = [_pool(load.messages) for load in loads]
        self._written = [[0] * len(load.shares) for load in loads]
        self._producer = make_producer(
            KafkaSettings({"bootstrap.servers": kafka, "linger.ms": "5"}),
            CLIENT_ID,
            lambda error: None,
        )

    def write_up_to(self, due: Sequence[Sequence[int]]) -> None:
        """Write until each partition of each load has so many messages."""
        for load, pool, written, wanted in zip(self._loads, self._pools, self._written, due, strict=True):
            for partition, until in enumerate(wanted):
                for number in range(written[partition], until):
                    self._write(load.topic, partition, pool[(number * len(load.shares) + partition) % len(pool)])
                written[partition] = max(written[partition], until)
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        """Wait until the broker has everything.

        Raises:
            FatalError: it has not taken all of it.
        """
        left = self._producer.flush(_FLUSH_S)
        self._check()
        if left:
            raise FatalError(f"the broker has not taken {left} messages within {_FLUSH_S:g} s")

    def _write(self, topic: str, partition: int, message: bytes) -> None:
        while True:
            try:
                self._producer.produce(topic, message, partition=partition, on_delivery=self._hear)
            except BufferError:
                self._producer.poll(_FULL_S)
            else:
                return

    def _hear(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(error)
        else:
            self.delivered[message.topic(), message.partition()] += 1

    def _check(self) -> None:
        if self._failed:
            raise FatalError(f"the broker has not taken a message: {self._failed[0]}")

    def counts(self) -> dict[str, list[int]]:
        """Return how many messages each partition has delivered, by topic."""
        return {load.topic: [self.delivered[load.topic, p] for p in range(len(load.shares))] for load in self._loads}


def fill(kafka: str, loads: Sequence[TopicLoad], rows: Sequence[float]) -> int:
    """Write about so many messages to each topic at once, and return how many to all."""
    due = [[int(count * share) for share in load.shares] for load, count in zip(loads, rows, strict=True)]
    injector = Injector(kafka, loads)
    injector.write_up_to(due)
    injector.flush()
    return sum(map(sum, due))


def inject(orders: Orders, note: Callable[[str], object]) -> None:
    """Write all phases at their pace; ``note`` takes a line of JSON at a time.

    They begin when the process is ready, however long that took: a burst to catch up is no phase.
    """
    injector = Injector(orders.kafka, orders.loads)
    begin_ns = time.monotonic_ns() + int(orders.lead_s * 1e9)
    length_s = max(sum(phase.seconds for phase in load.phases) for load in orders.loads)
    noted_s = 0.0
    while True:
        at_s = (time.monotonic_ns() - begin_ns) / 1e9
        injector.write_up_to([load.due(min(at_s, length_s)) for load in orders.loads])
        if at_s >= noted_s:
            note(_note(injector, begin_ns))
            noted_s = at_s + NOTE_S
        if at_s >= length_s:
            break
        time.sleep(_PACE_S)
    injector.flush()
    note(_note(injector, begin_ns))


def _note(injector: Injector, begin_ns: int) -> str:
    at_ns, cpu_s = time.monotonic_ns(), time.process_time()
    return json.dumps({"begin_ns": begin_ns, "at_ns": at_ns, "cpu_s": cpu_s, "delivered": injector.counts()}) + "\n"


def _pool(reference: str) -> list[bytes]:
    pool: list[bytes] = attribute(reference)()
    return pool


def main(argv: Sequence[str]) -> int:
    """Carry out the orders on stdin."""
    orders = Orders.parse(sys.stdin.readline())
    with Path(argv[0]).open("w", encoding="utf-8", buffering=1) as notes:
        inject(orders, notes.write)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
