"""How long a job with a large state stands still as its parallelism changes, beside a stop and a start of the same job.

Counts for many keys on two task managers, which come at a steady rate once all of them have come. In one run: key
groups move from one task manager to the other and nothing stops, the operator gets an instance more, and the job is
stopped and started again.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import penstock as ps
from penstock.benchmarks.cluster.due_keys import PARTITIONS, DueKeys, Phases
from penstock.benchmarks.cluster.settings import TWO
from penstock.dsl.handle import Handle
from penstock.dsl.job import Job
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.moves.move_orders import MoveOrder

PATIENCE_S = 600.0
"""How long the job is waited for."""

MB = 1_000_000
_LOOK_S = 0.05


def measure(keys: int, rows_per_s: int) -> list[dict[str, float | str]]:
    """Return a line for each way to change a job: what stood still, for how long, and how long all of it took.

    What stands still by a move are the key groups of one round; the time is the median over rounds.
    """
    with TemporaryDirectory(prefix="penstock-") as folder:
        phases = Phases(Path(folder))
        phases.fill()
        handle = _started(Path(folder), keys, phases)
        try:
            _await_rows(handle, keys // PARTITIONS * PARTITIONS)
            phases.pace(rows_per_s)
            state_mb = handle.metrics().state_bytes / MB
            lines = [_moved(handle), _rescaled(handle)]
            begun_s = time.monotonic()
            handle.stop()
            stopped_s = time.monotonic()
            handle = _started(Path(folder), keys, phases)
            _await_rows(handle, 1)
            lines.append(_line("stop and start", "all", time.monotonic() - stopped_s, time.monotonic() - begun_s))
        finally:
            handle.stop()
    return [{**line, "state_mb": state_mb} for line in lines]


def _moved(handle: Handle) -> dict[str, float | str]:
    job = _job_of(handle)
    places = job.places()
    giver = next(name for name in sorted(places) if name.startswith("counts"))
    taker = next(place for place in sorted(set(places.values())) if place != places[giver])
    summary = job.moves.ask(MoveOrder(giver, taker)).answer.result(PATIENCE_S)
    line = _line("move", "a round of key groups", summary.round_p50_ms / 1e3, summary.took_ms / 1e3)
    return {**line, "p99_s": summary.round_p99_ms / 1e3, "moved_mb": summary.state_bytes / MB}


def _rescaled(handle: Handle) -> dict[str, float | str]:
    begun_s = time.monotonic()
    summary = _job_of(handle).rescale({"counts": 3}, PATIENCE_S)
    return _line("rescale", "all", summary.stopped_ms / 1e3, time.monotonic() - begun_s)


def _line(way: str, what: str, still_s: float, whole_s: float) -> dict[str, float | str]:
    return {"way": way, "stands_still": what, "still_s": still_s, "whole_s": whole_s, "p99_s": still_s, "moved_mb": 0.0}


def _started(folder: Path, keys: int, phases: Phases) -> Handle:
    job = Job()
    read = ps.read(DueKeys(keys, phases), job=job).name("keys").key_by("k")
    counted = read.agg(n=ps.count(), last=ps.max_("k")).name("counts")
    counted.write_black_hole(mode="changelog").name("out")
    options: dict[str, Any] = {"directory": folder / "job", "checkpoint_dir": folder / "checkpoints"}
    return job.start("rescale", checkpoint_interval="10s", **options, **TWO.options())


def _job_of(handle: Handle) -> RecoveringJob:
    assert isinstance(handle._job, RecoveringJob)
    return handle._job


def _await_rows(handle: Handle, rows: int) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while handle.metrics().source_rows < rows:
        if time.monotonic() > until_s or not handle.running:
            handle.wait(0)
            raise TimeoutError(f"{rows} rows were not read in {PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)
