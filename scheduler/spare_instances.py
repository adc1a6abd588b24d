"""Instances that a job does without: the scale-in that the paper of Flink-ER leaves out.

One instance of a task goes at a time, where the cut at it is not half full and the others carry the load with so much
room that the same load never brings it back (docs/design/papers/flink-er.md 6). Called by `flink_er`.
"""

from collections.abc import Collection

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.bucket_moves import TaskBuckets
from penstock.scheduler.forward_groups import groups_of_tasks
from penstock.scheduler.true_rates import or_nan, sum_by

Since = tuple[tuple[str, float], ...]
"""Tasks, as application/task, of which an instance is spare, and since when."""


def fullness(snapshot: ClusterSnapshot, capacity: Floats, steady: Floats, room: float) -> Floats:
    """Return f / c of the cut at each task of which an instance is spare, infinite at others.

    f   rows/s that enter the task: what arrives (``steady``), or what it takes, if that is more
    c   rows/s that its instances carry together; c' without one of them: c' >= room f, or none is spare
    ``capacity`` is that of each instance; one that took no row counts as the mean of its task.
    """
    tasks, instances = snapshot.tasks, snapshot.instances
    count = np.bincount(instances.task, minlength=len(tasks))
    taken = sum_by(instances.task, or_nan(instances.records_in, len(instances)), len(tasks)) / snapshot.window_s
    flow = np.maximum(steady, taken)
    is_free = _takes_any(snapshot)
    buckets = TaskBuckets(snapshot)
    full = np.full(len(tasks), np.inf)
    for task in np.flatnonzero((count > 1) & (flow > 0)).tolist():
        own = capacity[instances.task == task]
        if np.isnan(own).all():
            continue
        own = np.where(np.isnan(own), np.nanmean(own), own)
        if is_free[task]:
            # What is left gets equal parts of the rows at first.
            whole, rest = float(own.sum()), float(own.min()) * (count[task] - 1)
        else:
            rows = or_nan(instances.records_in, len(instances))[instances.task == task]
            whole = float((own * rows.sum() / np.where(rows > 0, rows, np.nan))[rows > 0].min())
            loads, groups = buckets.loads(task), int(tasks.key_groups[task])
            # Dealt out one by one, the fullest has no more than its even part and the heaviest bucket.
            heaviest = 1.0 / max(groups, 1) if loads is None else loads.heaviest
            rest = float(own.min()) / (1.0 / (count[task] - 1) + heaviest)
            rest = min(rest, whole * (count[task] - 1) / count[task]) if loads is None else rest
        if rest >= room * flow[task]:
            full[task] = flow[task] / whole
    return full


def released(
    snapshot: ClusterSnapshot, full: Floats, below: float, calm: Collection[int], before: Since, after_s: float
) -> tuple[list[TaskSize], Since]:
    """Return the sizes of tasks that give an instance back, one in each application, and what is spare since when.

    ``full`` is that of `fullness`; below this share for ``after_s``, in all looks, an instance goes, of the emptiest
    task first. Only ``calm`` applications are looked at. What forward edges join has instances alike, and goes
    together.
    """
    names, of = ["/".join(name) for name in snapshot.task_names()], snapshot.tasks.application
    count = np.bincount(snapshot.instances.task, minlength=len(of))
    since, known, sizes = dict[str, float](), dict(before), list[TaskSize]()
    ripe: dict[int, tuple[float, list[int]]] = {}
    for group in _groups(snapshot):
        application, fullest = int(of[group[0]]), float(full[group].max())
        if application not in calm or not fullest < below:
            continue
        for task in group:
            since[names[task]] = known.get(names[task], snapshot.time_s)
        is_ripe = all(snapshot.time_s - since[names[task]] >= after_s for task in group)
        if is_ripe and (application not in ripe or fullest < ripe[application][0]):
            ripe[application] = fullest, group
    for _, group in ripe.values():
        sizes += [TaskSize(task, int(count[task]) - 1) for task in group]
    return sizes, tuple(since.items())


def _groups(snapshot: ClusterSnapshot) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for task, group in enumerate(groups_of_tasks(snapshot)):
        groups.setdefault(group, []).append(task)
    return list(groups.values())


def _takes_any(snapshot: ClusterSnapshot) -> Bools:
    """Return the tasks of which any instance may take a row."""
    edges, tasks = snapshot.edges, len(snapshot.tasks)
    has_input = np.bincount(edges.consumer, minlength=tasks) > 0
    return np.asarray((np.bincount(edges.consumer, ~edges.is_free, tasks) == 0) & has_input)
