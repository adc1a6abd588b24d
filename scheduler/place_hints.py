"""What other policies want of where instances start, as affinities in the snapshot that placement sees. Pure.

Instances of tasks whose memory somebody decides on are packed by CPU and memory (Justin, section 4.3), which placement
prefers; room for what load shedding moves is reserved (Stream-Economics, section 4). Called by the head of a job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from penstock.model.columns import Floats
from penstock.model.snapshot import AffinityColumns, ClusterSnapshot
from penstock.model.usable_machines import usable_machines
from penstock.scheduler.forward_groups import forward_groups
from penstock.scheduler.packing import Amounts, dominant_share
from penstock.scheduler.placement import free_cpu, known_need

PREFERRED, RESERVED = "preferred", "reserved"

PERCENT = 100.0
"""Of a core."""

MILLI = 10
"""Thousandths of a core in a percent of it."""

EQUAL_MILLI = 50
"""Free CPU in the same step of so many thousandths of a core is equally much."""


@dataclass(frozen=True, slots=True)
class WantedMove:
    """What an instance has, by its task and place in it, is to go to a machine."""

    task: str
    number: int
    machine: str


@dataclass(frozen=True, slots=True)
class PlaceHints:
    """What is wanted: ``packs``: somebody decides on the memory of tasks; ``moves`` are those of load shedding.

    ``memory``: bytes of each instance, by task, which were decided on and may not hold yet. ``loads``: the part of its
    core's time that each instance takes, by task, where these are to be spread; what it waits for within a step counts.
    """

    packs: bool = False
    memory: Mapping[str, int] = field(default_factory=dict)
    moves: tuple[WantedMove, ...] = ()
    loads: Mapping[str, float] = field(default_factory=dict)


NO_HINTS = PlaceHints()

Affinity = tuple[int, int, str]
"""An instance, a machine, and what kind of affinity it has to it."""


def hinted(
    snapshot: ClusterSnapshot, hints: PlaceHints, known_cpu: Mapping[str, float], lost_after_s: float
) -> ClusterSnapshot:
    """Return the snapshot with the affinities that follow from hints.

    ``known_cpu``: what instances of tasks took, percent of a core, by task. A machine that was silent for
    ``lost_after_s`` is lost. Where a figure is missing nothing is packed there.
    """
    affinities = _reservations(snapshot, hints.moves)
    taken = {instance for instance, _, _ in affinities}
    waiting = [i for i in np.flatnonzero(~snapshot.instances.is_running).tolist() if i not in taken]
    loads = np.array([hints.loads.get(name, 0.0) for name in snapshot.tasks.name])
    if hints.packs:
        need = np.maximum(known_need(snapshot, known_cpu), PERCENT * loads)
        memory = _memory(snapshot, hints.memory)
        room = _room(snapshot, memory, need, lost_after_s)
        if room is not None:
            for reserved, target, _ in affinities:
                cpu = ceil(MILLI * need[snapshot.instances.task[reserved]])
                room[target, :2] -= cpu, int(np.nan_to_num(memory[reserved]))
            affinities += _packed(snapshot, waiting, memory, need, room)
    if hints.loads:
        affinities += _spread(snapshot, waiting, loads, affinities, lost_after_s)
    if not affinities:
        return snapshot
    instance, machine, kinds = zip(*affinities, strict=True)
    is_preferred, is_reserved = (np.array([each == kind for each in kinds]) for kind in (PREFERRED, RESERVED))
    columns = (np.array(instance), np.array(machine), is_preferred, is_reserved, np.zeros(len(kinds), np.bool_))
    return replace(snapshot, affinities=AffinityColumns(*columns))


def _reservations(snapshot: ClusterSnapshot, moves: Sequence[WantedMove]) -> list[Affinity]:
    """Return the room of moves: for an instance that starts and can take what moves, else for the one that has it."""
    instances, names = snapshot.instances, snapshot.tasks.name
    machines = {name: row for row, name in enumerate(snapshot.machines.name)}
    found: list[Affinity] = []
    starting: set[int] = set()
    for move in moves:
        if move.task not in names or move.machine not in machines:
            continue
        own = np.flatnonzero(instances.task == names.index(move.task)).tolist()
        target, running = machines[move.machine], [i for i in own if instances.is_running[i]]
        is_there = any(instances.machine[i] == target for i in running)
        free = [i for i in own if not instances.is_running[i] and i not in starting]
        if free and not is_there:
            starting.add(free[0])
            found.append((free[0], target, RESERVED))
        else:
            moving = [i for i in running if instances.number[i] == move.number and instances.machine[i] != target]
            found += [(i, target, RESERVED) for i in moving]
    return found


def _memory(snapshot: ClusterSnapshot, decided: Mapping[str, int]) -> Floats:
    """Return the memory that each instance has or is to have, bytes; NaN: it has no bound."""
    instances, names = snapshot.instances, snapshot.tasks.name
    budget = np.full(len(instances), np.nan) if instances.managed_bytes is None else instances.managed_bytes
    task = instances.task
    by_task = np.array([decided.get(name, np.nan) for name in names])
    return np.where(np.isnan(by_task[task]), budget, by_task[task])


def _packed(
    snapshot: ClusterSnapshot, waiting: Sequence[int], memory: Floats, need: Floats, room: Amounts
) -> list[Affinity]:
    """Return the machines of packed instances, of those with memory; what does not fit has none.

    Those with the largest dominant share come first, each to the machine that has the most CPU of those with room, and
    of equals to one with few of its task. Instances that forward edges join go together. No machine gets more of a task
    than its even part, as its instances there work one at a time.
    """
    task = snapshot.instances.task
    units = [unit for unit in forward_groups(snapshot, waiting) if not np.isnan(memory[unit]).any()]
    if not units:
        return []
    needs: Amounts = np.zeros((len(units), room.shape[1]), np.int64)
    for row, unit in enumerate(units):
        needs[row, :2] = ceil(MILLI * need[task[unit]].sum()), memory[unit].sum()
        np.add.at(needs[row, 2:], task[unit], 1)
    found: list[Affinity] = []
    for row in np.argsort(-dominant_share(needs[:, :2], room[:, :2]), kind="stable").tolist():
        fitting = np.flatnonzero((room >= needs[row]).all(axis=1))
        if len(fitting):
            of_task = room[fitting, 2 + task[units[row][0]]]
            machine = fitting[np.lexsort((-of_task, -(room[fitting, 0] // EQUAL_MILLI)))[0]].item()
            room[machine] -= needs[row]
            found += [(i, machine, PREFERRED) for i in units[row] if memory[units[row]].sum() > 0]
    return found


def _spread(
    snapshot: ClusterSnapshot, waiting: Sequence[int], loads: Floats, placed: Sequence[Affinity], lost_after_s: float
) -> list[Affinity]:
    """Return the machines of instances that are to have as much of a core as they take, the largest first.

    Each goes to the one that has least, with what runs there and what was ``placed``; those that forward edges join go
    together.
    """
    task, machine = snapshot.instances.task, snapshot.instances.machine
    usable = usable_machines(snapshot.machines, lost_after_s)
    if not usable.any():
        return []
    runs = np.flatnonzero(snapshot.instances.is_running)
    levels = np.bincount(machine[runs], loads[task[runs]], len(usable)).astype(np.float64)
    known = {instance: target for instance, target, _ in placed}
    for instance, target in known.items():
        levels[target] += loads[task[instance]]
    levels[~usable] = np.inf
    units = [unit for unit in forward_groups(snapshot, waiting) if known.keys().isdisjoint(unit)]
    found: list[Affinity] = []
    for load, unit in sorted(((float(loads[task[unit]].sum()), unit) for unit in units), key=lambda item: -item[0]):
        if load > 0:
            least = int(levels.argmin())
            levels[least] += load
            found += [(instance, least, PREFERRED) for instance in unit]
    return found


def _room(snapshot: ClusterSnapshot, memory: Floats, need: Floats, lost_after_s: float) -> Amounts | None:
    """Return what machines have left: thousandths of a core, bytes, and instances of each task; None: not measured.

    What runs may still come to have all of its memory, beyond what the process has.
    """
    machines, instances = snapshot.machines, snapshot.instances
    limit, resident = machines.memory_limit_bytes, machines.resident_bytes
    if machines.cpu_percent is None or limit is None or resident is None:
        return None
    runs = np.flatnonzero(instances.is_running)
    of, task = instances.machine[runs], instances.task[runs]
    held = 0.0 if instances.state_bytes is None else np.nan_to_num(instances.state_bytes[runs])
    promised = np.bincount(of, np.maximum(0.0, np.nan_to_num(memory[runs]) - held), len(machines))
    usable = usable_machines(machines, lost_after_s)
    columns = MILLI * free_cpu(snapshot, need), limit - resident - promised
    left = [np.where(usable, np.maximum(0.0, np.nan_to_num(column)), 0.0).astype(np.int64) for column in columns]
    even = -(-np.bincount(instances.task, minlength=len(snapshot.tasks)) // max(1, int(usable.sum())))
    there = np.zeros((len(machines), len(snapshot.tasks)), np.int64)
    np.add.at(there, (of, task), 1)
    return np.column_stack([*left, np.where(usable[:, None], np.maximum(0, even - there), 0)])
