"""Every error that a broker means to pass, in answer to every request of the connector (docs/design/fault-tests.md K5).

Our writers, publisher and reader against librdkafka's mock cluster. Its transactions are none: the marker of what was
committed, which such a cluster forgets, is answered here from whether the commit returned, so that nothing is said
about exactly once, only that nothing hangs, gets lost in silence or fails without a name. Called by the tests with a
few pairs, and by ``make chaos`` with all.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.chaos.experiment import ChaosError, ChaosReport
from penstock.engine.connectors.kafka.encoded import MessageEncoder, MessageLayout
from penstock.engine.connectors.kafka.expiry import ExpiryWatch
from penstock.engine.connectors.kafka.fetcher import Fetcher
from penstock.engine.connectors.kafka.formats.encoders import sink_format
from penstock.engine.connectors.kafka.formats.raw import RawValues
from penstock.engine.connectors.kafka.kept_epochs import EpochFile, KeptEpochs
from penstock.engine.connectors.kafka.publisher import KafkaPublisher
from penstock.engine.connectors.kafka.reader import KafkaPosition, KafkaReader, PartitionFeed
from penstock.engine.connectors.kafka.receipts import Marker, to_receipt
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.sink_commits import SinkCommits
from penstock.engine.connectors.kafka.transactions import Publish
from penstock.engine.connectors.kafka.writer import SendingWriter
from penstock.model.errors import BugError, PenstockError, RetryableError
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.sink_folder import SinkFolder
from tests.chaos.kafka_mock import TRANSPORT, Api, MockCluster, error_name, error_text

PASSING = (
    *(2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103, 106),
    TRANSPORT,
)
"""The codes that Kafka's protocol calls retriable, and a connection that breaks."""

TOPIC_GONE = (3, 100, 103)
"""After these a user may be told that there is no such topic; after the others the job must be able to go on."""

