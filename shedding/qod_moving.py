"""Instances that were told to move and have not arrived: their room is kept, and nothing else leaves meanwhile.

Without it a reservation of `qod_kill` ends with its cycle (Stream-Economics, section 6). Called by `qod`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Bools, Floats, Names
from penstock.shedding.by_group import total
from penstock.shedding.qod_figures import Figures
from penstock.shedding.same_instances import NOBODY, InstanceNames
from penstock.shedding.task_graph import Indexes


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """Who moves, to which machine, since when, and the CPU that is reserved there, percent of a core."""

    who: InstanceNames = NOBODY
    machine: Names = ()
    since_s: Floats = field(default_factory=lambda: np.zeros(0))
    cpu: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class UnderWay:
    """What moves mean for a cycle: CPU reserved by machine, and the running instances that are about to leave."""

    reserved: Floats
    leaving: Bools
    moving: Moving


def under_way(moving: Moving, figures: Figures, machines: Names, now_s: float, timeout_s: float) -> UnderWay:
    """Return what has not arrived and was told less than `timeout_s` ago; `moving` of it is to be remembered."""
    leaving = np.zeros(len(figures.task), np.bool_)
    rows = {name: row for row, name in enumerate(machines)}
    target = np.array([rows.get(name, -1) for name in moving.machine], np.intp)
    at = moving.who.found_in(figures.who)
    runs = at >= 0
    arrived = np.zeros(len(at), np.bool_)
    there, age_s = figures.machine[at[runs]], figures.age_s[at[runs]]
    # What was started since has moved, also if it was put elsewhere.
    arrived[runs] = (there == target[runs]) | (age_s < now_s - moving.since_s[runs])
    kept = np.flatnonzero((target >= 0) & ~arrived & (now_s < moving.since_s + timeout_s))
    leaving[at[kept[runs[kept]]]] = True
    reserved = total(moving.cpu[kept], target[kept], len(machines))
    still = Moving(
        moving.who.some(kept), tuple(moving.machine[i] for i in kept), moving.since_s[kept], moving.cpu[kept]
    )
    return UnderWay(reserved, leaving, still)


def with_moves(moving: Moving, figures: Figures, moves: Mapping[int, int], machines: Names, now_s: float) -> Moving:
    """Return what moves now: these too, by the place of the instance in the figures."""
    if not moves:
        return moving
    places: Indexes = np.array(list(moves), np.intp)
    more = figures.who.some(places)
    before = moving.who.renamed_as(more) if len(moving.who) else np.zeros(0, np.int64)
    known = before >= 0
    who = InstanceNames(more.applications, more.tasks, more.application, np.concatenate([before[known], more.code]))
    return Moving(
        who,
        (
            *(name for name, is_known in zip(moving.machine, known, strict=True) if is_known),
            *(machines[m] for m in moves.values()),
        ),
        np.concatenate([moving.since_s[known], np.full(len(moves), now_s)]),
        np.concatenate([moving.cpu[known], figures.min_req_cpu[places]]),
    )
