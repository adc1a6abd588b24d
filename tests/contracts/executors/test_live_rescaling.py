"""Instances of what has state come and go while a job runs on task managers: nothing begins anew, each result once."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.executors.managers.managed_growth import ManagedGrowth
from penstock.engine.jobs.attempt import Struck
from penstock.engine.moves.under_way import ChangeUnderWay
from penstock.engine.plan.recut import instances_by_name
from penstock.model.config import LoopOptions
from penstock.model.errors import OptionError
from tests.contracts.executors.metered import ROWS, MeteredJob, task_managers, until
from tests.contracts.executors.test_moves import move
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.test_rescaling import read, running
from tests.contracts.executors.ways import PROCESSES

MANY_KEYS = 20_000
"""So many that those of each key group are about equally many."""


def test_nothing_begins_anew(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**PROCESSES, parallelism=2)
    read(job, handle, 800)
    foreseen = handle.preview_rescale("per second", 3)
    summary = handle.rescale("per second", 3)
    assert (summary.before, summary.after) == ({"per second": 2, "windows": 2}, {"per second": 3, "windows": 3})
    assert summary.live and (summary.epoch, summary.stopped_ms) == (0, 0.0)
    assert 0 < summary.key_groups_moved < summary.key_groups
    assert (foreseen.key_groups_moved, foreseen.key_groups) == (summary.key_groups_moved, summary.key_groups)
    assert {move.taker for move in foreseen.moves} == {"per second -> windows[2]"}
    # What has moved is told of the change, of the job, and among its moves.
    ((task, move),) = summary.moves.items()
    assert task == "per second -> windows" and move.key_groups == summary.key_groups_moved
    assert move.state_bytes > 0 and move.pause_ms[1] > 0 and move.marker_ms[1] > 0
    (record,) = handle.moves()
    assert (record.cause, record.instance, record.state) == ("rescale", f"key groups of {task!r}", "done")
    assert (record.moved_key_groups, record.summary) == (record.key_groups, move)
    totals = handle.metrics().moves
    assert totals is not None and (totals.done, totals.state_bytes) == (1, move.state_bytes)
    assert totals.marker_p99_ms == move.marker_ms[1]
    read(job, handle, 1_600)
    foreseen = handle.preview_rescale("per key", 5)
    assert foreseen.planned_bytes == 0 or foreseen.planned_ms is not None
    assert handle.rescale("per key", 5).live
    read(job, handle, 2_400)
    assert handle.rescale("per key", 3).live
    read(job, handle, 3_200)
    # Nobody that has gone is among them.
    told = [(each.task, each.instance) for each in handle.metrics().instances]
    assert sorted({*told}) == sorted(told) and sum(task.startswith("per key") for task, _ in told) == 3
    assert instances_by_name(running(handle).graph)["per key"] == 3
    job.give(ROWS)
    metrics = handle.wait()
    job.check()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 0


def test_an_instance_more_gets_its_share_of_the_state_and_no_other_byte_moves(tmp_path: Path) -> None:
    job, kept = ps.Job(), {"directory": tmp_path / "job", "checkpoint_dir": tmp_path / "checkpoints"}
    keys = ps.read(SteadySource(MANY_KEYS // 2, MANY_KEYS), job=job).name("keys").key_by("key")
    counts = keys.agg(n=ps.count(), last=ps.max_("due_ns"), total=ps.sum_("due_ns")).name("counts")
    counts.write_black_hole(mode="changelog").name("nowhere")
    handle = job.start("evenly", **PROCESSES, **kept, checkpoint_interval="1h", parallelism=3)
    until(lambda: handle.metrics().source_rows >= 1.2 * MANY_KEYS, handle)
    wider, narrower = (handle.rescale("counts", count) for count in (4, 2))
    assert wider.live and narrower.live
    ((more,), (fewer,)) = (summary.moves.values() for summary in (wider, narrower))
    assert (more.key_groups, fewer.key_groups) == (wider.key_groups // 4, wider.key_groups // 2)
    quarter = fewer.state_bytes / 2
    assert 0.9 * quarter <= more.state_bytes <= 1.1 * quarter
    handle.stop()


def test_key_groups_are_dealt_out_by_their_loads(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**PROCESSES, parallelism=2)
    read(job, handle, 800)
    key_groups = LoopOptions().key_groups
    loads = [1.0] * (key_groups - 1) + [float(key_groups)]
    operators = ("per second", "windows")
    order = running(handle).rescales.ask(dict.fromkeys(operators, 3), dict.fromkeys(operators, loads))
    assert order.answer.result().live
    held = running(handle).moves.held()
    assert held is not None
    task = next(task.id for task in held.graph.tasks if held.graph.name(task) == "per second -> windows")
    owners = held.owners[task].tolist()
    assert owners.count(owners[-1]) == 1 and {*owners} == {0, 1, 2}
    job.give(ROWS)
    handle.wait()
    job.check()


def test_what_is_single_gets_an_instance_and_has_one_again(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**PROCESSES, parallelism=1)
    read(job, handle, 800)
    for rows, operator, count in ((1_200, "per key", 2), (1_600, "numbers", 2), (2_000, "per second", 3)):
        summary = handle.rescale(operator, count)
        assert (summary.before[operator], summary.after[operator], summary.live) == (1, count, True)
        assert (summary.partitions_moved if operator == "numbers" else summary.key_groups_moved) > 0
        read(job, handle, rows)
    for rows, operator in ((2_400, "per key"), (2_800, "numbers")):
        assert handle.rescale(operator, 1).live
        read(job, handle, rows)
    kill(task_managers()[0].pid)
    until(lambda: (counted := handle.metrics().checkpoints) is not None and counted.restarts == 1, handle)
    names = instances_by_name(running(handle).graph)
    assert [names[name] for name in ("per key", "numbers", "per second")] == [1, 1, 3]
    assert handle.rescale("per key", 2).live
    job.give(ROWS)
    handle.wait()
    job.check()


def test_a_task_manager_that_is_killed_afterwards_goes_on_with_the_new_parallelism(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**PROCESSES, parallelism=2)
    read(job, handle, 1_000)
    handle.rescale("per key", 4)
    read(job, handle, 1_500)
    assert handle.rescale("per key", 3).live
    read(job, handle, 2_000)
    kill(task_managers()[0].pid)
    until(lambda: (counted := handle.metrics().checkpoints) is not None and counted.restarts == 1, handle)
    read(job, handle, 3_000)
    assert instances_by_name(running(handle).graph)["per key"] == 3
    job.give(ROWS)
    handle.wait()
    job.check()


def test_partitions_change_their_instances_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = MeteredJob(tmp_path)
    job.give(0)
    handle = job.start(**PROCESSES, parallelism=2)
    seen: set[ChangeUnderWay] = set()
    turn = ManagedGrowth.turn

    def noted(growth: ManagedGrowth) -> Struck | None:
        change = handle.metrics().change
        seen.update(() if change is None else (change,))
        return turn(growth)

    monkeypatch.setattr(ManagedGrowth, "turn", noted)
    read(job, handle, 800)
    summary = handle.rescale("numbers", 3)
    wider = {"numbers": 3, "all": 3, "rows": 3}
    assert (summary.before, summary.after) == (dict.fromkeys(wider, 2), wider)
    assert summary.live and summary.partitions_moved == 1
    assert {change.what for change in seen} == {"numbers -> all -> rows from 2 to 3 instances"}
    assert {"new instances are built", "partitions have changed their instances"} <= {each.waits_for for each in seen}
    read(job, handle, 1_600)
    assert handle.rescale("numbers", 2).partitions_moved == 1
    read(job, handle, 2_400)
    given = move(handle, "numbers", 1)
    assert (given.partitions, given.key_groups) == (2, 0)
    with pytest.raises(OptionError, match="reads nothing"):
        move(handle, "numbers", 1)
    read(job, handle, 3_200)
    kill(task_managers()[0].pid)
    until(lambda: (counted := handle.metrics().checkpoints) is not None and counted.restarts == 1, handle)
    job.give(ROWS)
    handle.wait()
    job.check()