LONGEST_S = 120.0
MOST_ERRORS = 3
AT_ONCE = 8
ROWS = 200
TOPIC, ID = "out", "penstock-errors-out-0"
SCHEMA = pa.schema([("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class Pair:
    """An error in answer to a request, so many ``times`` in a row, while the connector is at ``work``."""

    api: Api
    code: int
    work: str
    times: int = 1

    def __str__(self) -> str:
        return f"{self.times} x {error_name(self.code)} to {self.api.name} ({self.work})"


def pairs(seed: int) -> list[Pair]:
    """Return all pairs, in an order and with numbers of errors that the seed draws."""
    rng = np.random.default_rng(seed)
    made = [
        Pair(api, code, work, int(rng.integers(1, MOST_ERRORS + 1)))
        for work, (apis, _) in _WORK.items()
        for api in apis
        for code in PASSING
    ]
    return [made[index] for index in rng.permutation(len(made))]


def request_errors(folder: Path, seed: int, count: int | None = None) -> ChaosReport:
    """K5: try pairs, all or so many, each on a cluster of its own.

    ``kills`` of the report are the pairs, ``restarts`` those which ended with a named error (after that, what may be
    tried again was, and worked), ``points`` how many there were by request; ``failure`` is the first one that lost
    something, hung, failed without a name or as if it could not be tried again.
    """
    report = ChaosReport(seed)
    chosen = pairs(seed)[:count]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        tried = threads.map(lambda numbered: _bounded(folder / str(numbered[0]), numbered[1]), enumerate(chosen))
        for pair, (failed, wrong) in zip(chosen, tried, strict=True):
            report.kills += 1
            report.points[pair.api.name] = report.points.get(pair.api.name, 0) + 1
            report.restarts += failed is not None
            if wrong is None and (failed is None or isinstance(failed, RetryableError)):
                report.rows += ROWS
            if wrong is not None and report.failure is None:
                report.failure = f"{pair}: {wrong}"
    return report


def _bounded(folder: Path, pair: Pair) -> tuple[PenstockError | None, str | None]:
    """Try a pair; return the named error it ended with, and what is wrong."""
    ended: list[tuple[PenstockError | None, str | None]] = []
    thread = threading.Thread(target=lambda: ended.append(_judged(folder, pair)), name="errors", daemon=True)
    thread.start()
    thread.join(LONGEST_S)
    return ended[0] if ended else (None, f"nothing came of it in {LONGEST_S:.0f} s")


def _judged(folder: Path, pair: Pair) -> tuple[PenstockError | None, str | None]:
    try:
        return try_pair(folder, pair), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def try_pair(folder: Path, pair: Pair) -> PenstockError | None:
    """Try a pair; return the named error it ended with, None if everything arrived at once.

    Raises:
        ChaosError: rows are missing, an error has no name, or the error was never met.
        Exception: something that no connector may raise.
    """
    with MockCluster() as cluster:
        cluster.create_topic(TOPIC)
        bench = _Bench(cluster, folder, pair)
        named: PenstockError | None = None
        try:
            _WORK[pair.work][1](bench)
        except BugError:
            raise
        except PenstockError as error:
            named = error
            if not any(name in str(error) for name in (error_name(pair.code), error_text(pair.code))):
                raise ChaosError(f"an error that does not say {error_name(pair.code)}: {error}") from error
            if pair.code not in TOPIC_GONE and not isinstance(error, RetryableError):
                raise ChaosError(f"an error that passes ends the job: {type(error).__name__}: {error}") from error
        if not bench.met:
            raise ChaosError("no such request was made")
        cluster.clear_errors(pair.api)
        if isinstance(named, RetryableError):
            _WORK[pair.work][1](bench)
        if named is None or isinstance(named, RetryableError):
            bench.check()
        return named


class _Bench:
    """What one pair is tried with."""

    def __init__(self, cluster: MockCluster, folder: Path, pair: Pair) -> None:
        self.cluster, self.pair = cluster, pair
        self.settings = KafkaSettings({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self.kept = KeptEpochs(SinkFolder(LocalFiles(folder), "out"))
        self.rows = pa.record_batch([[b"%d" % number for number in range(ROWS)]], schema=SCHEMA)
        self.encoder = MessageEncoder(
            SCHEMA, MessageLayout(), sink_format("raw").make, alone=True, limit_bytes=1_000_000, where=TOPIC
        )
        self.markers: dict[str, Marker] = {}
        self.receipts: list[object] = []
        self._before: int | None = None

    @property
    def met(self) -> bool:
        """Whether a request was answered with the error."""
        return self._before is not None and self.cluster.requests()[self.pair.api] > self._before

    def push(self) -> None:
        """Let the pair's errors come, the first time."""
        if self._before is None:
            self._before = self.cluster.requests()[self.pair.api]
            self.cluster.push_errors(self.pair.api, [self.pair.code] * self.pair.times)

    def check(self) -> None:
        """Look whether everything is in the topic."""
        found = _read(self.settings)
        missing = ROWS - len(found)
        if missing:
            raise ChaosError(f"{missing} of {ROWS} rows are missing")


class _Answered:
    """The publisher as a `Transport`, with a marker that the cluster would forget."""

    def __init__(self, bench: _Bench, transactional_id: str) -> None:
        self._publisher = KafkaPublisher(bench.settings, TOPIC, ID, transactional_id, bench.kept)
        self._markers, self._id = bench.markers, transactional_id
        self._sent: Marker | None = None

    def open(self) -> None:
        self._publisher.open()

    def marker(self) -> Marker | None:
        self._publisher.marker()
        return self._markers.get(self._id)

    def send(self, publish: Publish) -> None:
        self._sent = publish.marker
        self._publisher.send(publish)

    def commit(self) -> None:
        assert self._sent is not None
        self._publisher.commit()
        self._markers[self._id] = self._sent

    def close(self) -> None:
        self._publisher.close()


def _send(bench: _Bench) -> None:
    """At least once: rows leave at once."""
    bench.push()
    watch = ExpiryWatch(TOPIC, None, lambda: 0)
    writer = SendingWriter(bench.encoder, bench.settings, TOPIC, ID, watch)
    try:
        writer.write(bench.rows)
        writer.close()
    except BaseException:
        writer.abort()
        raise


def _publish(bench: _Bench, *, from_start: bool) -> None:
    """Exactly once: ids are taken, then rows are published with the checkpoint they are of, or after a restart."""
    commits = SinkCommits([ID], lambda name: _Answered(bench, name), bench.kept)
    try:
        if from_start:
            bench.push()
        commits.recover(1 if bench.receipts else None, bench.receipts)
        if not bench.receipts:
            messages = EpochFile()
            messages.add(bench.encoder.encode(bench.rows))
            bench.receipts = [to_receipt(bench.kept.keep(commits.claim, ID, 1, messages))]
            bench.push()
            commits.commit(1, bench.receipts)
    finally:
        commits.close()


def _fetch(bench: _Bench) -> None:
    """The source: what lies in the topic is read."""
    if not bench.cluster.requests()[Api.PRODUCE]:
        _send(bench)
    bench.push()
    if len(_read(bench.settings)) < ROWS:
        raise ChaosError("rows of the topic are never read")


def _read(settings: KafkaSettings) -> set[bytes]:
    """Return the rows of the topic, in whatever time it takes to find all."""
    fetcher = Fetcher(settings, ID, ID)
    queue = fetcher.attach(TOPIC, 0, 0)
    reader = KafkaReader(
        RowMaker(RawValues(SCHEMA.field(0)), None, {}, ("value",)),
        KafkaPosition(0),
        PartitionFeed(
            take=lambda count, size: fetcher.queues.take(queue, count, size),
            reachable=lambda: fetcher.reachable,
            close=lambda: fetcher.detach(queue),
        ),
        end=None,
    )
    found: set[bytes] = set()
    until = time.monotonic() + LONGEST_S / 4
    try:
        while len(found) < ROWS and time.monotonic() < until:
            read = reader.read(ROWS)
            if read.rows is not None and read.rows.num_rows:
                found |= set(read.rows.column(0).to_pylist())
            else:
                time.sleep(0.005)
    finally:
        reader.close()
    return found


_ENDING = (Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT, Api.END_TXN)
_WORK: dict[str, tuple[Sequence[Api], Callable[[_Bench], None]]] = {
    "sending": ((Api.PRODUCE, Api.METADATA), _send),
    "reading": ((Api.FETCH, Api.METADATA), _fetch),
    "taking an id": (
        (Api.METADATA, Api.FIND_COORDINATOR, Api.INIT_PRODUCER_ID, *_ENDING),
        lambda bench: _publish(bench, from_start=True),
    ),
    "publishing": (
        (Api.PRODUCE, Api.ADD_PARTITIONS_TO_TXN, *_ENDING),
        lambda bench: _publish(bench, from_start=False),
    ),
}
"""What the connector is at, with the requests that it makes then."""
