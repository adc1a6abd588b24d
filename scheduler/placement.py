"""Placement of waiting instances on the machine with the most free CPU (Stream-Economics, section 4).

Needed when a job is deployed, and when instances were stopped or lost.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.model.plan import Decision, Move, NoChange, Placement, not_measured
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.usable_machines import usable_machines
from penstock.scheduler.forward_groups import forward_groups
from penstock.scheduler.free_cpu_heap import FreeCpuHeap
from penstock.scheduler.placement_preferences import PlacementPreferences, preferences_of

UNMEASURED_CPU = 100.0
"""Assumed CPU of a task that was never measured, percent: one core."""

TaskName = tuple[str, str]
"""An application's name and a task's."""

Starts = Mapping[tuple[str, str, int], tuple[str, float]]
"""By application, task and number: the machine on which an instance was to start, and when that was decided."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementMemory:
    """The last known CPU of each task, percent of a core, and the instances that were placed but do not run yet."""

    cpu: Mapping[TaskName, float] = field(default_factory=dict)
    starts: Starts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskScheduler(Policy[PlacementMemory]):
    """Places waiting instances; ties are broken by a draw that depends on `seed` and the snapshot's number.

    With `in_turn` they are broken by the instance's own number, around the machines that can be used: so instances that
    are numbered alike meet; but where others of its task are, it goes to a machine with fewer of these. Machines whose
    free CPU is within `equal_within_percent` of the most count as equal then.
    `known_cpu` is that of tasks, by name, which was measured before the policy starts, percent of a core.

    A machine that was silent for `lost_after_s` is lost; it and machines without cores or memory get no instance. An
    instance that does not run `start_timeout_s` after its placement is placed again.
    """

    seed: int = 0
    lost_after_s: float = 10.0
    start_timeout_s: float = 60.0
    in_turn: bool = False
    equal_within_percent: float = 5.0
    known_cpu: Mapping[str, float] = field(default_factory=dict)

    def start(self) -> PlacementMemory:
        """Return the empty memory."""
        return PlacementMemory()

    def decide(self, snapshot: ClusterSnapshot, memory: PlacementMemory) -> tuple[Decision, PlacementMemory]:
        """Return machines for all waiting instances for which there is one."""
        names, preferences = snapshot.task_names(), preferences_of(snapshot)
        load = cpu_by_task(snapshot)
        last = np.array([memory.cpu.get(name, self.known_cpu.get(name[1], UNMEASURED_CPU)) for name in names])
        need = np.where(np.isnan(load), last, load)
        cpu = {**memory.cpu} | {names[t]: float(load[t]) for t in np.flatnonzero(~np.isnan(load)).tolist()}
        starts = _without_refused(snapshot, memory.starts)
        pending = self._pending(snapshot, starts, names)
        memory = PlacementMemory(cpu, {key: starts[key] for key in pending.values()})
        waiting = [i for i in np.flatnonzero(~snapshot.instances.is_running).tolist() if i not in pending]
        if not waiting:
            return NoChange("no instance waits to be placed", {"starting": len(pending)}), memory
        if snapshot.machines.cpu_percent is None:
            return not_measured("machines.cpu_percent"), memory

        is_alive = usable_machines(snapshot.machines, self.lost_after_s)
        free = free_cpu(snapshot, need) - self._spoken_for(snapshot, need, preferences, memory.starts, pending)
        ties = Ties(self._ranks(snapshot), self.equal_within_percent if self.in_turn else None)
        chosen = place(snapshot, waiting, preferences, need, free, is_alive, ties)
        if not chosen:
            return NoChange(f"no machine for {len(waiting)} instances"), memory
        numbers = {"placed": len(chosen), "without_machine": len(waiting) - len(chosen), "starting": len(pending)}
        starts = dict(memory.starts)
        for move in chosen:
            key = (*names[snapshot.instances.task[move.instance]], int(snapshot.instances.number[move.instance]))
            starts[key] = (snapshot.machines.name[move.machine], snapshot.time_s)
        reason = f"{len(chosen)} of {len(waiting)} instances that wait are placed"
        if elsewhere := sum(map(preferences.has_no_say, chosen)):
            numbers["elsewhere"] = elsewhere
            reason += f", {elsewhere} of them elsewhere than preferred"
        return Placement(tuple(chosen), reason, numbers), PlacementMemory(memory.cpu, starts)

    def _pending(
        self, snapshot: ClusterSnapshot, starts: Starts, names: list[TaskName]
    ) -> dict[int, tuple[str, str, int]]:
        """Return the instances that were placed recently and do not run yet, by row."""
        instances = snapshot.instances
        if not starts:
            return {}
        rows = np.flatnonzero(~instances.is_running).tolist()
        keys = ((i, (*names[instances.task[i]], int(instances.number[i]))) for i in rows)
        return {i: k for i, k in keys if k in starts and snapshot.time_s < starts[k][1] + self.start_timeout_s}

    def _spoken_for(
        self,
        snapshot: ClusterSnapshot,
        need: Floats,
        preferences: PlacementPreferences,
        starts: Starts,
        pending: Mapping[int, tuple[str, str, int]],
    ) -> Floats:
        """Return the CPU of machines that is kept for instances that start there, or for what of others goes there."""
        instances, taken = snapshot.instances, np.zeros(len(snapshot.machines))
        rows = {name: row for row, name in enumerate(snapshot.machines.name)}
        targets = [(i, rows[name]) for i, key in pending.items() if (name := starts[key][0]) in rows]
        targets += [
            (i, machine)
            for i, machines in preferences.reserved.items()
            for machine in machines
            if instances.is_running[i] and instances.machine[i] != machine
        ]
        for instance, machine in targets:
            taken[machine] += need[instances.task[instance]]
        return taken

    def _ranks(self, snapshot: ClusterSnapshot) -> NDArray[np.int64]:
        if self.in_turn:
            return np.arange(len(snapshot.machines))
        return np.random.default_rng([self.seed, snapshot.number]).permutation(len(snapshot.machines))


