"""Tasks that were to grow and got nothing, from what a policy was refused. Called by `flink_er` and `justin`."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.model.columns import Ints
from penstock.model.snapshot import ClusterSnapshot


def without_growth(snapshot: ClusterSnapshot, owners: Ints | None = None) -> dict[str, int]:
    """Return the tasks, as application/task, that got none of what was asked for, with the instances that they have.

    ``owners``: the tasks of the instances that there were when it was asked for, None: of those that there are.
    """
    refusals = snapshot.refusals
    if refusals.granted is None or not len(refusals):
        return {}
    now = _instances(snapshot)
    had = now if owners is None else _instances(snapshot, owners)
    rows = zip(refusals.subject, refusals.what, refusals.granted.tolist(), strict=True)
    return {of: now[of] for of, what, granted in rows if what == "parallelism" and granted <= had.get(of, 0)}


def without_memory(snapshot: ClusterSnapshot) -> list[tuple[str, str]]:
    """Return the tasks, by application and name, whose instances got none of the memory that was asked for."""
    refusals, instances = snapshot.refusals, snapshot.instances
    if refusals.asked is None or refusals.granted is None or not len(refusals):
        return []
    has = np.zeros(len(snapshot.tasks))
    if instances.managed_bytes is not None:
        np.fmax.at(has, instances.task, instances.managed_bytes)
    now = dict(zip(snapshot.task_names(), has.tolist(), strict=True))
    refused = zip(refusals.subject, refusals.what, refusals.asked.tolist(), refusals.granted.tolist(), strict=True)
    names = {"/".join(name): name for name in now}
    return [
        names[of]
        for of, what, asked, granted in refused
        if what == "memory" and of in names and asked > now[names[of]] and not granted > now[names[of]]
    ]


def still_full(snapshot: ClusterSnapshot, full: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return those of such tasks that have as many instances as they had."""
    now = _instances(snapshot) if full else {}
    return {name: count for name, count in full if now.get(name) == count}


def _instances(snapshot: ClusterSnapshot, owners: Ints | None = None) -> Mapping[str, int]:
    of = snapshot.instances.task if owners is None else owners
    count = np.bincount(of, minlength=len(snapshot.tasks)).tolist()
    return dict(zip(map("/".join, snapshot.task_names()), count, strict=True))
