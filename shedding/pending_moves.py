"""Moves that were ordered but are not complete: their room stays reserved, and nothing else leaves meanwhile.

Without it a reservation of `qod_kill` ends with its cycle (Stream-Economics, section 6). Called by `qod`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.model.columns import Bools, Floats, Names
from penstock.model.snapshot import RefusalColumns
from penstock.model.task_levels import Indexes
from penstock.shedding.group_sums import total
from penstock.shedding.instance_identity import NOBODY, InstanceNames
from penstock.shedding.qod_figures import Figures


@dataclass(frozen=True, slots=True, eq=False)
class PendingMoves:
    """The moving instances, their target machines, the start of each move, and the CPU reserved, percent of a core."""

    who: InstanceNames = NOBODY
    machine: Names = ()
    since_s: Floats = field(default_factory=lambda: np.zeros(0))
    cpu: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class MovesInProgress:
    """The effect of moves on a cycle: CPU reserved by machine, and the running instances that are about to leave."""

    reserved: Floats
    leaving: Bools
    pending: PendingMoves


def without_refused(pending: PendingMoves, refusals: RefusalColumns) -> PendingMoves:
    """Return the moves that were not refused: what will not move reserves no room."""
    refused = {subject for subject, what in zip(refusals.subject, refusals.what, strict=True) if what == "machine"}
    if not (refused and len(pending.who)):
        return pending
    kept = np.flatnonzero([subject not in refused for subject in pending.who.subjects()])
    machines = tuple(pending.machine[row] for row in kept.tolist())
    return PendingMoves(pending.who.select(kept), machines, pending.since_s[kept], pending.cpu[kept])


def moves_in_progress(
    pending: PendingMoves, figures: Figures, machines: Names, now_s: float, timeout_s: float
) -> MovesInProgress:
    """Return the moves that are not complete and started less than `timeout_s` ago; remember its `pending`."""
    leaving = np.zeros(len(figures.task), np.bool_)
    rows = {name: row for row, name in enumerate(machines)}
    target = np.array([rows.get(name, -1) for name in pending.machine], np.intp)
    places = pending.who.places_in(figures.who)
    runs = places >= 0
    arrived = np.zeros(len(places), np.bool_)
    machine, age_s = figures.machine[places[runs]], figures.age_s[places[runs]]
    # An instance that started after the move was ordered has moved, even if it was placed elsewhere. Where what it has
    # moves, and not itself, it is left without input.
    has_left = (machine == target[runs]) | ~figures.takes[places[runs]]
    arrived[runs] = has_left | (age_s < now_s - pending.since_s[runs])
    pending_rows = np.flatnonzero((target >= 0) & ~arrived & (now_s < pending.since_s + timeout_s))
    leaving[places[pending_rows[runs[pending_rows]]]] = True
    reserved = total(pending.cpu[pending_rows], target[pending_rows], len(machines))
    still_pending = PendingMoves(
        pending.who.select(pending_rows),
        tuple(pending.machine[i] for i in pending_rows),
        pending.since_s[pending_rows],
        pending.cpu[pending_rows],
    )
    return MovesInProgress(reserved, leaving, still_pending)


def with_moves(
    pending: PendingMoves, figures: Figures, moves: Mapping[int, int], machines: Names, now_s: float
) -> PendingMoves:
    """Return the pending moves with new ones, which are by the place of the instance in the figures."""
    if not moves:
        return pending
    places: Indexes = np.array(list(moves), np.intp)
    movers = figures.who.select(places)
    codes_before = pending.who.codes_in(movers) if len(pending.who) else np.zeros(0, np.int64)
    listed = codes_before >= 0
    who = InstanceNames(
        movers.applications, movers.tasks, movers.application, np.concatenate([codes_before[listed], movers.code])
    )
    return PendingMoves(
        who,
        (
            *(name for name, is_known in zip(pending.machine, listed, strict=True) if is_known),
            *(machines[m] for m in moves.values()),
        ),
        np.concatenate([pending.since_s[listed], np.full(len(moves), now_s)]),
        np.concatenate([pending.cpu[listed], figures.min_req_cpu[places]]),
    )
