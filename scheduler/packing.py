"""Packing of tasks onto machines in several dimensions: first fit, largest first (Justin, section 4.3).

It includes the slot model of Justin's evaluation; called by `memory_model`, `place_hints` and that evaluation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.memory_levels import MIB

HEAP_BYTES = 134 * MIB
NETWORK_BYTES = 39 * MIB
"""Memory of every task beside its managed memory, in Justin's evaluation."""
SLOTS = 4
"""Tasks per machine in that evaluation, each with a core."""

Amounts = NDArray[np.int64]
NONE = -1
"""No machine."""


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """``machine`` of every task; `NONE` if it fits on none and no machine can be added.

    Machines that were added follow those that were there; ``machines`` counts both.
    """

    machine: NDArray[np.int64]
    machines: int


def task_bytes(managed_bytes: int) -> int:
    """Return the memory of a task: heap + network + managed, as Justin's evaluation adds it up."""
    return HEAP_BYTES + NETWORK_BYTES + managed_bytes


def profile(managed_bytes: int, milli_cores: int = 1000) -> Amounts:
    """Return the needs of a task: thousandths of a core, bytes of heap, network and managed memory."""
    return np.array([milli_cores, HEAP_BYTES, NETWORK_BYTES, managed_bytes], np.int64)


def machine_room(base_bytes: int) -> Amounts:
    """Return the capacity of a machine in that evaluation: 4 cores, and each kind of memory for 4 tasks."""
    return SLOTS * profile(base_bytes)


def pack(needs: Amounts, room: Amounts, new: Amounts | None, stays: NDArray[np.int64]) -> Packing:
    """Place tasks, those with the largest dominant share first, each on the first machine with room.

    Args:
        needs: tasks x dimensions, >= 0, whole numbers so that nothing is rounded.
        room: machines x dimensions, what each offers in all.
        new: what a machine that can be added offers; None if none can.
        stays: the machine on which a task runs and whose needs it has not changed, else `NONE`. It stays there, unless
            those that stay do not fit together; then the last of them move.
    """
    free = room.copy()
    machine = _place_staying(needs, free, stays)
    unplaced = np.flatnonzero(machine == NONE)
    # Tasks of equal needs are placed together: first fit fills a machine with them before it goes to the next.
    kinds, kind = np.unique(needs[unplaced], axis=0, return_inverse=True)
    for index in np.argsort(-dominant_share(kinds, room, new), kind="stable"):
        tasks, need = unplaced[kind.reshape(-1) == index], kinds[index]
        placed = 0
        fits = _fitting(need, free)
        taken = np.minimum(fits, np.maximum(0, len(tasks) - (np.cumsum(fits) - fits)))
        free -= taken[:, None] * need
        machine[tasks[: taken.sum()]] = np.repeat(np.arange(len(free)), taken)
        placed = int(taken.sum())
        if new is not None and placed < len(tasks):
            per_machine = int(min(_fitting(need, new[None, :])[0], len(tasks) - placed))
            if per_machine == 0:
                continue
            added = -(-(len(tasks) - placed) // per_machine)
            counts = np.full(added, per_machine)
            counts[-1] = len(tasks) - placed - per_machine * (added - 1)
            machine[tasks[placed:]] = np.repeat(np.arange(len(free), len(free) + added), counts)
            free = np.concatenate([free, new - counts[:, None] * need])
    return Packing(machine, len(free))


def dominant_share(needs: Amounts, room: Amounts, new: Amounts | None = None) -> NDArray[np.float64]:
    """Return the largest share that tasks take of any dimension of the largest machine."""
    offers = room if new is None else np.concatenate([room, new[None, :]])
    largest = np.maximum(offers.max(axis=0, initial=0), 1)
    return np.asarray((needs / largest).max(axis=1, initial=0.0))


def _place_staying(needs: Amounts, free: Amounts, stays: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the machines of the tasks that stay, and subtract their needs from the free room."""
    machine = np.full(len(needs), NONE, np.int64)
    order = np.flatnonzero(stays != NONE)
    order = order[np.argsort(stays[order], kind="stable")]
    on = stays[order]
    running = np.cumsum(needs[order], axis=0)
    starts = np.searchsorted(on, on, side="left")
    inside = running - np.where(starts[:, None] > 0, running[starts - 1], 0)
    fits = (inside <= free[on]).all(axis=1)
    staying = order[fits]
    machine[staying] = stays[staying]
    np.subtract.at(free, stays[staying], needs[staying])
    return machine


def _fitting(need: Amounts, free: Amounts) -> NDArray[np.int64]:
    """Return how many tasks of these needs each machine has room for."""
    used = need > 0
    if not used.any():
        return np.full(len(free), np.iinfo(np.int32).max, np.int64)
    return np.asarray((free[:, used] // need[used]).min(axis=1, initial=np.iinfo(np.int32).max))
