"""Moves that are under way: not told twice, and their room is kept until they arrive."""

from dataclasses import replace
from typing import Any

import numpy as np

from penstock.model.plan import ShedPlan
from penstock.model.snapshot import ClusterSnapshot
from penstock.shedding.qod import PAPER
from tests.shedding.clusters import Shape, random_snapshot

ROOMY = Shape(cores=4, minimums=(0.3, 0.7), cpu_percent=40.0, zeros=0.0)


def crowded() -> ClusterSnapshot:
    """Return a snapshot on which an instance must leave a machine, and finds room on another."""
    for seed in range(1000):
        snapshot = random_snapshot(np.random.default_rng(seed), ROOMY)
        decision, _ = PAPER.decide(snapshot, PAPER.start())
        if isinstance(decision, ShedPlan) and decision.moves and not decision.failed:
            return snapshot
    raise AssertionError("no seed")


def test_what_is_told_to_move_is_not_told_again_and_its_room_is_kept() -> None:
    snapshot = crowded()
    first, memory = PAPER.decide(snapshot, PAPER.start())
    assert isinstance(first, ShedPlan)
    move = first.moves[0]
    began, target = snapshot.time_s, snapshot.machines.name[move.machine]
    assert target in memory.pending_moves.machine and len(memory.pending_moves.who) == len(first.moves)

    def later(seconds: float, **columns: Any) -> ClusterSnapshot:
        return replace(snapshot, time_s=began + seconds, instances=replace(snapshot.instances, **columns))

    # It still runs where it was: nothing else leaves that machine.
    second, same = PAPER.decide(later(5), memory)
    assert isinstance(second, ShedPlan) and not second.moves and len(same.pending_moves.who) == len(first.moves)
    # It is stopped: the room at its destination is not given to others.
    moved = [m.instance for m in first.moves]
    is_running = ~np.isin(np.arange(len(snapshot.instances)), moved)
    stopped, kept = PAPER.decide(later(5, is_running=is_running), memory)
    fresh, _ = PAPER.decide(later(5, is_running=is_running), PAPER.start())
    available = [decision.numbers["available_cpu_percent"] for decision in (stopped, fresh)]
    assert available[0] < available[1] and began in kept.pending_moves.since_s
    # It has arrived, or it has been started elsewhere, or it never comes: no more is kept.
    machine, age = snapshot.instances.machine.copy(), snapshot.instances.age_s
    assert age is not None
    machine[moved] = [m.machine for m in first.moves]
    assert not set(PAPER.decide(later(5, machine=machine), memory)[1].pending_moves.since_s.tolist()) & {began}
    young = np.where(is_running, age, 2.0)
    assert not set(PAPER.decide(later(5, age_s=young), memory)[1].pending_moves.since_s.tolist()) & {began}
    assert not set(PAPER.decide(later(60), memory)[1].pending_moves.since_s.tolist()) & {began}
