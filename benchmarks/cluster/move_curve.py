"""How old rows are over time, beside a move of key groups and beside a stop and a start of the same job.

Aggregates of many keys, all of which one of two task managers has. First it takes rows as fast as it can, with its
checkpoints, and then at a share of that rate, each with the time at which it was due. In one run: for a while nothing
happens, half of what the one task manager has moves to the other, and the job is stopped and started again from its
last checkpoint. Rows that were due meanwhile come afterwards, as old as they are. Both begin half an interval behind
the end of a checkpoint, while none is under way, and both are held against the same whole intervals before the move.
The move may begin right before a checkpoint is due instead.
"""

import math
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import penstock as ps
from penstock.benchmarks.cluster.ages import SLOT_NS, AgesOverTime, read_ages
from penstock.benchmarks.cluster.checkpoint_times import PATIENCE_S, CheckpointTimes
from penstock.benchmarks.cluster.due_keys import DueKeys, Phases
from penstock.benchmarks.cluster.move_chart import Span, draw
from penstock.benchmarks.cluster.move_figures import Curve, ages, line, rates
from penstock.benchmarks.cluster.settings import TWO, Cores
from penstock.dsl.handle import Handle
from penstock.dsl.job import Job
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.moves.move_orders import GroupsOrder, MoveOrder, MoveSummary
from penstock.model.key_groups import Owners, assign

COUNTS = "counts"
KEY_GROUPS = 128
STAYS, MOVES = 0, 1
"""The numbers of the instance that has all key groups at first, and of the one that half of them go to."""

INTERVAL_S = 30
"""At most between two checkpoints: as a user would have it with 2 GB of state."""

DRAIN_S = 5.0
"""A rate is taken to be steady after so long."""

CAPACITY_INTERVALS = 3
"""What the job takes is the median of so many whole intervals of checkpoints."""


@dataclass(frozen=True, slots=True)
class _Before:
    """Whole intervals of checkpoints in which nothing else happened, each from the end of one to that of another.

    ``falls_behind_s``: by how much more rows were late at the end than at the beginning. ``cores`` that the job and the
    driver used.
    """

    ends_s: tuple[float, ...]
    falls_behind_s: float
    cores: float

    @property
    def span(self) -> Span:
        """All of them."""
        return Span("before", self.ends_s[0], self.ends_s[-1])


def measure(
    keys: int, load: float, quiet_s: float, picture: Path, lead_s: float | None = None
) -> list[dict[str, float | str]]:
    """Return a line for the move and one for the stop and start, and draw the curve; see `move_figures.line`.

    ``full_rows_s`` is what the job counts with its checkpoints, the median of whole intervals of them, ``full_spread``
    how far these lie apart; rows come at ``load`` of it. Before the move are about two ``quiet_s``, in whole intervals.
    ``falls_behind_s`` says whether the rate was one that the job keeps up with, ``cores_before`` the cores that it and
    the driver used, ``checkpoint_s`` how long a checkpoint took then. With ``lead_s`` the move begins so long before a
    checkpoint is due; ``checkpoints`` of them went in between its rounds.
    """
    with TemporaryDirectory(prefix="penstock-") as folder:
        home = Path(folder)
        (home / "ages").mkdir()
        phases = Phases(home)
        interval_s = min(INTERVAL_S, math.ceil(quiet_s))
        handle = _started(home, keys, phases, interval_s)
        times = CheckpointTimes(handle)
        times.until(lambda: bool(_job_of(handle).places()))
        _gather(handle)
        phases.fill()
        times.until(lambda: handle.metrics().source_rows >= keys)
        full = _full_rates(times, phases)
        rows_per_s = round(median(full) * load)
        begin_ns = phases.pace(rows_per_s)
        before = _nothing_happens(times, max(2, round(2 * quiet_s / interval_s)), begin_ns, rows_per_s)
        if lead_s is None:
            times.between(interval_s / 2)
        else:
            times.before(lead_s, interval_s)
        behind_s = time.monotonic() - times.spans[-1].until_s
        moved = _span("move", lambda: _spread(times))
        summary = _job_of(handle).moves.records()[-1].summary
        assert summary is not None
        times.between(interval_s / 2)

        def restart() -> None:
            handle.stop()
            times.follow(_started(home, keys, phases, interval_s))
            times.until(lambda: times.handle.metrics().source_rows > 0)

        restarted = _span("stop and start", restart)
        times.pause(quiet_s / 2)
        times.handle.stop()
        slots, counts = read_ages(home / "ages")

    def since_begin(span: Span) -> Span:
        return Span(span.name, span.from_s - begin_ns / 1e9, span.until_s - begin_ns / 1e9)

    curve = Curve(slots * SLOT_NS / 1e9 - begin_ns / 1e9, counts)
    drawn = curve.seconds >= DRAIN_S
    shown = Curve(curve.seconds[drawn], counts[drawn])
    spans = [since_begin(moved), since_begin(restarted)]
    checkpoints = [item for item in map(since_begin, times.spans) if item.from_s >= DRAIN_S]
    picture.write_text(draw(ages(shown), rates(shown), spans, checkpoints), encoding="utf-8")
    took_s = moved.until_s - moved.from_s
    alike = (
        _alike(before, times, took_s, behind_s, cut=lead_s is None),
        _alike(before, times, took_s, interval_s / 2),
    )
    lines = [
        line(curve, span, since_begin(before.span), [since_begin(item) for item in like])
        for span, like in zip(spans, alike, strict=True)
    ]
    lines[0] |= _of_move(summary)
    lines[1] |= dict.fromkeys(lines[0].keys() - lines[1].keys(), 0.0)
    taken = [item.until_s - item.from_s for item in times.spans if item.until_s in before.ends_s]
    given = {"full_rows_s": median(full), "full_spread": (max(full) - min(full)) / median(full)}
    given |= {"rows_per_s": float(rows_per_s), "load": rows_per_s / median(full), "checkpoint_s": median(taken)}
    given |= {"falls_behind_s": before.falls_behind_s, "cores_before": before.cores}
    return [{**item, **given} for item in lines]


