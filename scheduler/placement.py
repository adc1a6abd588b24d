"""Where instances start that do not run: on the machine with the most free CPU (Stream-Economics, section 4).

It is asked where instances have no place: when a job is deployed, when some were stopped or lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.plan import Decision, Move, NoChange, Placement
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.usable_machines import usable_machines
from penstock.scheduler.most_free import MostFree
from penstock.scheduler.placement_wishes import Wishes, wishes_of

UNMEASURED_CPU = 100.0
"""CPU that a task counts before it was ever measured, percent: one core."""

TaskName = tuple[str, str]
"""An application's name and a task's."""

Starts = Mapping[tuple[str, str, int], tuple[str, float]]
"""By application, task and number: the machine on which an instance was to start, and when that was decided."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementMemory:
    """The last CPU known of each task, percent of a core, and the instances that were placed and do not run yet."""

    cpu: Mapping[TaskName, float] = field(default_factory=dict)
    starts: Starts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskScheduler(Policy[PlacementMemory]):
    """Places what waits; ties are broken by a draw that `seed` and the snapshot's number fix.

    A machine that was not heard of for `lost_after_s` is lost; one without cores or memory takes nobody either. An
    instance that does not run `start_timeout_s` after it was placed is placed again.
    """

    seed: int = 0
    lost_after_s: float = 10.0
    start_timeout_s: float = 60.0

    def start(self) -> PlacementMemory:
        """Return that no task is known."""
        return PlacementMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: PlacementMemory) -> tuple[Decision, PlacementMemory]:
        """Return the machines of all instances that wait and for which there is one."""
        names = _task_names(snapshot)
        load = cpu_by_task(snapshot)
        last = np.array([memory.cpu.get(name, UNMEASURED_CPU) for name in names])
        need = np.where(np.isnan(load), last, load)
        known = {**memory.cpu} | {names[t]: float(load[t]) for t in np.flatnonzero(~np.isnan(load)).tolist()}
        starts = _without_refused(snapshot, memory.starts)
        pending = self._pending(snapshot, starts, names)
        memory = PlacementMemory(known, {key: starts[key] for key in pending.values()})
        waiting = [i for i in np.flatnonzero(~snapshot.instances.is_running).tolist() if i not in pending]
        if not waiting:
            return NoChange("no instance waits to be placed", {"starting": len(pending)}), memory
        if snapshot.machines.cpu_percent is None:
            return NoChange("not measured: machines.cpu_percent"), memory

        is_alive = usable_machines(snapshot.machines, self.lost_after_s)
        free = self._free(snapshot, need, {i: memory.starts[key][0] for i, key in pending.items()})
        chosen = place(snapshot, waiting, wishes_of(snapshot), need, free, is_alive, self._ranks(snapshot))
        if not chosen:
            return NoChange(f"no machine for {len(waiting)} instances"), memory
        numbers = {"placed": len(chosen), "without_machine": len(waiting) - len(chosen), "starting": len(pending)}
        starts = dict(memory.starts)
        for move in chosen:
            key = (*names[snapshot.instances.task[move.instance]], int(snapshot.instances.number[move.instance]))
            starts[key] = (snapshot.machines.name[move.machine], snapshot.time_s)
        reason = f"{len(chosen)} of {len(waiting)} instances that wait are placed"
        return Placement(tuple(chosen), reason, numbers), PlacementMemory(memory.cpu, starts)

    def _pending(
        self, snapshot: ClusterSnapshot, starts: Starts, names: list[TaskName]
    ) -> dict[int, tuple[str, str, int]]:
        """Return which instances were placed lately and do not run yet, by their row."""
        instances = snapshot.instances
        if not starts:
            return {}
        rows = np.flatnonzero(~instances.is_running).tolist()
        keys = ((i, (*names[instances.task[i]], int(instances.number[i]))) for i in rows)
        return {i: k for i, k in keys if k in starts and snapshot.time_s < starts[k][1] + self.start_timeout_s}

    def _free(self, snapshot: ClusterSnapshot, need: Floats, starting: Mapping[int, str]) -> Floats:
        """Return free(tm) = 100 * nCores - cpu(tm) - what the instances need that were placed and not measured."""
        machines, instances = snapshot.machines, snapshot.instances
        assert machines.cpu_percent is not None
        is_new = instances.is_running.copy()
        if instances.cpu_ns is not None:
            is_new &= np.isnan(instances.cpu_ns)
        taken = np.bincount(instances.machine[is_new], need[instances.task[is_new]], len(machines))
        rows = {name: row for row, name in enumerate(machines.name)}
        for instance, name in starting.items():
            if name in rows:
                taken[rows[name]] += need[instances.task[instance]]
        return 100.0 * machines.cores - machines.cpu_percent - taken

    def _ranks(self, snapshot: ClusterSnapshot) -> NDArray[np.int64]:
        return np.random.default_rng([self.seed, snapshot.number]).permutation(len(snapshot.machines))


