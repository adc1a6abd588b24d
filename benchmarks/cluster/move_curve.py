"""How old rows are over time, beside a move of key groups and beside a stop and a start of the same job.

Aggregates of many keys, all of which one of two task managers has. First it takes rows as fast as it can, with its
checkpoints, and then at a share of that rate, each with the time at which it was due. In one run: for a while nothing
happens, half of what the one task manager has moves to the other, and the job is stopped and started again from its
last checkpoint. Rows that were due meanwhile come afterwards, as old as they are.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import penstock as ps
from penstock.benchmarks.cluster.ages import SLOT_NS, AgesOverTime, read_ages
from penstock.benchmarks.cluster.due_keys import DueKeys, Phases
from penstock.benchmarks.cluster.move_chart import Span, draw
from penstock.benchmarks.cluster.move_figures import Curve, ages, line, rates
from penstock.benchmarks.cluster.settings import TWO, Cores
from penstock.dsl.job import Handle, Job
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.moves.move_orders import GroupsOrder, MoveOrder
from penstock.model.key_groups import Owners, assign

PATIENCE_S = 600.0
"""How long the job is waited for."""

LOOK_S = 0.05
"""How often the job is asked what is waited for."""

COUNTS = "counts"
KEY_GROUPS = 128
STAYS, MOVES = 0, 1
"""The numbers of the instance that has all key groups at first, and of the one that half of them go to."""

INTERVAL_S = 30
"""At most between two checkpoints: as a user would have it with 2 GB of state."""

DRAIN_S = 5.0
"""A rate is taken to be steady after so long."""


@dataclass(frozen=True, slots=True)
class _Before:
    """Whole intervals of checkpoints in which nothing else happened.

    ``falls_behind_s``: by how much more rows were late at the end than at the beginning. ``cores`` that the job and the
    driver used.
    """

    span: Span
    falls_behind_s: float
    cores: float


def measure(keys: int, load: float, quiet_s: float, picture: Path) -> list[dict[str, float | str]]:
    """Return a line for the move and one for the stop and start, and draw the curve; see `move_figures.line`.

    ``full_rows_s`` is what the job counts with its checkpoints, over a whole interval of them; rows come at ``load`` of
    it. The move begins behind a checkpoint, after about ``quiet_s`` and at least one interval. ``falls_behind_s`` says
    whether the rate was one that the job keeps up with, ``cores_before`` the cores that it and the driver used.
    """
    with TemporaryDirectory(prefix="penstock-") as folder:
        home = Path(folder)
        (home / "ages").mkdir()
        phases = Phases(home)
        interval_s = min(INTERVAL_S, math.ceil(quiet_s))
        handle = _started(home, keys, phases, interval_s)
        _await(handle, lambda: bool(_job_of(handle).places()))
        _gather(handle)
        phases.fill()
        _await(handle, lambda: handle.metrics().source_rows >= keys)
        full_rows_s = _full_rate(handle, phases)
        rows_per_s = round(full_rows_s * load)
        begin_ns = phases.pace(rows_per_s)
        before = _nothing_happens(handle, max(1, round(quiet_s / interval_s)), begin_ns, rows_per_s)
        moved = _span("move", lambda: _spread(handle))
        time.sleep(quiet_s)
        summary = _job_of(handle).moves.records()[-1].summary
        assert summary is not None

        def restart() -> None:
            nonlocal handle
            handle.stop()
            handle = _started(home, keys, phases, interval_s)
            _await(handle, lambda: handle.metrics().source_rows > 0)

        restarted = _span("stop and start", restart)
        time.sleep(quiet_s / 2)
        handle.stop()
        slots, counts = read_ages(home / "ages")

    def since_begin(span: Span) -> Span:
        return Span(span.name, span.from_s - begin_ns / 1e9, span.until_s - begin_ns / 1e9)

    curve = Curve(slots * SLOT_NS / 1e9 - begin_ns / 1e9, counts)
    drawn = curve.seconds >= DRAIN_S
    shown = Curve(curve.seconds[drawn], counts[drawn])
    spans = [since_begin(moved), since_begin(restarted)]
    picture.write_text(draw(ages(shown), rates(shown), spans), encoding="utf-8")
    between = Span("between", spans[1].from_s - quiet_s, spans[1].from_s)
    lines = [line(curve, spans[0], since_begin(before.span)), line(curve, spans[1], between)]
    lines[0] |= {"moved_mb": summary.state_bytes / 1e6, "pause_p50_ms": summary.pause_ms[0]}
    lines[0] |= {"pause_p99_ms": summary.pause_ms[1], "rounds": float(summary.rounds)}
    lines[0] |= {"marker_p50_ms": summary.marker_ms[0], "round_p50_ms": summary.round_p50_ms}
    lines[1] |= dict.fromkeys(lines[0].keys() - lines[1].keys(), 0.0)
    given = {"full_rows_s": full_rows_s, "rows_per_s": float(rows_per_s), "load": rows_per_s / full_rows_s}
    given |= {"falls_behind_s": before.falls_behind_s, "cores_before": before.cores}
    return [{**item, **given} for item in lines]


def _span(name: str, do: Any) -> Span:
    from_s = time.monotonic()
    do()
    return Span(name, from_s, time.monotonic())


def _full_rate(handle: Handle, phases: Phases) -> float:
    """Return how many rows a second the job counts from one checkpoint to the next.

    What has waited is worked off then, or it would be as old as that when the move begins.
    """
    phases.hurry()
    time.sleep(DRAIN_S)
    _await_checkpoint(handle)
    rows, since_s = _fresh_count(handle)
    _await_checkpoint(handle)
    more, until_s = _fresh_count(handle)
    phases.rest()
    _await(handle, lambda: _is_through(handle.metrics()))
    return (more - rows) / (until_s - since_s)


def _nothing_happens(handle: Handle, intervals: int, begin_ns: int, rows_per_s: int) -> _Before:
    """Watch so many intervals of checkpoints, from one checkpoint to another."""
    begun = _counted(handle.metrics())
    time.sleep(DRAIN_S)

    def late_s() -> float:
        counted, at_s = _fresh_count(handle)
        return at_s - begin_ns / 1e9 - (counted - begun) / rows_per_s

    _await_checkpoint(handle)
    from_s, cores, late_before_s = time.monotonic(), Cores(), late_s()
    for _ in range(intervals):
        _await_checkpoint(handle)
    until_s, used_s = time.monotonic(), cores.cpu_s()
    return _Before(Span("before", from_s, until_s), late_s() - late_before_s, used_s / (until_s - from_s))


def _await_checkpoint(handle: Handle) -> None:
    """Wait for the next checkpoint to be committed."""
    before = _committed(handle)
    _await(handle, lambda: _committed(handle) > before)


def _committed(handle: Handle) -> int:
    checkpoints = handle.metrics().checkpoints
    return 0 if checkpoints is None else checkpoints.committed


def _fresh_count(handle: Handle) -> tuple[int, float]:
    """Return the rows that were counted as they are told next, once a second, and when that was."""
    before = _counted(handle.metrics())
    _await(handle, lambda: _counted(handle.metrics()) != before)
    return _counted(handle.metrics()), time.monotonic()


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


def _started(home: Path, keys: int, phases: Phases, interval_s: int) -> Handle:
    job = Job()
    read = ps.read(DueKeys(keys, phases), job=job).name("keys").key_by("k")
    columns = {"n": ps.count(), "due_ns": ps.max_("due_ns"), "total": ps.sum_("v"), "middle": ps.mean("v")}
    counted = read.agg(**columns, least=ps.min_("v"), most=ps.max_("v"), spread=ps.stddev("v"))
    sink = AgesOverTime(home / "ages", MOVES, _owners())
    counted.name(COUNTS).write(sink, mode="changelog").name("out")
    options: dict[str, Any] = {"directory": home / "job", "checkpoint_dir": home / "checkpoints"}
    options |= {"checkpoint_interval": f"{interval_s}s", "emit_interval": "5ms"}
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
        time.sleep(LOOK_S)
