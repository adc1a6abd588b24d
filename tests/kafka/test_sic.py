"""Messages that wait in a real broker are dropped by SIC; what is written, exactly once, is what the log says."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.engine.checkpoint.kept_files import read_kept_files
from penstock.engine.jobs.ledger import check_ledger
from penstock.state.checkpoints.manifest import LAST_EPOCH
from penstock.state.files.local_files import LocalFiles
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_overload import dear
from tests.kafka.reading import read_topic
from tests.kafka.test_source import Fields, MakeTopic

PARTITIONS = (0, 1)
AT_ONCE, PAUSE_S = 500, 0.5
"""So many messages of a millisecond's work come to each partition after each pause: twice as many as can be taken."""


@contextmanager
def fed(kafka: str, source: str) -> Iterator[list[int]]:
    """Write messages meanwhile; yields a list that has how many each partition got, once that is over."""
    over, counts = threading.Event(), list[int]()

    def feed() -> None:
        written = 0
        # One for all of them: a busy machine takes longer to begin a client than to send what it is to send.
        producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
        while not over.wait(PAUSE_S):
            for number in PARTITIONS:
                for message in range(AT_ONCE):
                    producer.produce(source, b'{"id":%d,"name":"n"}' % message, partition=number)
            assert producer.flush(60) == 0
            written += AT_ONCE
        counts.append(written)

    with ThreadPoolExecutor(1) as pool:
        feeding = pool.submit(feed)
        try:
            yield counts
        finally:
            over.set()
            feeding.result()


def start(kafka: str, source: str, sink: str, folder: Path, **options: Any) -> Handle:
    job = ps.Job()
    places = {"partition": "part", "offset": "place"}
    orders = ps.read_kafka(source, kafka=kafka, schema=Fields, metadata=places, job=job).name("orders")
    worked = orders.map_batches(partial(dear, row_ns=1_000_000)).name("worked")
    worked.select("part", "place").write_kafka(sink, kafka=kafka).name("out").with_min_accuracy(0.05)
    return job.start("sic", checkpoint_dir=folder, checkpoint_interval="200ms", batch_rows=20, **options)


def test_what_is_written_is_what_the_log_says_over_switching_off_and_a_restart_without_control(
    kafka: str, topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink = topic(2), topic()
    control = ps.Control(shed="sic", mode="act", period_s=1)
    handle = start(kafka, source, sink, tmp_path, control=control)
    with fed(kafka, source) as counts:
        until(lambda: handle.metrics().ledger.shed > 500, handle)
        until(
            lambda: (
                (status := handle.metrics().shedding) is not None and all(each.current < 0.9 for each in status.queries)
            ),
            handle,
        )
        said = handle.metrics()
        until(lambda: handle.metrics().source_rows > said.source_rows + 2_000, handle)
        handle.limit(shed="off")
        until(lambda: (status := handle.metrics().shedding) is not None and status.shed == "off", handle)
        off = handle.metrics()
        # Behind what is under way nothing more is shed.
        until(lambda: handle.metrics().source_rows > off.source_rows + 300, handle)
        before = handle.metrics()
        until(lambda: handle.metrics().source_rows > before.source_rows + 300, handle)
    metrics = handle.stop()
    assert metrics.ledger.shed <= before.ledger.shed + 20
    check_ledger(metrics.ledger, ended=False)

    again = start(kafka, source, sink, tmp_path)
    until(lambda: again.metrics().source_rows == len(PARTITIONS) * counts[0], again)
    # Nothing more is.
    assert again.stop().ledger.shed == metrics.ledger.shed

    log = read_kept_files(LocalFiles(tmp_path / "sic"), LAST_EPOCH)
    assert {item.keep for item in log} == {0.0, 1.0} and any(item.sic for item in log)
    dropped = {
        (int(item.partition), place) for item in log if item.keep == 0.0 for place in range(item.start, item.stop)
    }
    assert len(dropped) == metrics.ledger.shed
    messages = [json.loads(message.value or b"") for message in read_topic(kafka, sink)]
    written = [(message["part"], message["place"]) for message in messages]
    everything = {(number, place) for number in PARTITIONS for place in range(counts[0])}
    assert sorted(written) == sorted(everything - dropped)
    assert all(message["biased"] is (message["accuracy"] < 1.0) for message in messages)
    assert {message["biased"] for message in messages} == {True, False}