def _alike(before: _Before, times: CheckpointTimes, took_s: float, behind_s: float, *, cut: bool = True) -> list[Span]:
    """Return spans before that are so far behind a checkpoint, and as long as the move.

    ``cut``: each ends as the next checkpoint begins, so that none is under way.
    """
    begins_s = {item.until_s: item.from_s for item in times.spans}
    from_s = [end_s + behind_s for end_s in before.ends_s[:-1]]
    until_s = [begins_s[end_s] for end_s in before.ends_s[1:]]
    return [
        Span("alike", one, min(one + took_s, other) if cut else one + took_s)
        for one, other in zip(from_s, until_s, strict=True)
    ]


def _of_move(summary: MoveSummary) -> dict[str, float | str]:
    figures: dict[str, float | str] = {"moved_mb": summary.state_bytes / 1e6, "rounds": float(summary.rounds)}
    figures["checkpoints"] = float(summary.checkpoints)
    figures |= {"pause_p50_ms": summary.pause_ms[0], "pause_p99_ms": summary.pause_ms[1]}
    return figures | {"marker_p50_ms": summary.marker_ms[0], "round_p50_ms": summary.round_p50_ms}


def _span(name: str, do: Any) -> Span:
    from_s = time.monotonic()
    do()
    return Span(name, from_s, time.monotonic())


def _full_rates(times: CheckpointTimes, phases: Phases) -> list[float]:
    """Return how many rows a second the job counts from the end of one checkpoint to that of the next, some times.

    What has waited is worked off then, or it would be as old as that when the move begins.
    """
    phases.hurry()
    times.pause(DRAIN_S)
    times.next_end()
    looks = [_fresh_count(times)]
    for _ in range(CAPACITY_INTERVALS):
        times.next_end()
        looks.append(_fresh_count(times))
    phases.rest()
    times.until(lambda: _is_through(times.handle.metrics()))
    return [(more - rows) / (until_s - since_s) for (rows, since_s), (more, until_s) in pairwise(looks)]


def _nothing_happens(times: CheckpointTimes, intervals: int, begin_ns: int, rows_per_s: int) -> _Before:
    """Watch so many intervals of checkpoints, from the end of one to that of another."""
    begun = _counted(times.handle.metrics())
    times.pause(DRAIN_S)

    def late_s() -> float:
        counted, at_s = _fresh_count(times)
        return at_s - begin_ns / 1e9 - (counted - begun) / rows_per_s

    ends_s = [times.next_end()]
    from_s, cores, late_before_s = time.monotonic(), Cores(), late_s()
    ends_s += [times.next_end() for _ in range(intervals)]
    until_s, used_s = time.monotonic(), cores.cpu_s()
    return _Before(tuple(ends_s), late_s() - late_before_s, used_s / (until_s - from_s))


def _fresh_count(times: CheckpointTimes) -> tuple[int, float]:
    """Return the rows that were counted as they are told next, once a second, and when that was."""
    before = _counted(times.handle.metrics())
    times.until(lambda: _counted(times.handle.metrics()) != before)
    return _counted(times.handle.metrics()), time.monotonic()


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


def _spread(times: CheckpointTimes) -> None:
    """Let the other instance have half of them."""
    handle, moves = times.handle, np.flatnonzero(_owners() == MOVES)
    order = GroupsOrder(_task(handle), tuple((int(group), MOVES) for group in moves))
    answer = _job_of(handle).moves.ask(order).answer
    times.until(answer.done)
    answer.result(0)


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