def place(
    snapshot: ClusterSnapshot,
    waiting: list[int],
    wishes: Wishes,
    need: Floats,
    free: Floats,
    is_alive: Bools,
    ranks: NDArray[np.int64],
) -> list[Move]:
    """Return where these instances start; those that no machine may take are left out.

    need: percent of a core by task; free: percent by machine, NaN if not measured; ranks: which of equals comes first.
    What is fixed comes first: room that was reserved, then the machine on which an instance ran that was not flagged.
    The others take a machine that they prefer and that has what they need free, else that with the most.
    """
    instances = snapshot.instances
    age = instances.age_s if instances.age_s is not None else np.full(len(instances), np.nan)
    most_free = MostFree(np.where(is_alive, free, np.nan), ranks)
    moves, rest = {}, []
    for i in waiting:
        flagged = wishes.flagged.get(i, frozenset())
        previous = int(instances.machine[i])
        fixed = [m for m in wishes.reserved.get(i, ()) if is_alive[m]]
        if not fixed and not flagged and not np.isnan(age[i]) and is_alive[previous]:
            fixed = [previous]
        if fixed:
            moves[i] = fixed[0]
            most_free.take(fixed[0], float(need[instances.task[i]]))
        else:
            rest.append(i)
    for i in rest:
        cpu = float(need[instances.task[i]])
        flagged = wishes.flagged.get(i, frozenset())
        preferred = [m for m in wishes.preferred.get(i, ()) if m not in flagged and most_free.has(m, cpu)]
        machine = most_free.best_of(preferred) if preferred else most_free.best(flagged)
        if machine is not None:
            moves[i] = machine
            most_free.take(machine, cpu)
    return [Move(i, moves[i], flagged=i in wishes.flagged) for i in waiting if i in moves]


def cpu_by_task(snapshot: ClusterSnapshot) -> Floats:
    """Return cpu(t), percent of a core: that of the instance which takes the fewest rows; NaN if not measured.

    Of several the highest (Stream-Economics, equation 6).
    """
    instances, load = snapshot.instances, np.full(len(snapshot.tasks), np.nan)
    if instances.cpu_ns is None or instances.records_in is None:
        return load
    rows = np.flatnonzero(instances.is_running & ~np.isnan(instances.cpu_ns) & ~np.isnan(instances.records_in))
    cpu, rate, task = instances.cpu_ns[rows], instances.records_in[rows], instances.task[rows]
    # The last that is written stays.
    order = np.lexsort((cpu, -rate, task))
    load[task[order]] = cpu[order] / snapshot.window_s / 1e7
    return load


def _without_refused(snapshot: ClusterSnapshot, starts: Starts) -> Starts:
    """Return the starts but for those that were refused, which nobody need wait for."""
    refusals = snapshot.refusals
    refused = {who for who, what in zip(refusals.subject, refusals.what, strict=True) if what == "machine"}
    return {key: start for key, start in starts.items() if f"{key[0]}/{key[1]}/{key[2]}" not in refused}


def _task_names(snapshot: ClusterSnapshot) -> list[TaskName]:
    applications = snapshot.applications.name
    return [
        (applications[a], name)
        for a, name in zip(snapshot.tasks.application.tolist(), snapshot.tasks.name, strict=True)
    ]
