"""K7 (docs/design/fault-tests.md 2): a transaction's end, or its answer, comes late; no other one is affected.

``PENSTOCK_KAFKA_DELAYS`` is how many (two by default, of seconds); then each takes 5 to 60 s, and the sink waits as
long as it does in production.
"""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.dev.kafka_broker import LocalBroker
from penstock.engine.connectors.kafka import publisher
from penstock.engine.connectors.kafka.admin import create_topic
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.model.errors import RetryableError
from tests.chaos.tcp_proxy import END_TXN, Held, TcpProxy, point_at, proxied_listener
from tests.kafka.reading import ids_in
from tests.kafka.test_sink_exactly_once import Running

DELAYS = int(os.environ.get("PENSTOCK_KAFKA_DELAYS", "0"))
SEED = int(os.environ.get("PENSTOCK_KAFKA_SEED", "0"))
AT_ONCE = 5
SHORT_S = 1.0
"""Instead of the 30 s that a sink waits for a call."""

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[TcpProxy]:
    """A proxy that leads to a broker of its own."""
    with TcpProxy() as made, LocalBroker(tmp_path / "broker", listeners=[proxied_listener(made)]) as broker:
        point_at(made, broker)
        yield made


class Publishing:
    """A sink with a topic of its own that publishes one number in each epoch."""

    def __init__(self, proxy: TcpProxy, folder: Path, name: str) -> None:
        create_topic(KafkaSettings(proxy.target), name)
        self._proxy, self._folder, self._topic = proxy, folder / name, name
        self._epoch = 0
        self.running = self._start().recover()

    def publish(self) -> None:
        """Publish the next number; a sink that gives up is started again from the checkpoint, as a job does it."""
        self._epoch += 1
        receipts = self.running.prepare(self._epoch, self._epoch)
        try:
            self.running.sink.commit(self._epoch, receipts)
        except RetryableError:
            self.close()
            self.running = self._start().recover(self._epoch, receipts)

    def check(self) -> None:
        """Every number is there once, for those who read what is committed."""
        assert ids_in(self._proxy.target, self._topic) == list(range(1, self._epoch + 1))

    def close(self) -> None:
        for writer in self.running.writers:
            writer.close()

    def _start(self) -> Running:
        return Running(self._proxy.address, self._topic, self._folder, 1, accept=False)


@pytest.mark.long("waits for answers that are held back; test_request_errors has errors that pass")
def test_k7_late_ends_of_transactions(proxy: TcpProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(SEED)
    if not DELAYS:
        monkeypatch.setattr(publisher, "CALL_S", SHORT_S)
    left = DELAYS or 2
    sinks = [Publishing(proxy, tmp_path, f"out-{number}") for number in range(min(left, AT_ONCE))]
    with ThreadPoolExecutor(len(sinks)) as threads:

        def publish() -> None:
            for future in [threads.submit(sink.publish) for sink in sinks]:
                future.result()

        publish()
        while left > 0:
            held: list[Held] = []
            for number in range(min(left, len(sinks))):
                seconds = draw.uniform(5.0, 60.0) if DELAYS else 2.5 * SHORT_S
                held.append(proxy.hold_next(END_TXN, seconds, ("request", "answer")[number % 2]))
            left -= len(held)
            publish()
            assert all(one.caught.is_set() for one in held)
            # While what was held is on its way, and after it came; an answer to a client that is gone goes nowhere.
            publish()
            for one in held[::2]:
                assert one.passed.wait(90.0)
            publish()
            for sink in sinks:
                sink.check()
    for sink in sinks:
        sink.close()
