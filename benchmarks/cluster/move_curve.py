"""How old rows are over time, beside a move of key groups and beside a stop and a start of the same job.

Counts for many keys on two task managers come at a steady rate, each with the time at which it was due. In one run: for
a while nothing happens, all that one instance has moves to the other, and the job is stopped and started again from its
last checkpoint. Rows that were due meanwhile come afterwards, as old as they are.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import penstock as ps
from penstock.benchmarks.cluster.ages import MOVED, OTHERS, SLOT_NS, AgesOverTime, Counts, quantile_ms, read_ages
from penstock.benchmarks.cluster.move_chart import Span, draw
from penstock.benchmarks.cluster.settings import TWO, Cores
from penstock.dsl.job import Handle, Job
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.moves.move_orders import MoveOrder
from penstock.model.key_groups import assign

PATIENCE_S = 600.0
"""How long the job is waited for."""

PARTITIONS, KEY_GROUPS, GIVER = 4, 128, 0
RATE_SLOTS = 100
"""Rates are means over so many tenths of a second."""

CURVE_SLOTS = 5
"""A point of the curve is of so many."""


def measure(keys: int, rows_per_s: int, quiet_s: float, picture: Path) -> list[dict[str, float | str]]:
    """Return a line for the move and one for the stop and start, and draw the curve.

    ``others_rate`` is the least rate of rows of other keys, over 10 s that have to do with it, by that of ``quiet_s``
    before; ``others_p99`` is the 99th percentile of their ages by that of before; ``all_p99`` the same of all rows.
    ``cores_before``: the cores that the job and the driver used then.
    """
    with TemporaryDirectory(prefix="penstock-") as folder:
        home = Path(folder)
        (home / "ages").mkdir()
        handle = _started(home, keys, rows_per_s)
        _await(handle, lambda: handle.metrics().source_rows >= keys)
        (home / "begin.draft").write_text(str(time.monotonic_ns()))
        (home / "begin.draft").rename(home / "begin")
        cores = Cores()
        time.sleep(quiet_s)
        cores_before = cores.cpu_s() / quiet_s
        moved = _span("move", lambda: _move(handle))
        time.sleep(quiet_s)
        summary = _job_of(handle).moves.records()[-1].summary
        assert summary is not None

        def restart() -> None:
            nonlocal handle
            handle.stop()
            handle = _started(home, keys, rows_per_s)
            _await(handle, lambda: handle.metrics().source_rows > 0)

        restarted = _span("stop and start", restart)
        time.sleep(quiet_s)
        handle.stop()
        slots, counts = read_ages(home / "ages")
        begin_ns = int((home / "begin").read_text())
    spans = [
        Span(item.name, item.from_s - begin_ns / 1e9, item.until_s - begin_ns / 1e9) for item in (moved, restarted)
    ]
    seconds = slots * SLOT_NS / 1e9 - begin_ns / 1e9
    picture.write_text(draw(_curves(seconds, counts), _rates(seconds, counts), spans), encoding="utf-8")
    lines = [_line(span, seconds, counts, quiet_s) for span in spans]
    lines[0] |= {"moved_mb": summary.state_bytes / 1e6, "pause_p50_ms": summary.pause_ms[0]}
    lines[0] |= {"pause_p99_ms": summary.pause_ms[1], "rounds": float(summary.rounds)}
    lines[1] |= {"moved_mb": 0.0, "pause_p50_ms": 0.0, "pause_p99_ms": 0.0, "rounds": 0.0}
    return [{**line, "cores_before": cores_before} for line in lines]


def _line(span: Span, seconds: NDArray[np.float64], counts: Counts, quiet_s: float) -> dict[str, float | str]:
    before = counts[(seconds >= span.from_s - quiet_s + 3) & (seconds < span.from_s)]
    during = counts[(seconds >= span.from_s) & (seconds < max(span.until_s, span.from_s + 1))]
    near = (seconds >= span.from_s - 5) & (seconds < span.until_s + 5)
    rate_before = before[:, OTHERS].sum() / max(len(before), 1)
    window = min(RATE_SLOTS, int(near.sum()))
    means = np.convolve(counts[near][:, OTHERS].sum(axis=1), np.ones(window) / window, "valid")
    others = quantile_ms(during[:, OTHERS].sum(axis=0), 0.99), quantile_ms(before[:, OTHERS].sum(axis=0), 0.99)
    everybody = quantile_ms(during.sum(axis=(0, 1)), 0.99), quantile_ms(before.sum(axis=(0, 1)), 0.99)
    return {
        "way": span.name,
        "took_s": span.until_s - span.from_s,
        "others_rate": float(means.min() / max(rate_before, 1e-9)),
        "others_p99": (others[0] or 0.0) / (others[1] or 1.0),
        "all_p99": (everybody[0] or 0.0) / (everybody[1] or 1.0),
        "p99_before_ms": everybody[1] or 0.0,
    }


def _curves(seconds: NDArray[np.float64], counts: Counts) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {"p50": [], "p99": []}
    for place in range(0, len(seconds), CURVE_SLOTS):
        rows = counts[place : place + CURVE_SLOTS].sum(axis=(0, 1))
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            age_ms = quantile_ms(rows, share)
            if age_ms is not None:
                curves[name].append((float(seconds[place]), age_ms))
    return curves


def _rates(seconds: NDArray[np.float64], counts: Counts) -> dict[str, list[tuple[float, float]]]:
    rates: dict[str, list[tuple[float, float]]] = {}
    for name, which in (("keys that stay", OTHERS), ("keys that move", MOVED)):
        rows = counts[:, which].sum(axis=1) * 1e9 / SLOT_NS
        window = min(RATE_SLOTS, len(rows))
        means = np.convolve(rows, np.ones(window) / window, "valid")
        places = range(0, len(means), CURVE_SLOTS)
        rates[name] = [(float(seconds[place + window - 1]), float(means[place])) for place in places]
    return rates


def _span(name: str, do: Any) -> Span:
    from_s = time.monotonic()
    do()
    return Span(name, from_s, time.monotonic())


def _move(handle: Handle) -> None:
    job = _job_of(handle)
    places = job.places()
    giver = next(name for name in sorted(places) if name.startswith("counts") and name.endswith(f"[{GIVER}]"))
    taker = next(place for place in sorted(set(places.values())) if place != places[giver])
    job.moves.ask(MoveOrder(giver, taker)).answer.result(PATIENCE_S)


def _started(home: Path, keys: int, rows_per_s: int) -> Handle:
    job = Job()
    read = ps.read(DueKeys(keys, rows_per_s, home / "begin"), job=job).name("keys").key_by("k")
    counted = read.agg(n=ps.count(), due_ns=ps.max_("due_ns")).name("counts")
    sink = AgesOverTime(home / "ages", GIVER, assign(KEY_GROUPS, TWO.parallelism))
    counted.write(sink, mode="changelog").name("out")
    options: dict[str, Any] = {"directory": home / "job", "checkpoint_dir": home / "checkpoints"}
    options |= {"checkpoint_interval": "10s", "emit_interval": "5ms"}
    return job.start("curve", **options, **TWO.options())


def _job_of(handle: Handle) -> RecoveringJob:
    assert isinstance(handle._job, RecoveringJob)
    return handle._job


def _await(handle: Handle, condition: Any) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until_s or not handle.running:
            handle.wait(0)
            raise TimeoutError(f"the job did not come so far in {PATIENCE_S:.0f} s")
        time.sleep(0.05)


class DueKeys(ps.Source):
    """All keys from 0 on as fast as they are taken; then over and over so many a second, counted from a time in a file.

    Each row says when it is due: that time is the same whenever a reader begins.
    """

    bounded = False

    def __init__(self, keys: int, rows_per_s: int, begin: Path) -> None:
        """Take the number of keys, the rows a second of all partitions, and the file with the time of the first."""
        self.keys, self.rows_per_s, self.begin = keys, rows_per_s, begin

    @property
    def schema(self) -> pa.Schema:
        """A key, and when it is due."""
        return pa.schema([("k", pa.int64()), ("due_ns", pa.int64())])

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the partitions: each has every so many-th key."""
        return [str(number) for number in range(PARTITIONS)]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        """Begin at the first key, or go on."""
        return _DueKeysReader(self, int(partition), position or 0)


class _DueKeysReader(ps.Reader):
    def __init__(self, source: DueKeys, partition: int, row: int) -> None:
        self._source, self._partition, self._row = source, partition, row
        self._begin_ns: int | None = None

    def read(self, max_rows: int) -> ps.Read:
        source = self._source
        own, each_ns = source.keys // PARTITIONS, PARTITIONS * 1_000_000_000 // source.rows_per_s
        due, now_ns = min(max_rows, own - self._row), time.monotonic_ns()
        if self._row >= own:
            if self._begin_ns is None and source.begin.exists():
                self._begin_ns = int(source.begin.read_text())
            if self._begin_ns is not None:
                due = min(max_rows, (now_ns - self._begin_ns) // each_ns - (self._row - own))
        if due <= 0:
            return ps.Read(again_us=1_000)
        rows = np.arange(self._row, self._row + due)
        self._row += due
        due_ns = np.full(due, now_ns) if self._begin_ns is None else self._begin_ns + (rows - own) * each_ns
        keys = rows % own * PARTITIONS + self._partition
        return ps.Read(pa.record_batch([pa.array(keys), pa.array(due_ns)], schema=source.schema))

    def position(self) -> int:
        return self._row
