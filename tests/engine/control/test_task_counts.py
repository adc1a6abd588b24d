"""Counts by task and cell between two readings: of what was there all the while, told by all parts of a job."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.engine.control.cluster_snapshot import cluster_snapshot
from penstock.engine.control.part_reading import COUNTS, Rows, read_part
from penstock.engine.control.reading import ReadingMerger
from penstock.engine.control.task_counts import read_counts, risen
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.part_readings import part_of, said
from penstock.model.snapshot import MachineColumns
from tests.engine.control.readings import OPTIONS, SECOND_NS, machine, part
from tests.engine.control.test_cluster_snapshot import make

Counts = dict[tuple[int, int], float]
"""By task and cell."""

CELLS = 8


def table(counts: Counts) -> Rows:
    return np.array([(*where, count) for where, count in counts.items()], COUNTS)


def found(tasks: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> Counts:
    row, cell = np.nonzero(counts)
    return dict(zip(zip(tasks[row].tolist(), cell.tolist(), strict=True), counts[row, cell].tolist(), strict=True))


def window(before: dict[str, Counts] | None, after: dict[str, Counts]) -> Counts:
    then, now = (
        None if each is None else read_counts([*each], [table(counts) for counts in each.values()])
        for each in (before, after)
    )
    assert now is not None
    return found(*risen(then, now, CELLS))


def test_what_rose_at_all_places_is_added_up() -> None:
    before = {"a": {(1, 3): 5.0}, "b": {(1, 3): 7.0, (2, 0): 1.0}}
    after = {"b": {(1, 3): 8.0, (1, 4): 2.0, (2, 0): 1.0}, "a": {(1, 3): 9.0}}
    assert window(before, after) == {(1, 3): 5.0, (1, 4): 2.0}
    assert window(None, {"a": {(1, 3): 5.0}}) == {(1, 3): 5.0}
    assert window(None, {}) == window({"a": {(1, 3): 5.0}}, {}) == window({}, {"a": {(1, 3): 5.0}}) == {}


def test_of_what_was_not_read_before_nothing_is_known() -> None:
    assert window({"a": {(1, 3): 5.0}}, {"a": {(1, 3): 6.0}, "b": {(1, 3): 1000.0}}) == {(1, 3): 1.0}
    # At a place that was read a task may begin.
    assert window({"a": {(1, 3): 5.0}}, {"a": {(1, 3): 5.0, (2, 3): 4.0}}) == {(2, 3): 4.0}


def test_counts_of_other_instances_than_before_are_no_window() -> None:
    """An instance has left a place, with its counts."""
    assert window({"a": {(1, 3): 100.0, (2, 1): 1.0}}, {"a": {(1, 3): 40.0, (1, 4): 20.0, (2, 1): 2.0}}) == {
        (2, 1): 1.0
    }


def test_small_steps_back_are_not_negative() -> None:
    """A bucket that is alone has grown: what came last is spread anew."""
    assert window({"a": {(1, 3): 10.0}}, {"a": {(1, 3): 9.5, (1, 4): 20.0}}) == {(1, 4): 20.0}


def test_a_job_says_how_far_back_its_state_was_used(tmp_path: Path) -> None:
    job = make(tmp_path, options=replace(OPTIONS, state_bytes=64 << 20))
    assert job.attempt.proceed(lambda: False, None, None) is None
    read = read_part(job.build, 0)
    job.attempt.finish()
    columns = cluster_snapshot(
        "test", 1, None, ReadingMerger(job.build.graph, OPTIONS).merge(SECOND_NS, {"tm-0": read}),
        MachineColumns(("tm-0",), np.ones(1)), ["tm-0"] * 6,
    ).reuse  # fmt: skip
    assert columns.accesses is not None
    accesses = dict.fromkeys(columns.task.tolist(), 0.0)
    for task, count in zip(columns.task.tolist(), columns.accesses.tolist(), strict=True):
        accesses[task] += count
    told = read.instances
    counted: dict[int, float] = {}
    for task, hits, misses in told[["task", "hits", "misses"]].tolist():
        if hits == hits:
            counted[task] = counted.get(task, 0.0) + hits + misses
    assert accesses == pytest.approx(counted) and sum(counted.values()) > 0


def test_they_travel() -> None:
    reuse, groups, sizes = table({(1, 3): 5.0}), table({(0, 2): 4.0}), table({(0, 2): 64.0})
    made = replace(part(1, {}), reuse=reuse, group_rows=groups, group_bytes=sizes)
    message = ms.decode_for_head(ms.encode(said(machine(1), made)))
    assert isinstance(message, ms.Readings)
    again = part_of(message)
    assert again is not None
    assert again.reuse.tolist() == reuse.tolist() and again.group_rows.tolist() == groups.tolist()
    assert again.group_bytes.tolist() == sizes.tolist()


def test_key_groups_have_their_owners_and_rows(tmp_path: Path) -> None:
    job = make(tmp_path)
    assert job.attempt.proceed(lambda: False, None, None) is None
    read = read_part(job.build, 0)
    job.attempt.finish()
    graph, merger = job.build.graph, ReadingMerger(job.build.graph, OPTIONS)
    reading = merger.merge(SECOND_NS, {"tm-0": read})
    places = ("test", 1, None, reading, MachineColumns(("tm-0",), np.ones(1)), ["tm-0"] * 6)
    assert len(cluster_snapshot(*places).buckets) == 0
    owners = np.array([group % 2 for group in range(128)], np.int32)
    snapshot = cluster_snapshot(*places, {graph.tasks[2].id: owners, graph.tasks[0].id: owners})
    buckets = snapshot.buckets
    assert buckets.task.tolist() == [2] * 128 and buckets.bucket.tolist() == list(range(128))
    assert snapshot.instances.number[buckets.instance].tolist() == owners.tolist()
    assert buckets.records_in is not None and snapshot.instances.records_in is not None
    assert buckets.records_in.sum() == pytest.approx(snapshot.instances.records_in[snapshot.instances.task == 2].sum())
    # Keys are a thousand, all as frequent.
    assert buckets.records_in.max() < 30 * buckets.records_in.sum() / 1000
    # State that is not in buckets is not known by key group.
    assert buckets.state_bytes is None


def test_key_groups_have_the_state_of_their_buckets(tmp_path: Path) -> None:
    job = make(tmp_path, options=replace(OPTIONS, state_bytes=64 << 20))
    assert job.attempt.proceed(lambda: False, None, None) is None
    read = read_part(job.build, 0)
    job.attempt.finish()
    graph = job.build.graph
    reading = ReadingMerger(graph, OPTIONS).merge(SECOND_NS, {"tm-0": read})
    owners = np.repeat(np.arange(2, dtype=np.int32), 64)
    places = (MachineColumns(("tm-0",), np.ones(1)), ["tm-0"] * 6)
    snapshot = cluster_snapshot("test", 1, None, reading, *places, {graph.tasks[2].id: owners})
    buckets, own = snapshot.buckets, snapshot.instances
    assert buckets.state_bytes is not None and own.state_bytes is not None
    held = np.bincount(buckets.instance, buckets.state_bytes, len(own))
    assert held[own.task == 2].tolist() == pytest.approx(own.state_bytes[own.task == 2].tolist())
    assert (buckets.state_bytes > 0).all()
