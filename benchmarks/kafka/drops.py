"""What it costs to drop a message of Kafka that is not decoded, beside fetching it: the CPU of this process.

``python -m penstock.benchmarks.kafka.drops REQUEST`` measures one side, and prints its CPU seconds as a line of JSON.
"""

import json
import sys
import threading
import time
from collections.abc import Sequence

import penstock as ps
from penstock.benchmarks.nexmark.run import CountingSink
from penstock.dsl.job import Job, embed
from penstock.engine.connectors.kafka import clients
from penstock.engine.connectors.kafka.fetcher import MOST_MESSAGES, WAIT_S, Fetcher
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.config import LoopOptions
from penstock.model.errors import FatalError
from penstock.model.job_graph import SourceSpec
from penstock.model.keep_rates import KeepRates
from penstock.runs.run_options import RunOptions

CLIENT, FETCH, DROP = "client", "fetch", "drop"
"""The client of Kafka alone; the thread of the connector that fetches into its queue, too; a job that drops all."""

SIDES = (CLIENT, FETCH, DROP)
TOPIC = "dropped"
"""One partition of JSON objects with ``group`` and ``value``."""

_READER, _GROUP = "messages", "penstock-drops"
_AT_ONCE, _AT_ONCE_BYTES = 32_768, 12 << 20


def cpu_s(side: str, kafka: str, rows: int) -> float:
    """Return the CPU seconds of this process while it reads so many messages."""
    return {CLIENT: _client_s, FETCH: _fetch_s, DROP: _drop_s}[side](kafka, rows)


def _client_s(kafka: str, rows: int) -> float:
    from confluent_kafka import TopicPartition

    consumer = clients.make_consumer(KafkaSettings(kafka), _GROUP, _GROUP, lambda error: None)
    begun_s = time.process_time()
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    read = 0
    while read < rows:
        # As the connector does: what is there, once something is.
        first = consumer.poll(WAIT_S)
        block = [] if first is None else [first, *consumer.consume(MOST_MESSAGES - 1, 0)]
        read += sum(message.error() is None for message in block)
    taken_s = time.process_time() - begun_s
    consumer.close()
    return taken_s


def _fetch_s(kafka: str, rows: int) -> float:
    fetcher = Fetcher(KafkaSettings(kafka), _GROUP, _GROUP)
    changed = threading.Event()
    begun_s = time.process_time()
    queue = fetcher.attach(TOPIC, 0, 0)
    queue.on_change = changed.set
    read = 0
    while read < rows:
        taken = fetcher.queues.take(queue, _AT_ONCE, _AT_ONCE_BYTES)
        if taken.messages is None:
            changed.wait(WAIT_S)
            changed.clear()
        else:
            read += len(taken.messages)
    taken_s = time.process_time() - begun_s
    fetcher.detach(queue)
    return taken_s


def _drop_s(kafka: str, rows: int) -> float:
    job = Job()
    schema = {"group": int, "value": float}
    read = ps.read_kafka(TOPIC, kafka=kafka, schema=schema, until="latest", job=job).name(_READER)
    read.write(CountingSink()).name("all").with_min_accuracy(0.0)
    for node in job.graph.operators.values():
        if isinstance(node.spec, SourceSpec):
            # What ends by itself is never shed.
            node.spec.source.bounded = False
    running = embed(job, RunOptions("drops", 1, None, LoopOptions()))
    running.attempt.set_keep(KeepRates({_READER: 0.0}))
    begun_s = time.process_time()
    running.run()
    taken_s = time.process_time() - begun_s
    shed = running.metrics().ledger.shed
    if shed != rows:
        raise FatalError(f"{shed} of {rows} messages were dropped")
    return taken_s


def main(argv: Sequence[str]) -> int:
    """Measure what a JSON argument describes."""
    print(json.dumps({"cpu_s": cpu_s(**json.loads(argv[0]))}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
