"""Key groups move between real task managers while rows flow, and one of these is killed: each result is there once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.dsl.handle import Handle
from penstock.engine.moves.move_orders import MoveSummary
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, task_managers, until
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.ways import PROCESSES

KEYED = ("per key", "per second")
"""Totals that go on for ever, and windows."""

BATCH_S = 0.02
"""So long a slow sink takes for a batch."""

FULL_NS = 200_000_000
"""Channels are full once somebody has waited so long for room in one."""


def move(handle: Handle, operator: str, number: int) -> MoveSummary:
    """Move what an instance of an operator has to the other task manager, and wait until it is there."""
    places = {name: place for name, place in handle.places().items() if name.startswith(operator)}
    (giver,) = (name for name in places if name.endswith(f"[{number}]"))
    (other,) = {*places.values()} - {places[giver]}
    return handle.move(giver, other)


def read(job: MeteredJob, handle: Handle, rows: int) -> None:
    job.give(rows)
    until(lambda: handle.metrics().source_rows >= PARTITIONS * rows, handle)


def test_a_move_completes_though_channels_are_full(tmp_path: Path) -> None:
    """All rows are there at once, what takes totals is slow, and a channel holds less than a batch."""
    job = MeteredJob(tmp_path)
    job.give(ROWS)
    small: Mapping[str, Any] = {"batch_rows": 50, "channel_bytes": 1, "emit_interval": "1ms"}
    handle = job.start(**PROCESSES, **small, parallelism=2, batch_s=BATCH_S)
    until(lambda: any(each.time.output_wait_ns > FULL_NS for each in handle.metrics().instances), handle)
    summaries = [move(handle, operator, 0) for operator in KEYED]
    assert all(summary.key_groups > 0 for summary in summaries)
    # A marker has come behind a batch that waited for one to be taken.
    assert max(summary.marker_ms[1] for summary in summaries) > 1e3 * BATCH_S
    handle.wait()
    job.check()


def test_results_are_those_without_moves(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**PROCESSES, parallelism=2, checkpoint_interval="50ms")
    read(job, handle, 1_000)
    for operator in KEYED:
        assert move(handle, operator, 1).key_groups > 0
    read(job, handle, 2_000)
    for operator in KEYED:
        assert move(handle, operator, 0).key_groups > 0
    # What has moved is in a checkpoint, or has not moved.
    kill(task_managers()[0].pid)
    read(job, handle, 3_000)
    until(lambda: (counted := handle.metrics().checkpoints) is not None and counted.restarts == 1, handle)
    job.give(ROWS)
    handle.wait()
    job.check()
