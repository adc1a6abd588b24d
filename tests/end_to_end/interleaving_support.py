"""What the interleaving tests share: events in disorder, sources that deal them out, and a loop stepped by hand."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.source_partition import LONGEST_RETRY_NS
from penstock.engine.dataflow.worker import Done, Waiting
from penstock.engine.executors.embedded import EmbeddedJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.ledger import Ledger, check_ledger, read_ledger
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source
from tests.engine.support import ManualClock
from tests.random_settings import with_random

SECOND = 1_000_000
DELAY_US = 4 * SECOND
SIZE_US = 5 * SECOND
HOP_US = 2 * SECOND
GAP_US = 2 * SECOND
FIELDS = pa.schema({"id": pa.int64(), "key": pa.string(), "value": pa.int64(), "at": pa.timestamp("us")})

Found = Counter[tuple[Any, ...]]
"""Rows as tuples, times in microseconds, each as often as it comes."""


@dataclass(frozen=True)
class Event:
    """A row in the order of arrival."""

    id: int
    key: str | None
    value: int | None
    at: int


def events(chance: Random, count: int, disorder_us: int = DELAY_US) -> list[Event]:
    """Return events over a minute or less, each at most ``disorder_us`` behind the newest before it."""
    times = sorted(chance.randrange(0, count * SECOND // 3 + 1) for _ in range(count))
    # Equal times, gaps of exactly a session's, and times on the bounds of windows are what goes wrong first.
    times = [time - time % SECOND if chance.random() < 0.4 else time for time in times]
    arrival = sorted(times, key=lambda time: time + chance.randrange(disorder_us + 1))
    keys = ["a", "b", "c", "longer than an inline text", None][: chance.randint(1, 5)]
    return [
        Event(number, chance.choice(keys), chance.choice([None, *range(-3, 9)]), time)
        for number, time in enumerate(arrival)
    ]


def table(rows: Sequence[Event]) -> pa.Table:
    columns = [[getattr(row, name) for row in rows] for name in FIELDS.names]
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, FIELDS.types, strict=True)], schema=FIELDS)


class Tap:
    """How many rows a partition may give; what it has given."""

    def __init__(self, rows: Sequence[Event]) -> None:
        self.rows = rows
        self.allowed = len(rows)
        self.given = 0

    @property
    def reached_us(self) -> int:
        """The watermark of what was given."""
        times = [row.at for row in self.rows[: self.given]]
        return max(times) - DELAY_US if times else START_OF_TIME_US


class Dealt(Source):
    """Some partitions whose readers give any number of rows at a time, or nothing for a while."""

    def __init__(self, rows: Sequence[Event], chance: Random) -> None:
        parts: list[list[Event]] = [[] for _ in range(chance.randint(1, 4))]
        for row in rows:
            chance.choice(parts).append(row)
        self.taps = [Tap(part) for part in parts]
        self._seed = chance.random()

    @property
    def schema(self) -> pa.Schema:
        return FIELDS

    def partitions(self, parallelism: int) -> list[str]:
        return [str(number) for number in range(len(self.taps))]

    def open(self, partition: str, position: Any | None) -> Reader:
        return DealtReader(self.taps[int(partition)], Random(f"{self._seed} {partition}"))


class DealtReader(Reader):
    def __init__(self, tap: Tap, chance: Random) -> None:
        self._tap = tap
        self._chance = chance

    def read(self, max_rows: int) -> Read:
        tap = self._tap
        if tap.given == len(tap.rows):
            return ENDED
        if tap.given == tap.allowed or self._chance.random() < 0.2:
            return NOTHING
        until = min(tap.allowed, tap.given + self._chance.randint(1, min(max_rows, 20)))
        rows = tap.rows[tap.given : until]
        tap.given = until
        return Read(table(rows).combine_chunks().to_batches()[0])

    def position(self) -> Any:
        return None


@dataclass(frozen=True)
class Setting:
    """How a pipeline is cut and interleaved."""

    source: str
    parallelism: int
    batch_rows: int
    channel_bytes: int
    linger_ms: int
    seed: int


def settings_of(chance: Random) -> Setting:
    return Setting(
        source=chance.choice(["memory", "files", "dealt"]),
        parallelism=chance.randint(1, 3),
        batch_rows=chance.choice([1, 2, 7, chance.randint(1, 50), 300]),
        channel_bytes=chance.choice([1, 100, 2_000]),
        linger_ms=chance.choice([0, 10]),
        seed=chance.getrandbits(32),
    )


PLAIN = Setting("memory", 1, 1_000, 1 << 20, 0, 0)


class Inputs:
    """Reads a data set in the way of a setting; every call makes another source of the job."""

    def __init__(self, job: ps.Job, setting: Setting, folder: Path) -> None:
        self.job = job
        self._setting = setting
        self._folder = folder
        self._chance = Random(setting.seed)
        self._made = 0
        self.dealt: list[Dealt] = []

    def read(self, rows: Sequence[Event]) -> ps.Stream:
        self._made += 1
        options: dict[str, Any] = {"time": "at", "watermark": DELAY_US / SECOND, "job": self.job}
        if self._setting.source == "dealt":
            self.dealt.append(Dealt(rows, self._chance))
            return ps.read(self.dealt[-1], **options)
        parts = self._chance.randint(1, 5)
        cuts = sorted(self._chance.randrange(len(rows) + 1) for _ in range(parts - 1))
        pieces = [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        if self._setting.source == "memory":
            return ps.read_memory([table(piece) for piece in pieces], schema=FIELDS, **options)
        directory = self._folder / f"{self._setting.seed}-{self._made}"
        directory.mkdir()
        for number, piece in enumerate(pieces):
            pq.write_table(table(piece), directory / f"{number}.parquet", row_group_size=self._chance.randint(1, 30))
        return ps.read_parquet(directory, **options)


Pipeline = Callable[[Inputs, Sequence[Event], Sequence[Event]], ps.Stream]


def run(
    pipeline: Pipeline, rows: Sequence[Event], others: Sequence[Event], setting: Setting, folder: Path
) -> tuple[Found, Ledger]:
    """Step a pipeline to its end; return what its sink has, and the ledger."""
    job, clock = ps.Job(), ManualClock()
    result = pipeline(Inputs(job, setting, folder), rows, others).collect()
    embedded = embed(job, setting, folder, clock)
    step_to_the_end(embedded, clock, setting)
    embedded.run()
    ledger = read_ledger(embedded.build)
    check_ledger(ledger, ended=True)
    assert ledger.dead_lettered == 0
    return tuples(result.table()), ledger


def embed(job: ps.Job, setting: Setting, folder: Path, clock: ManualClock) -> EmbeddedJob:
    """Make a job ready to be stepped."""
    options = with_random(
        batch_rows=setting.batch_rows, channel_bytes=setting.channel_bytes, linger_ms=setting.linger_ms, key_groups=16
    )
    return EmbeddedJob(JobPlan("interleaved", job.plan(setting.parallelism), options, folder), clock=clock)


def step_to_the_end(job: EmbeddedJob, clock: ManualClock, setting: Setting) -> None:
    """Step the loop under random shares and random time; watermarks never regress and nothing hangs."""
    chance, tight, batch_rows = Random(setting.seed), setting.channel_bytes == 1, setting.batch_rows
    build = job.build
    channels = [
        (half, build.receivers[edge][pair]) for edge in build.senders for pair, half in build.senders[edge].items()
    ]
    watermarks = {id(instance): START_OF_TIME_US for instance in job.build.instances}
    for _ in range(1_000_000):
        outcome = job.worker.step()
        for instance in job.build.instances:
            reached = watermark(instance)
            assert reached >= watermarks[id(instance)]
            watermarks[id(instance)] = reached
        if tight:
            waiting = [sender.sent_rows - receiver.received_rows for sender, receiver in channels]
            assert max(waiting, default=0) <= batch_rows, "a channel took a batch for which it had no room"
        if isinstance(outcome, Done):
            return
        if isinstance(outcome, Waiting):
            assert outcome.until_ns is not None, "nothing will ever run again"
            assert outcome.until_ns > clock.monotonic_ns(), "the loop spins"
            clock.advance_ns(outcome.until_ns - clock.monotonic_ns())
        clock.advance_ns(chance.choice([0, 1_000, 1_000_000, 400_000_000]))
        if chance.random() < 0.1:
            job.worker.set_share(chance.choice(job.build.instances).name, chance.choice([0.01, 0.5, 1.0, 20.0]))
    raise AssertionError("the job does not end")


def watermark(instance: Instance) -> int:
    if instance.gate is not None:
        return instance.gate.watermark_us
    assert instance.head is not None
    return instance.head.watermark_us


def tuples(found: pa.Table) -> Found:
    columns = []
    for column in found.columns:
        columns.append((column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist())
    return Counter(zip(*columns, strict=True))


def step_until_quiet(job: EmbeddedJob, clock: ManualClock) -> None:
    """Step until nothing comes any more, but not so long that a source counts as idle.

    A source that cannot say when it has something is left alone for up to 32 ms, several times if it had nothing.
    """
    until_ns = clock.monotonic_ns() + 10 * LONGEST_RETRY_NS
    while clock.monotonic_ns() < until_ns:
        outcome = job.worker.step()
        if isinstance(outcome, Done):
            return
        if isinstance(outcome, Waiting):
            assert outcome.until_ns is not None
            clock.advance_ns(outcome.until_ns - clock.monotonic_ns())
