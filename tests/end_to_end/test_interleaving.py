"""Any split into batches, parallelism and interleaving gives the same answer for rows within the watermark delay.

The loop is stepped by hand, on a clock that only the test moves and under CPU shares that change at random, with
channels so small that producers wait all along. Answers are held against models written in plain Python.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock import col
from penstock.engine.elements import END_OF_TIME_US, START_OF_TIME_US
from penstock.engine.embedded import EmbeddedJob
from penstock.engine.instance import Instance
from penstock.engine.ledger import Ledger, check_ledger, read_ledger
from penstock.engine.worker import Done, Waiting
from penstock.model.config import LoopOptions
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source
from tests.engine.support import ManualClock

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
    step_to_the_end(embedded, clock, Random(setting.seed))
    embedded.run()
    ledger = read_ledger(embedded.build)
    check_ledger(ledger, ended=True)
    assert ledger.dead_lettered == 0
    return tuples(result.table()), ledger


def embed(job: ps.Job, setting: Setting, folder: Path, clock: ManualClock) -> EmbeddedJob:
    """Make a job ready to be stepped."""
    options = LoopOptions(
        batch_rows=setting.batch_rows, channel_bytes=setting.channel_bytes, linger_ms=setting.linger_ms, key_groups=16
    )
    return EmbeddedJob("interleaved", job.plan(setting.parallelism), options, folder, clock=clock)


def step_to_the_end(job: EmbeddedJob, clock: ManualClock, chance: Random) -> None:
    """Step the loop under random shares and random time; watermarks never regress and nothing hangs."""
    watermarks = {id(instance): START_OF_TIME_US for instance in job.build.instances}
    for _ in range(1_000_000):
        outcome = job.worker.step()
        for instance in job.build.instances:
            reached = watermark(instance)
            assert reached >= watermarks[id(instance)]
            watermarks[id(instance)] = reached
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


def total(rows: Sequence[Event]) -> int | None:
    values = [row.value for row in rows if row.value is not None]
    return sum(values) if values else None


def last(rows: Sequence[Event]) -> int:
    """The id of the newest row; of equally new ones the greatest."""
    return max((row.at, row.id) for row in rows)[1]


def grouped(rows: Sequence[Event], *windows: int) -> dict[tuple[str | None, int], list[Event]]:
    """Group by key and start of window: (size, hop)."""
    size, hop = windows
    groups = defaultdict(list)
    for row in rows:
        start = row.at // hop * hop
        while start > row.at - size:
            groups[row.key, start].append(row)
            start -= hop
    return groups


CALLS = {"n": ps.count(), "total": ps.sum_("value"), "last": ps.last("id")}


def tumbling(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.tumbling(SIZE_US / SECOND)).agg(**CALLS)


def tumbling_with_lateness(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    window = ps.tumbling(SIZE_US / SECOND, lateness="3s")
    return inputs.read(rows).key_by("key").window(window).agg(**CALLS)


def tumbling_with_updates(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.tumbling(SIZE_US / SECOND)).emit("updates").agg(**CALLS)


def tumbling_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    return window_model(rows, SIZE_US, SIZE_US)


def window_model(rows: Sequence[Event], size: int, hop: int) -> Found:
    return Counter(
        (key, start, start + size, len(group), total(group), last(group))
        for (key, start), group in grouped(rows, size, hop).items()
    )


def hopping(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.hopping(SIZE_US / SECOND, HOP_US / SECOND)).agg(**CALLS)


def hopping_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    return window_model(rows, SIZE_US, HOP_US)


def sessions(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.session(GAP_US / SECOND)).agg(**CALLS)


def sessions_with_updates(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.session(GAP_US / SECOND)).emit("updates").agg(**CALLS)


def session_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    return Counter(
        (group[0].key, group[0].at, group[-1].at + GAP_US, len(group), total(group), last(group))
        for group in session_groups(rows)
    )


def session_groups(rows: Sequence[Event]) -> Iterator[list[Event]]:
    for key in {row.key for row in rows}:
        group: list[Event] = []
        for row in sorted((row for row in rows if row.key == key), key=lambda row: row.at):
            if group and row.at > group[-1].at + GAP_US:
                yield group
                group = []
            group.append(row)
        yield group


def running(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").agg(**CALLS, least=ps.min_("value"))


def running_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    groups = defaultdict(list)
    for row in rows:
        groups[row.key].append(row)
    return Counter(
        (key, len(group), total(group), last(group), min((r.value for r in group if r.value is not None), default=None))
        for key, group in groups.items()
    )


def counts_of_counts(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return running(inputs, rows, others).key_by("n").agg(keys=ps.count(), total=ps.sum_("total"))


def counts_of_counts_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    groups = defaultdict(list)
    for _, n, amount, _, _ in running_model(rows, others):
        groups[n].append(amount)
    sums = {n: [amount for amount in amounts if amount is not None] for n, amounts in groups.items()}
    return Counter((n, len(amounts), sum(sums[n]) if sums[n] else None) for n, amounts in groups.items())


def busiest(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    # Results leave 3 s after their window's end and must not be late for the next one.
    window = ps.hopping(SIZE_US / SECOND, HOP_US / SECOND, lateness="3s")
    counts = inputs.read(rows).key_by("key").window(window).agg(n=ps.count())
    return counts.window(ps.tumbling(HOP_US / SECOND)).agg(most=ps.max_("n"), keys=ps.count())


def busiest_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    groups = defaultdict(list)
    for (_, start), group in grouped(rows, SIZE_US, HOP_US).items():
        # A result is of the last microsecond of its window.
        groups[(start + SIZE_US - 1) // HOP_US * HOP_US].append(len(group))
    return Counter((start, start + HOP_US, max(sizes), len(sizes)) for start, sizes in groups.items())


def union(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    merged = inputs.read(rows).filter(col("value") > 0).union(inputs.read(others).filter(lambda value: value == 2))
    return merged.key_by("key").window(ps.tumbling(SIZE_US / SECOND)).agg(n=ps.count(), total=ps.sum_("value"))


def union_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    merged = [row for row in rows if (row.value or 0) > 0] + [row for row in others if row.value == 2]
    return Counter(
        (key, start, start + SIZE_US, len(group), total(group))
        for (key, start), group in grouped(merged, SIZE_US, SIZE_US).items()
    )


def window_join(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    window = ps.hopping(SIZE_US / SECOND, HOP_US / SECOND)
    joined = inputs.read(rows).join(inputs.read(others), on="key", window=window)
    return joined.select("id", "id_right", "window_start")


def window_join_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    right = grouped(others, SIZE_US, HOP_US)
    return Counter(
        (one.id, other.id, start)
        for (key, start), group in grouped(rows, SIZE_US, HOP_US).items()
        for one in group
        for other in right.get((key, start), ())
        if key is not None
    )


def join(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    left, right = inputs.read(rows), inputs.read(others)
    joined = left.join(right, left_on=["key", col("value") % 3], right_on=["key", col("value") % 3])
    return joined.select("key", "id", "id_right")


def join_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    def rest(row: Event) -> int | None:
        # Remainders are truncated towards zero, as in SQL.
        return None if row.value is None else abs(row.value) % 3 * (1 if row.value >= 0 else -1)

    return Counter(
        (one.key, one.id, other.id)
        for one in rows
        for other in others
        if one.key is not None and one.key == other.key and rest(one) is not None and rest(one) == rest(other)
    )


def broadcast_join(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    joined = inputs.read(rows).join(inputs.read(others).broadcast(), on="key")
    return joined.select("key", "id", "id_right")


def broadcast_join_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    pairs = ((one, other) for one in rows for other in others)
    return Counter((one.key, one.id, other.id) for one, other in pairs if one.key is not None and one.key == other.key)


def fold(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {**other, "value": ((one["value"] or 0) * 31 + (other["value"] or 0)) % 1_000_003}


def reduce(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").reduce(fold)


def reduce_sessions(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.session(GAP_US / SECOND)).reduce(fold)


def count_windows(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.count_window(4)).agg(**CALLS, first=ps.first("id"))


def folded(group: list[Event]) -> Event:
    """Fold in order of event time; equal times in the order of the other columns, here by id."""
    group = sorted(group, key=lambda row: (row.at, row.id))
    value = group[0].value
    for row in group[1:]:
        value = ((value or 0) * 31 + (row.value or 0)) % 1_000_003
    return Event(group[-1].id, group[-1].key, value, group[-1].at)


def reduce_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    groups = defaultdict(list)
    for row in rows:
        groups[row.key].append(row)
    return Counter((row.id, row.key, row.value, row.at) for row in map(folded, groups.values()))


def reduce_sessions_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    found: Found = Counter()
    for group in session_groups(rows):
        row = folded(group)
        found[group[0].at, group[-1].at + GAP_US, row.id, row.key, row.value, row.at] += 1
    return found


def count_windows_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    found: Found = Counter()
    for key in {row.key for row in rows}:
        group = sorted((row for row in rows if row.key == key), key=lambda row: (row.at, row.id))
        for start in range(0, len(group), 4):
            part = group[start : start + 4]
            found[key, part[0].at, part[-1].at, len(part), total(part), part[-1].id, part[0].id] += 1
    return found


Model = Callable[[Sequence[Event], Sequence[Event]], Found]

PIPELINES: list[tuple[Pipeline, Model]] = [
    (tumbling, tumbling_model),
    (tumbling_with_lateness, tumbling_model),
    (tumbling_with_updates, tumbling_model),
    (hopping, hopping_model),
    (sessions, session_model),
    (sessions_with_updates, session_model),
    (running, running_model),
    (counts_of_counts, counts_of_counts_model),
    (busiest, busiest_model),
    (union, union_model),
    (window_join, window_join_model),
    (join, join_model),
    (broadcast_join, broadcast_join_model),
    (reduce, reduce_model),
    (reduce_sessions, reduce_sessions_model),
    (count_windows, count_windows_model),
]


@pytest.mark.parametrize(("pipeline", "model"), PIPELINES, ids=lambda item: item.__name__)
@settings(max_examples=8, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 1 << 32))
def test_interleaving_changes_no_answer(
    pipeline: Pipeline, model: Model, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = Random(seed)
    rows, others = events(chance, chance.randint(0, 80)), events(chance, chance.randint(0, 80))
    expected = model(rows, others)
    folder = tmp_path_factory.mktemp("interleaved")
    for setting in (PLAIN, settings_of(chance), settings_of(chance)):
        found, ledger = run(pipeline, rows, others, setting, folder)
        assert (found, ledger.late) == (expected, 0), setting


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 1 << 32))
def test_late_rows_are_missing_from_their_window_and_nowhere_else(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = Random(seed)
    rows = events(chance, chance.randint(20, 100), disorder_us=6 * DELAY_US)
    kept: list[ps.Result] = []

    def pipeline(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
        counts = tumbling(inputs, rows, others)
        kept.append(counts.side_output("late").collect())
        return counts.select("key", "window_start", "n")

    expected = {group: len(members) for group, members in grouped(rows, SIZE_US, SIZE_US).items()}
    folder = tmp_path_factory.mktemp("late")
    for setting in (settings_of(chance), settings_of(chance)):
        found, ledger = run(pipeline, rows, (), setting, folder)
        late = tuples(kept[-1].table())
        assert ledger.late == late.total()
        assert late <= tuples(table(rows))
        counted: Counter[tuple[Any, ...]] = Counter()
        for key, start, n in found:
            counted[key, start] += n
        for _, key, _, at in late.elements():
            counted[key, at // SIZE_US * SIZE_US] += 1
        assert counted == expected, setting


def everything(row: tuple[Any, ...], watermark_us: int) -> bool:
    return True


def ends_third(row: tuple[Any, ...], watermark_us: int) -> bool:
    """Whether the window is over of a row whose third value is its end."""
    return bool(row[2] <= watermark_us)


def sessions_over(row: tuple[Any, ...], watermark_us: int) -> bool:
    """A row exactly one gap after the last still joins, so the watermark must have passed it."""
    return bool(row[2] < watermark_us)


def joined_window_over(row: tuple[Any, ...], watermark_us: int) -> bool:
    return bool(row[2] + SIZE_US <= watermark_us)


Settled = Callable[[tuple[Any, ...], int], bool]

STREAMED: list[tuple[Pipeline, Model, Settled]] = [
    (tumbling, tumbling_model, ends_third),
    (tumbling_with_updates, tumbling_model, everything),
    (hopping, hopping_model, ends_third),
    (sessions, session_model, sessions_over),
    (sessions_with_updates, session_model, everything),
    (running, running_model, everything),
    (counts_of_counts, counts_of_counts_model, everything),
    (union, union_model, ends_third),
    (window_join, window_join_model, joined_window_over),
    (join, join_model, everything),
]


@pytest.mark.parametrize(("pipeline", "model", "settled"), STREAMED, ids=lambda item: item.__name__)
@settings(max_examples=6, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 1 << 32))
def test_a_sink_has_what_the_rows_read_so_far_allow(
    pipeline: Pipeline, model: Model, settled: Settled, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance, folder = Random(seed), tmp_path_factory.getbasetemp()
    data = events(chance, chance.randint(1, 80)), events(chance, chance.randint(1, 80))
    setting = Setting("dealt", chance.randint(1, 3), chance.choice([1, 7, 40, 300]), 100, 10, chance.getrandbits(32))
    job, clock = ps.Job(), ManualClock()
    inputs = Inputs(job, setting, folder)
    result = pipeline(inputs, *data).collect()
    embedded = embed(job, setting, folder, clock)
    for _ in range(4):
        for dealt in inputs.dealt:
            for tap in dealt.taps:
                # A partition that has given all its rows ends, and then holds no watermark back.
                tap.allowed = max(tap.given, chance.randrange(len(tap.rows) + 1) if len(tap.rows) else 0)
        step_until_quiet(embedded, clock)
        taps = [tap for dealt in inputs.dealt for tap in dealt.taps]
        watermark_us = min((tap.reached_us for tap in taps if tap.given < len(tap.rows)), default=END_OF_TIME_US)
        read = [
            [row for tap in dealt.taps for row in tap.rows[: tap.given]] for dealt in [*inputs.dealt, Dealt((), chance)]
        ]
        expected = Counter(dict(item for item in model(read[0], read[1]).items() if settled(item[0], watermark_us)))
        assert tuples(result.table()) == expected, setting


def step_until_quiet(job: EmbeddedJob, clock: ManualClock) -> None:
    """Step until nothing comes any more, but not so long that a source counts as idle."""
    until_ns = clock.monotonic_ns() + 100_000_000
    while clock.monotonic_ns() < until_ns:
        outcome = job.worker.step()
        if isinstance(outcome, Done):
            return
        if isinstance(outcome, Waiting):
            assert outcome.until_ns is not None
            clock.advance_ns(outcome.until_ns - clock.monotonic_ns())
