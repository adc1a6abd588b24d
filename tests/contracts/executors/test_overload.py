"""A job that is offered more than it can take keeps up by shedding, and keeps all again when that is over."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock import col
from penstock.benchmarks.latency.steady import SCHEMA, SteadySource
from tests.contracts.executors.metered import until

DATED = pa.schema([("number", pa.int64()), ("at", pa.timestamp("us"))])

ROW_NS = 1_000_000
"""The time on a core that a row takes."""


def dear(rows: pa.RecordBatch, row_ns: int = ROW_NS) -> pa.RecordBatch:
    """Use a core for as long as these rows take."""
    until_ns = time.thread_time_ns() + rows.num_rows * row_ns
    while time.thread_time_ns() < until_ns:
        pass
    return rows


class Peak(SteadySource):
    """Rows that come three times as fast as they can be taken for 12 s, or as is said, and seldom after it."""

    def __init__(self, rows_per_s: int = 3_000, peak_s: float = 12.0) -> None:
        super().__init__(rows_per_s, keys=1)
        self.peak_s = peak_s

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["0"]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return _PeakReader(self)


class _PeakReader(ps.Reader):
    def __init__(self, source: Peak) -> None:
        self._begun_ns, self._read, self._rate = time.monotonic_ns(), 0, source.rows_per_s
        self._peak_s = source.peak_s

    def read(self, max_rows: int) -> ps.Read:
        end = min(self._due(), self._read + max_rows)
        if end == self._read:
            return ps.Read(again_us=1_000)
        numbers, self._read = list(range(self._read, end)), end
        return ps.Read(pa.record_batch([[0] * len(numbers), numbers], schema=SCHEMA), again_us=1_000)

    def position(self) -> int:
        return self._read

    def behind(self) -> int:
        return max(0, self._due() - self._read)

    def appended(self) -> int:
        return self._due()

    def _due(self) -> int:
        seconds = (time.monotonic_ns() - self._begun_ns) / 1e9
        return int(min(seconds, self._peak_s) * self._rate + max(0.0, seconds - self._peak_s) * 20)


class DatedPeak(Peak):
    """The same rows, dated a millisecond after each other."""

    @property
    def schema(self) -> pa.Schema:
        return DATED

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return _DatedReader(self)


class _DatedReader(_PeakReader):
    def read(self, max_rows: int) -> ps.Read:
        read = super().read(max_rows)
        if read.rows is None:
            return read
        numbers = read.rows.column(1)
        times = pc.multiply(numbers, 1_000).cast(pa.timestamp("us"))
        return ps.Read(pa.record_batch([numbers, times], schema=DATED), again_us=read.again_us)


@pytest.mark.long("tests/engine/control/test_closed_loop.py closes the same loop on a virtual clock")
@pytest.mark.parametrize("executor", [{}, {"executor": "processes", "task_managers": 1}])
def test_a_peak_is_shed_and_all_rows_are_kept_after_it(executor: dict[str, Any], tmp_path: Path) -> None:
    job = ps.Job()
    rows = ps.read(Peak(), job=job).name("due")
    rows.map_batches(dear).name("dear").write_black_hole().name("sink").with_min_accuracy(0.05)
    control = ps.Control(shed="qod", mode="act", period_s=2)
    handle = job.start("peak", control=control, batch_rows=20, directory=tmp_path, **executor)

    def lag() -> int:
        return sum(partition.messages for source in handle.metrics().sources for partition in source.partitions)

    def sheds() -> bool:
        shedding = handle.metrics().shedding
        return shedding is not None and dict(shedding.sources).get("due", 1.0) < 0.7

    def is_over() -> bool:
        shedding = handle.metrics().shedding
        return shedding is not None and not shedding.sources and lag() < 100

    until(sheds, handle)
    until(is_over, handle)
    metrics = handle.stop()
    assert metrics.shedding is not None and metrics.shedding.applied
    assert metrics.ledger.shed > 0
    # The whole peak would take 36 s of a core.
    assert sum(line.rows_in for line in metrics.ledger.operators if line.operator == "sink") < metrics.source_rows


@pytest.mark.long("40 s of overload; tests/engine/control/test_segments.py closes the same loop on a virtual clock")
@pytest.mark.parametrize("executor", [{}, {"executor": "processes", "task_managers": 1}])
def test_of_two_queries_on_one_source_the_one_that_allows_nothing_loses_nothing(
    executor: dict[str, Any], tmp_path: Path
) -> None:
    job, rows_per_s = ps.Job(), 1_200
    rows = ps.read(Peak(rows_per_s, 1e9), job=job).name("due")
    for name, minimum, priority, row_ns in (("part", 0.3, 1, 600_000), ("whole", 1.0, 5, 400_000)):
        side = rows.map_batches(partial(dear, row_ns=row_ns)).name(f"{name} side")
        side.write_black_hole().name(name).with_min_accuracy(minimum).with_priority(priority)
    control = ps.Control(shed="qod", mode="act", period_s=2)
    handle = job.start("peak", control=control, batch_rows=20, directory=tmp_path, **executor)
    begun_s, lags, rates = time.monotonic(), list[int](), list[float]()

    def look() -> bool:
        metrics = handle.metrics()
        assert metrics.shedding is None or not metrics.shedding.sources
        if time.monotonic() - begun_s > 25.0:
            lags.append(sum(partition.messages for source in metrics.sources for partition in source.partitions))
            assert metrics.shedding is not None
            rates.append({edge[:2]: edge[2] for edge in metrics.shedding.branches}.get(("due", "part side"), 1.0))
        return time.monotonic() - begun_s > 40.0

    until(look, handle)
    metrics = handle.stop()
    taken = {line.operator: line for line in metrics.ledger.operators}
    assert taken["whole"].rows_in == metrics.source_rows
    assert taken["part"].rows_in == metrics.source_rows - metrics.ledger.shed
    assert min(rates) >= 0.3 and max(rates) < 1.0
    assert sorted(lags)[len(lags) // 2] < 2 * rows_per_s
    print(executor, "rates", min(rates), max(rates), "lags", min(lags), sorted(lags)[len(lags) // 2], max(lags))


@pytest.mark.long("30 s of overload; tests/engine/control/test_segments.py closes the same loop on a virtual clock")
def test_sessions_that_cost_too_much_are_shed_by_their_keys(tmp_path: Path) -> None:
    job, rows_per_s = ps.Job(), 2_000
    rows = ps.read(DatedPeak(rows_per_s, 1e9), time="at", job=job).name("due")
    timed = rows.select("at", user=col("number") % 1_009).name("timed")
    # Each row is a session of its own that takes a millisecond: twice what a core has.
    visits = timed.key_by("user").window(ps.session("1ms")).agg(n=ps.count()).name("visits")
    visits.map_batches(dear).name("dear").write_black_hole().name("found").with_min_accuracy(0.1, columns=False)
    control = ps.Control(shed="qod", mode="act", period_s=2)
    handle = job.start("visits", control=control, batch_rows=20, directory=tmp_path)
    begun_s, lags, rates = time.monotonic(), list[int](), list[float]()

    def look() -> bool:
        metrics = handle.metrics()
        if time.monotonic() - begun_s > 18.0:
            assert metrics.shedding is not None and not metrics.shedding.sources
            lags.append(sum(partition.messages for source in metrics.sources for partition in source.partitions))
            rates.append({edge[:2]: edge[2] for edge in metrics.shedding.branches}.get(("timed", "visits"), 1.0))
        return time.monotonic() - begun_s > 30.0

    until(look, handle)
    metrics = handle.stop()
    taken = {line.operator: line for line in metrics.ledger.operators}
    assert taken["visits"].shed == metrics.ledger.shed > 0
    assert 0.1 <= min(rates) <= max(rates) < 0.8
    assert sorted(lags)[len(lags) // 2] < 2 * rows_per_s
    print("rates", min(rates), max(rates), "lags", min(lags), sorted(lags)[len(lags) // 2], max(lags))


JOINS = {
    "window": lambda left, right: left.join(right, on="user", window=ps.tumbling("100ms")),
    "interval": lambda left, right: left.interval_join(right, on="user", between=("-1ms", "1ms")),
}


@pytest.mark.long("30 s of overload; tests/engine/control/test_segments.py closes the same loop on a virtual clock")
@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("executor", [{}, {"executor": "processes", "task_managers": 1}], ids=["embedded", "processes"])
def test_joins_whose_pairs_cost_too_much_are_shed_by_their_keys(
    kind: str, executor: dict[str, Any], tmp_path: Path
) -> None:
    job, rows_per_s = ps.Job(), 1_000
    sides = [
        ps.read(DatedPeak(rows_per_s, 1e9), time="at", job=job)
        .select("at", user=col("number") % 1_009)
        .name(f"{name} side")
        for name in ("left", "right")
    ]
    # Each row meets one of the other side, and each pair takes two milliseconds: twice what a core has.
    pairs = JOINS[kind](*sides).name("pairs").map_batches(partial(dear, row_ns=2 * ROW_NS)).name("dear")
    pairs.write_black_hole().name("found").with_min_accuracy(0.1)
    control = ps.Control(shed="qod", mode="act", period_s=2)
    handle = job.start("meetings", control=control, batch_rows=20, directory=tmp_path, **executor)
    begun_s, lags, rates = time.monotonic(), list[int](), list[tuple[float, ...]]()

    def look() -> bool:
        metrics = handle.metrics()
        if time.monotonic() - begun_s > 18.0:
            assert metrics.shedding is not None and not metrics.shedding.sources
            lags.append(sum(partition.messages for source in metrics.sources for partition in source.partitions))
            told = {edge[:2]: edge[2] for edge in metrics.shedding.branches}
            rates.append(tuple(told.get((f"{name} side", "pairs"), 1.0) for name in ("left", "right")))
        return time.monotonic() - begun_s > 30.0

    until(look, handle)
    metrics = handle.stop()
    taken = {line.operator: line for line in metrics.ledger.operators}
    assert taken["pairs"].shed == metrics.ledger.shed > 0
    assert all(left == right and 0.1 <= left < 0.8 for left, right in rates)
    assert sorted(lags)[len(lags) // 2] < 4 * rows_per_s
    print(kind, executor, "rates", min(rates), max(rates), "lags", min(lags), sorted(lags)[len(lags) // 2], max(lags))
