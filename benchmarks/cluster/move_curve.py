"""How old rows are over time, beside a move of key groups and beside a stop and a start of the same job.

Aggregates of many keys, all of which one of two task managers has. First it takes rows as fast as it can, with its
checkpoints, and then at a share of that rate, each with the time at which it was due. In one run: for a while nothing
happens, half of what the one task manager has moves to the other, and the job is stopped and started again from its
last checkpoint. Rows that were due meanwhile come afterwards, as old as they are.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import penstock as ps
from penstock.benchmarks.cluster.ages import MOVED, OTHERS, SLOT_NS, AgesOverTime, Counts, quantile_ms, read_ages
from penstock.benchmarks.cluster.due_keys import DueKeys, Phases
from penstock.benchmarks.cluster.move_chart import Span, draw
from penstock.benchmarks.cluster.settings import TWO, Cores
from penstock.dsl.job import Handle, Job
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.moves.move_orders import GroupsOrder, MoveOrder
from penstock.model.key_groups import Owners, assign

PATIENCE_S = 600.0
"""How long the job is waited for."""

COUNTS = "counts"
KEY_GROUPS = 128
STAYS, MOVES = 0, 1
"""The numbers of the instance that has all key groups at first, and of the one that half of them go to."""

INTERVAL_S = 30
"""Between two checkpoints: as a user would have it with 2 GB of state."""

DRAIN_S = 5.0
"""A rate is taken to be steady after so long."""

RATE_SLOTS = 100
"""Rates are means over so many tenths of a second."""

CURVE_SLOTS = 5
"""A point of the curve is of so many."""


def measure(keys: int, load: float, quiet_s: float, picture: Path) -> list[dict[str, float | str]]:
    """Return a line for the move and one for the stop and start, and draw the curve.

    ``full_rows_s`` is what the job counts with its checkpoints, over one interval of them; rows come at ``load`` of it.
    ``others_rate`` is the least rate of rows of other keys, over 10 s that have to do with it, by that of ``quiet_s``
    before; ``others_p99`` is the 99th percentile of their ages by that of before; ``all_p99`` the same of all rows.
    ``cores_before``: the cores that the job and the driver used then.
    """
    with TemporaryDirectory(prefix="penstock-") as folder:
        home = Path(folder)
        (home / "ages").mkdir()
        phases = Phases(home)
        handle = _started(home, keys, phases)
        _await(handle, lambda: bool(_job_of(handle).places()))
        _gather(handle)
        phases.fill()
        _await(handle, lambda: handle.metrics().source_rows >= keys)
        full_rows_s = _full_rate(handle, phases)
        rows_per_s = round(full_rows_s * load)
        begin_ns = phases.pace(rows_per_s)
        time.sleep(DRAIN_S)
        cores = Cores()
        time.sleep(quiet_s)
        cores_before = cores.cpu_s() / quiet_s
        moved = _span("move", lambda: _spread(handle))
        time.sleep(quiet_s)
        summary = _job_of(handle).moves.records()[-1].summary
        assert summary is not None

        def restart() -> None:
            nonlocal handle
            handle.stop()
            handle = _started(home, keys, phases)
            _await(handle, lambda: handle.metrics().source_rows > 0)

        restarted = _span("stop and start", restart)
        time.sleep(quiet_s)
        handle.stop()
        slots, counts = read_ages(home / "ages")
    spans = [
        Span(item.name, item.from_s - begin_ns / 1e9, item.until_s - begin_ns / 1e9) for item in (moved, restarted)
    ]
    seconds = slots * SLOT_NS / 1e9 - begin_ns / 1e9
    drawn = seconds >= DRAIN_S
    picture.write_text(
        draw(_curves(seconds[drawn], counts[drawn]), _rates(seconds[drawn], counts[drawn]), spans), encoding="utf-8"
    )
    lines = [_line(span, seconds, counts, quiet_s) for span in spans]
    lines[0] |= {"moved_mb": summary.state_bytes / 1e6, "pause_p50_ms": summary.pause_ms[0]}
    lines[0] |= {"pause_p99_ms": summary.pause_ms[1], "rounds": float(summary.rounds)}
    lines[1] |= {"moved_mb": 0.0, "pause_p50_ms": 0.0, "pause_p99_ms": 0.0, "rounds": 0.0}
    given = {"full_rows_s": full_rows_s, "rows_per_s": float(rows_per_s), "load": rows_per_s / full_rows_s}
    return [{**line, "cores_before": cores_before, **given} for line in lines]


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


def _full_rate(handle: Handle, phases: Phases) -> float:
    """Return how many rows a second the job counts over an interval of checkpoints, of which there is one.

    What has waited is worked off then, or it would be as old as that when the move begins.
    """
    phases.hurry()
    time.sleep(DRAIN_S)
    rows, since_s = _counted(handle.metrics()), time.monotonic()
    time.sleep(INTERVAL_S)
    rate = (_counted(handle.metrics()) - rows) / (time.monotonic() - since_s)
    phases.rest()
    _await(handle, lambda: _is_through(handle.metrics()))
    return rate


def _counted(metrics: JobMetrics) -> int:
    return sum(line.folded for line in metrics.ledger.operators if line.operator == COUNTS)


def _is_through(metrics: JobMetrics) -> bool:
    return _counted(metrics) == metrics.source_rows


def _gather(handle: Handle) -> None:
    """Let one instance have all key groups, before there is any state."""
    job = _job_of(handle)
    places = job.places()
    names = {number: f"{_task(handle)}[{number}]" for number in (STAYS, MOVES)}
    job.moves.ask(MoveOrder(names[MOVES], places[names[STAYS]])).answer.result(PATIENCE_S)


def _spread(handle: Handle) -> None:
    """Let the other instance have half of them."""
    groups = tuple((int(group), MOVES) for group in np.flatnonzero(_owners() == MOVES))
    _job_of(handle).moves.ask(GroupsOrder(_task(handle), groups)).answer.result(PATIENCE_S)


def _task(handle: Handle) -> str:
    names = (name.rpartition("[")[0] for name in _job_of(handle).places())
    return next(name for name in names if name.startswith(COUNTS))


def _owners() -> Owners:
    return assign(KEY_GROUPS, TWO.parallelism)


def _started(home: Path, keys: int, phases: Phases) -> Handle:
    job = Job()
    read = ps.read(DueKeys(keys, phases), job=job).name("keys").key_by("k")
    columns = {"n": ps.count(), "due_ns": ps.max_("due_ns"), "total": ps.sum_("v"), "middle": ps.mean("v")}
    counted = read.agg(**columns, least=ps.min_("v"), most=ps.max_("v"), spread=ps.stddev("v"))
    sink = AgesOverTime(home / "ages", MOVES, _owners())
    counted.name(COUNTS).write(sink, mode="changelog").name("out")
    options: dict[str, Any] = {"directory": home / "job", "checkpoint_dir": home / "checkpoints"}
    options |= {"checkpoint_interval": f"{INTERVAL_S}s", "emit_interval": "5ms"}
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
