"""The backlog of each source that shedding may work off: not what waited before the start, not what is within bounds.

Pure; called once a cycle before the policy, which spreads what is left over its T_drain (`source_rates.planned_offer`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.group_sums import total, total_with_means

TOLERATED_S = 0.5
"""Seconds of its input that may wait at a source whose queries name no bound."""

NEAR = 0.5
"""The part of what may wait from which on a source whose machine has nothing left is near its bound."""

SATURATED_PERCENT = 90.0
"""Load of a machine from which on a backlog is due to it; below, its rows wait for something that shedding does not
speed up, such as a slow sink."""

_Old = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BacklogRule:
    """Bounds of backlogs: ``shed_old``: rows that waited at the start count, too; ``max_lag_s`` by source task."""

    shed_old: bool = False
    max_lag_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountedBacklog:
    """A snapshot whose backlogs are those that count; tasks (by name) that are not to be shed for; what is old yet.

    ``old``: rows by task that waited when it started or was restored, and have not been read. ``near``: tasks of which
    more than the part `NEAR` waits of what may.
    """

    snapshot: ClusterSnapshot
    exempt: frozenset[str]
    old: _Old
    near: frozenset[str] = frozenset()


def counted_backlog(
    snapshot: ClusterSnapshot, rule: BacklogRule, old: _Old | None, shed_tasks: frozenset[str]
) -> CountedBacklog:
    """Return the backlogs that count; ``old``: as the last cycle left it (None: this is the first one).

    ``shed_tasks``: source tasks that are shed now; one whose rows may wait for a time begins to be shed once they have
    waited longer, and goes on while it is overloaded.
    """
    partitions, tasks = snapshot.partitions, snapshot.tasks
    if partitions.end_offset is None or partitions.position is None or not len(partitions):
        return CountedBacklog(snapshot, frozenset(), {})
    of_task = snapshot.instances.task[partitions.instance]
    count = len(tasks)
    lag = np.maximum(partitions.end_offset - partitions.position, 0.0)
    waiting = np.nan_to_num(total_with_means(lag, of_task, count))
    nothing = np.full(len(partitions), np.nan)
    taken = np.nan_to_num(total_with_means(_column(partitions.consumed, nothing), of_task, count))
    offered = np.nan_to_num(total_with_means(_column(partitions.appended, nothing), of_task, count)) / snapshot.window_s
    counted, exempt, near, old_now = waiting.copy(), set[str](), set[str](), dict[str, float]()
    columns = waiting, taken, offered, _begun_anew(snapshot), _on_saturated_machines(snapshot)
    waits, took, comes, begun_anew, is_saturated = (column.tolist() for column in columns)
    for task in np.unique(of_task).tolist():
        name = tasks.name[task]
        remaining = 0.0
        if not rule.shed_old:
            # Of a window in which it began, what came within it is new.
            began = waits[task] - comes[task] * snapshot.window_s
            before = began if old is None or begun_anew[task] else old.get(name, began + took[task]) - took[task]
            remaining = min(waits[task], max(0.0, before))
        bound_s = rule.max_lag_s.get(name)
        tolerated = comes[task] * (TOLERATED_S if bound_s is None else bound_s)
        counted[task] = max(0.0, waits[task] - remaining - tolerated) if is_saturated[task] else 0.0
        if remaining > tolerated:
            exempt.add(name)
            counted[task] = 0.0
        if bound_s is not None and waits[task] - remaining <= tolerated and name not in shed_tasks:
            exempt.add(name)
        if name not in exempt and is_saturated[task] and waits[task] - remaining > NEAR * tolerated:
            near.add(name)
        old_now[name] = remaining
    share = np.divide(counted, waiting, np.zeros(count), where=waiting > 0)
    position = partitions.end_offset - lag * share[of_task]
    prepared = replace(snapshot, partitions=replace(partitions, position=position))
    return CountedBacklog(prepared, frozenset(exempt), old_now, frozenset(near))


def _column(values: np.ndarray | None, missing: np.ndarray) -> np.ndarray:
    return missing if values is None else values


def _begun_anew(snapshot: ClusterSnapshot) -> np.ndarray:
    """Return the tasks of which an instance began within the window."""
    instances = snapshot.instances
    anew = np.zeros(len(snapshot.tasks), np.bool_)
    if instances.age_s is not None:
        anew[instances.task[instances.age_s < snapshot.window_s]] = True
    return anew


def _on_saturated_machines(snapshot: ClusterSnapshot) -> np.ndarray:
    """Return the tasks with an instance on a machine that has nothing left, or whose load was not measured."""
    instances, machines = snapshot.instances, snapshot.machines
    if machines.cpu_percent is None:
        return np.ones(len(snapshot.tasks), np.bool_)
    full = ~(machines.cpu_percent < SATURATED_PERCENT * machines.cores)
    runs = instances.is_running
    return total(full[instances.machine[runs]].astype(np.float64), instances.task[runs], len(snapshot.tasks)) > 0
