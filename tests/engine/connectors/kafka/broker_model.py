"""What a broker does for transactional ids, and a job on top that publishes numbers by checkpoints; both can fail.

A model for the decisions alone: how real brokers behave is tested on one (tests/kafka).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.engine.connectors.kafka.kept_epochs import EpochFile, KeptEpochs, missing_files
from penstock.engine.connectors.kafka.receipts import Marker, to_receipt
from penstock.engine.connectors.kafka.sink_commits import SinkCommits, TroubleError
from penstock.engine.connectors.kafka.transactions import Broke, Fenced, Publish
from penstock.model.errors import PenstockError

SCHEMA = pa.schema([("value", pa.int64())])


class Death(BaseException):
    """The process is no more."""


@dataclass
class Broker:
    """Committed values, markers, and for each id the newest producer with its open transaction."""

    values: list[int] = field(default_factory=list)
    markers: dict[str, Marker] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    opened: dict[str, tuple[list[int], Marker]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """What goes wrong with the next calls: ``before`` and ``after`` they took effect, ``no`` nothing does."""


class ModelTransport:
    """A `Transport` to the model."""

    def __init__(self, broker: Broker, name: str, kept: KeptEpochs) -> None:
        self._broker, self._name, self._kept = broker, name, kept
        self._producer = -1

    def open(self) -> None:
        def effect() -> None:
            self._broker.producers[self._name] = self._producer = self._broker.producers.get(self._name, 0) + 1
            self._broker.opened.pop(self._name, None)

        self._call(effect)

    def marker(self) -> Marker | None:
        self._call(lambda: None)
        return self._broker.markers.get(self._name)

    def send(self, publish: Publish) -> None:
        values: list[int] = []
        for receipt in publish.receipts:
            batches = self._kept.read(receipt)
            if batches is None and not publish.may_be_gone:
                raise TroubleError(Fenced(missing_files([receipt])))
            values += [value for batch in batches or () for value in batch.column(0).to_pylist()]

        def effect() -> None:
            self._check()
            self._broker.opened[self._name] = (values, publish.marker)

        self._call(effect)

    def commit(self) -> None:
        def effect() -> None:
            self._check()
            values, self._broker.markers[self._name] = self._broker.opened.pop(self._name)
            self._broker.values += values

        self._call(effect)

    def close(self) -> None:
        self._producer = -1

    def _check(self) -> None:
        if self._broker.producers[self._name] != self._producer:
            raise TroubleError(Fenced())

    def _call(self, effect: Callable[[], None]) -> None:
        fault = self._broker.faults.pop(0) if self._broker.faults else "no"
        if fault != "before":
            effect()
        if fault != "no":
            raise TroubleError(Broke(f"it failed {fault} it took effect"))


class Files:
    """Kept files in memory."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def write(self, name: str, content: "bytes | Iterator[bytes]", /) -> int:
        self.contents[name] = content if isinstance(content, bytes) else b"".join(content)
        return len(self.contents[name])

    def chunks(self, name: str, /) -> Iterator[bytes]:
        if name not in self.contents:
            raise FileNotFoundError(name)
        yield self.contents[name]

    def list(self) -> list[str]:
        return sorted(self.contents)

    def delete(self, *names: str) -> None:
        for name in names:
            self.contents.pop(name, None)


@dataclass
class World:
    """What outlives processes: the broker, the kept files, and the checkpoints (position and receipts by epoch)."""

    broker: Broker = field(default_factory=Broker)
    files: Files = field(default_factory=Files)
    checkpoints: dict[int, tuple[int, list[object]]] = field(default_factory=dict)
    starts: int = 0

    def draw(self) -> str:
        self.starts += 1
        return f"s{self.starts}"


class Process:
    """One start of the job. It has read the checkpoint to go on from; the steps come one by one, in this order:
    `recover`, then again and again `write`, `prepare`, `complete`, `commit`.
    """

    def __init__(self, world: World, parallelism: int, *, epoch: int | None = None, accept: bool = False) -> None:
        self.world = world
        self.restored = max(world.checkpoints, default=None) if epoch is None else epoch
        self.position, self._old_receipts = world.checkpoints.get(self.restored or 0, (0, []))
        self._last = max(world.checkpoints, default=0)
        self._ids = [f"id-{instance}" for instance in range(parallelism)]
        self._kept = KeptEpochs(world.files)
        make = lambda name: ModelTransport(world.broker, name, self._kept)  # noqa: E731
        self._commits = SinkCommits(self._ids, make, self._kept, accept_duplicates=accept, draw=world.draw)
        self._writing = [EpochFile() for _ in self._ids]
        self._receipts: list[object] = []
        self.next_step = "recover"

    def step(self, rows: int) -> None:
        getattr(self, f"_{self.next_step}")(rows)

    def _recover(self, rows: int) -> None:
        self._commits.recover(self.restored, self._old_receipts)
        self._receipts = list(self._old_receipts)
        self.next_step = "write"

    def _write(self, rows: int) -> None:
        for value in range(self.position, self.position + rows):
            batch = pa.RecordBatch.from_pylist([{"value": value}], schema=SCHEMA)
            self._writing[value % len(self._ids)].add(batch)
        self.position += rows
        self.next_step = "prepare"

    def _prepare(self, rows: int) -> None:
        self._last += 1
        for name, messages in zip(self._ids, self._writing, strict=True):
            self._receipts.append(to_receipt(self._kept.keep(self._commits.claim, name, self._last, messages)))
        self.next_step = "complete"

    def _complete(self, rows: int) -> None:
        """An epoch that another process has completed is given up: its receipts go with the next."""
        taken = self._last in self.world.checkpoints
        if not taken:
            self.world.checkpoints[self._last] = (self.position, list(self._receipts))
        self.next_step = "write" if taken else "commit"

    def _commit(self, rows: int) -> None:
        self._commits.commit(self._last, self._receipts)
        self._receipts = []
        self.next_step = "write"


def finish(world: World, *, accept: bool = False) -> int:
    """Start once more, undisturbed, and publish everything; return how many values there should be."""
    world.broker.faults.clear()
    process = Process(world, 2, accept=accept)
    while True:
        process.step(3)
        if process.next_step == "write" and process.restored is not None and process._last > process.restored:
            return process.position
        if process.next_step == "write" and process.restored is None and process._last:
            return process.position


def failed(step: Callable[[], None]) -> PenstockError | None:
    """Return what a step raised."""
    try:
        step()
    except PenstockError as error:
        return error
    return None