@dataclass(frozen=True, slots=True)
class Ties:
    """The choice among machines with as much free CPU: the least of ``ranks``.

    If ``equal_within`` (percent) is there, instances of number i go to machine i, if it is that close to the best, and
    no other that is has fewer instances of their task.
    """

    ranks: NDArray[np.int64]
    equal_within: float | None = None


def place(
    snapshot: ClusterSnapshot,
    waiting: list[int],
    preferences: PlacementPreferences,
    need: Floats,
    free: Floats,
    is_alive: Bools,
    ties: Ties,
) -> list[Move]:
    """Return moves that start these instances; those that no machine may take are left out.

    need: percent of a core by task; free: percent by machine, NaN if not measured; ties: which of equals comes first.
    Fixed places come first: reserved room, then the machine on which an unflagged instance ran before. The others get
    a preferred machine with enough free CPU, else the machine with the most, or a preferred one that equals it; those
    joined by forward edges get one.
    """
    instances = snapshot.instances
    age = instances.age_s if instances.age_s is not None else np.full(len(instances), np.nan)
    free_heap = FreeCpuHeap(np.where(is_alive, free, np.nan), ties.ranks)
    usable = np.flatnonzero(is_alive & ~np.isnan(free)).tolist()
    hosted = _hosted(snapshot)
    moves: dict[int, int] = {}
    without_place = []
    for i in waiting:
        flagged = preferences.flagged.get(i, frozenset())
        previous = int(instances.machine[i])
        fixed = [m for m in preferences.reserved.get(i, ()) if is_alive[m]]
        if not fixed and not flagged and not np.isnan(age[i]) and is_alive[previous]:
            fixed = [previous]
        if fixed:
            moves[i] = fixed[0]
            hosted[int(instances.task[i]), fixed[0]] += 1
            free_heap.take(fixed[0], float(need[instances.task[i]]))
        else:
            without_place.append(i)
    for group in forward_groups(snapshot, without_place):
        cpu = float(need[instances.task[group]].sum())
        flagged = frozenset[int]().union(*(preferences.flagged.get(i, frozenset()) for i in group))
        wished = dict.fromkeys(m for i in group for m in preferences.preferred.get(i, ()))
        preferred = [m for m in wished if m not in flagged and free_heap.has(m, cpu)]
        machine = free_heap.best_of(preferred) if preferred else free_heap.best(flagged)
        if machine is not None and not preferred and ties.equal_within is not None:
            home, task = usable[int(instances.number[group[0]]) % len(usable)], int(instances.task[group[0]])
            best = machine
            # Where none has room a wish is no worse than its like.
            equal = [m for m in wished if m not in flagged and free_heap.is_near(m, best, ties.equal_within)]
            if equal:
                machine = equal[0]
            elif home not in flagged and free_heap.is_near(home, best, ties.equal_within):
                machine = home
            if not equal and hosted[task, machine]:
                near = [m for m in usable if m not in flagged and free_heap.is_near(m, best, ties.equal_within)]
                machine = min(near, key=lambda m: (hosted[task, m], m != machine))
        if machine is not None:
            moves |= dict.fromkeys(group, machine)
            hosted.update((int(instances.task[i]), machine) for i in group)
            free_heap.take(machine, cpu)
    return [Move(i, moves[i], flagged=i in preferences.flagged) for i in waiting if i in moves]


def _hosted(snapshot: ClusterSnapshot) -> Counter[tuple[int, int]]:
    """Return by task and machine how many instances run."""
    running = np.flatnonzero(snapshot.instances.is_running)
    task, machine = snapshot.instances.task[running], snapshot.instances.machine[running]
    return Counter(zip(task.tolist(), machine.tolist(), strict=True))


def free_cpu(snapshot: ClusterSnapshot, need: Floats) -> Floats:
    """Return free(tm) = 100 * nCores - cpu(tm) - what instances need that run and were not measured.

    ``need``: percent of a core by task; NaN: the load of a machine was not measured.
    """
    machines, instances = snapshot.machines, snapshot.instances
    assert machines.cpu_percent is not None
    is_new = instances.is_running.copy()
    if instances.cpu_ns is not None:
        is_new &= np.isnan(instances.cpu_ns)
    taken = np.bincount(instances.machine[is_new], need[instances.task[is_new]], len(machines))
    return 100.0 * machines.cores - machines.cpu_percent - taken


def known_need(snapshot: ClusterSnapshot, known: Mapping[str, float]) -> Floats:
    """Return cpu(t) of every task: as measured, else as ``known`` by its name, else a core."""
    load = cpu_by_task(snapshot)
    return np.where(np.isnan(load), [known.get(name, UNMEASURED_CPU) for name in snapshot.tasks.name], load)


def cpu_by_task(snapshot: ClusterSnapshot) -> Floats:
    """Return cpu(t), percent of a core: that of its instance with the fewest rows; NaN if not measured.

    Among ties the highest counts (Stream-Economics, equation 6).
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
    """Return the starts without those that were refused."""
    refusals = snapshot.refusals
    refused = {who for who, what in zip(refusals.subject, refusals.what, strict=True) if what == "machine"}
    return {key: start for key, start in starts.items() if f"{key[0]}/{key[1]}/{key[2]}" not in refused}
