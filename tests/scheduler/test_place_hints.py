"""Hints of other policies to placement: instances are packed by memory, and room for what moves is kept."""

from collections import Counter
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.memory_levels import MIB
from penstock.model.plan import Placement
from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    EdgeColumns,
    InstanceColumns,
    MachineColumns,
    TaskColumns,
)
from penstock.scheduler.place_hints import NO_HINTS, PlaceHints, WantedMove, hinted
from penstock.scheduler.placement import TaskScheduler
from tests.papers_cases import cases

LOST_S = 10.0
NAN = float("nan")
PACKS = PlaceHints(packs=True)
SCHEDULER = TaskScheduler(in_turn=True)

Rows = list[tuple[int, int | None, float]]
"""Of instances the task, the machine on which one runs (None: it waits), and its budget in MiB."""


def cluster(
    rows: Rows,
    free_mib: list[float],
    load: list[float] | None = None,
    held_mib: list[float] | None = None,
    forward: bool = False,
) -> ClusterSnapshot:
    """Return machines of one core with so much memory free, and loaded so far (percent); no CPU of instances is known.

    ``forward``: the first task hands its rows to the second.
    """
    machines, tasks = len(free_mib), max((task for task, _, _ in rows), default=0) + 1
    numbers: Counter[int] = Counter()
    number = []
    for task, _, _ in rows:
        number.append(numbers[task])
        numbers[task] += 1
    return ClusterSnapshot(
        number=1,
        time_s=100.0,
        window_s=1.0,
        applications=ApplicationColumns(("a",)),
        tasks=TaskColumns(tuple(f"t{task}" for task in range(tasks)), *([np.zeros(tasks, np.int32)] * 7)),
        edges=EdgeColumns([0], [1], [False], is_forward=[True]) if forward else EdgeColumns.none(),
        machines=MachineColumns(
            tuple(f"m{machine}" for machine in range(machines)),
            np.ones(machines),
            np.zeros(machines) if load is None else np.array(load),
            resident_bytes=np.full(machines, 100.0 * MIB),
            memory_limit_bytes=(100 + np.array(free_mib)) * MIB,
        ),
        instances=InstanceColumns(
            [task for task, _, _ in rows],
            number,
            [machine or 0 for _, machine, _ in rows],
            [machine is not None for _, machine, _ in rows],
            state_bytes=None if held_mib is None else np.array(held_mib) * MIB,
            managed_bytes=np.array([budget * MIB for _, _, budget in rows]),
        ),
    )


def known(percent: float = 1.0) -> dict[str, float]:
    """Return the CPU that an instance of every task took."""
    return {f"t{task}": percent for task in range(9)}


def places(snapshot: ClusterSnapshot, hints: PlaceHints, percent: float = 1.0) -> dict[int, int]:
    """Return the machine of each instance that waits."""
    scheduler = replace(SCHEDULER, known_cpu=known(percent))
    decision, _ = scheduler.decide(hinted(snapshot, hints, known(percent), LOST_S), scheduler.start())
    assert isinstance(decision, Placement), decision
    return {move.instance: move.machine for move in decision.moves}


def test_an_instance_goes_where_there_is_room_for_its_memory() -> None:
    snapshot = cluster([(0, 0, 100), (0, None, 100)], [500, 50, 150], load=[0, 0, 30])
    # The second has the most CPU free of those without an instance of the task, and no memory.
    assert places(snapshot, NO_HINTS) == {1: 1}
    assert places(snapshot, PACKS) == {1: 2}


def test_of_task_managers_with_room_it_is_the_one_with_the_most_cpu() -> None:
    snapshot = cluster([(0, 0, 100), (0, None, 100)], [0, 300, 300], load=[0, 60, 10])
    assert places(snapshot, PACKS) == {1: 2}


def test_what_was_decided_on_counts_before_it_holds() -> None:
    snapshot = cluster([(0, 0, 100), (0, None, 100)], [900, 150, 300], load=[0, 0, 30])
    assert places(snapshot, PACKS) == {1: 1}
    assert places(snapshot, replace(PACKS, memory={"t0": 200 * MIB})) == {1: 2}


def test_what_runs_may_yet_come_to_have_all_its_memory() -> None:
    rows: Rows = [(1, 0, 100), (0, None, 100)]
    assert places(cluster(rows, [150, 150], load=[0, 50], held_mib=[0, 0]), PACKS) == {1: 1}
    assert places(cluster(rows, [150, 150], load=[0, 50], held_mib=[90, 0]), PACKS) == {1: 0}


def test_the_largest_are_packed_first_and_instances_of_a_task_apart() -> None:
    rows: Rows = [(0, None, 60), (0, None, 60), (1, None, 100), (1, None, 100)]
    assert places(cluster(rows, [170, 170]), PACKS) == {0: 0, 1: 1, 2: 0, 3: 1}
    assert places(cluster(rows, [100, 300]), PACKS) == {2: 0, 3: 1, 0: 1, 1: 0}


def test_what_forward_edges_join_stays_together() -> None:
    rows: Rows = [(0, None, 0), (1, None, 100)]
    assert places(cluster(rows, [50, 150], load=[0, 40], forward=True), PACKS) == {0: 1, 1: 1}


def test_a_hint_gives_way_to_cpu_and_that_is_said() -> None:
    snapshot = cluster([(0, 0, 100), (0, None, 100)], [0, 0, 150], load=[0, 0, 95])
    assert len(hinted(snapshot, PACKS, known(20), LOST_S).affinities) == 0
    # Placement may know more of what the task takes than there was free.
    preferring = hinted(snapshot, PACKS, known(1), LOST_S)
    assert preferring.affinities.machine.tolist() == [2]
    scheduler = replace(SCHEDULER, known_cpu=known(20))
    decision, _ = scheduler.decide(preferring, scheduler.start())
    assert isinstance(decision, Placement) and [move.machine for move in decision.moves] == [1]
    assert decision.reason.endswith("1 of them elsewhere than preferred")
    assert decision.numbers["elsewhere"] == 1


def test_where_memory_has_no_bound_or_was_not_measured_nothing_is_packed() -> None:
    snapshot = cluster([(0, 0, NAN), (0, None, NAN)], [500, 500])
    assert hinted(snapshot, PACKS, known(), LOST_S) is snapshot
    measured = cluster([(0, 0, 100), (0, None, 100)], [500, 500])
    assert hinted(measured, NO_HINTS, known(), LOST_S) is measured
    blind = replace(measured, machines=replace(measured.machines, memory_limit_bytes=None))
    assert hinted(blind, PACKS, known(), LOST_S) is blind
    unseen = replace(measured, machines=replace(measured.machines, memory_limit_bytes=[1e12, NAN]))
    assert hinted(unseen, PACKS, known(), LOST_S).affinities.machine.tolist() in ([], [0])


def test_room_for_what_moves_is_kept_from_others() -> None:
    rows: Rows = [(0, 0, 0), (0, 1, 0), (1, None, 0)]
    snapshot = cluster(rows, [9, 9], load=[70, 30])
    assert places(snapshot, NO_HINTS, 60) == {2: 1}
    assert places(snapshot, PlaceHints(moves=(WantedMove("t0", 0, "m1"),)), 60) == {2: 0}
    # It is there already, or nobody knows the machine or the task.
    for gone in (WantedMove("t0", 1, "m1"), WantedMove("t0", 0, "m7"), WantedMove("t9", 0, "m1")):
        assert places(snapshot, PlaceHints(moves=(gone,)), 60) == {2: 1}


def test_an_instance_starts_where_load_shedding_wants_one_of_its_task() -> None:
    rows: Rows = [(0, 0, 0), (0, None, 0), (0, None, 0)]
    snapshot = cluster(rows, [9, 9, 9], load=[0, 0, 40])
    assert places(snapshot, NO_HINTS) == {1: 1, 2: 0}
    # What moves can go to it then: only instances of its task take key groups over.
    assert places(snapshot, PlaceHints(moves=(WantedMove("t0", 0, "m2"),))) == {1: 2, 2: 1}


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_what_is_packed_fits_and_is_placed_so_where_cpu_is_free(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machines, count, tasks = int(rng.integers(1, 6)), int(rng.integers(1, 10)), int(rng.integers(1, 4))
    budget = rng.integers(0, 4, tasks) * 50.0
    rows: Rows = [
        (task, int(rng.integers(0, machines)) if rng.random() < 0.4 else None, budget[task])
        for task in sorted(rng.integers(0, tasks, count).tolist())
    ]
    free = (rng.integers(0, 8, machines) * 50.0).tolist()
    snapshot = cluster(rows, free, load=(rng.integers(0, 10, machines) * 10.0).tolist())
    prepared = hinted(snapshot, PACKS, known(5), LOST_S)
    wanted = dict(zip(prepared.affinities.instance.tolist(), prepared.affinities.machine.tolist(), strict=True))
    waiting = [i for i, (_, machine, _) in enumerate(rows) if machine is None]
    assert set(wanted) <= {i for i in waiting if rows[i][2] > 0}
    for machine in range(machines):
        there = [i for i, (_, at, _) in enumerate(rows) if at == machine]
        comes = [i for i, at in wanted.items() if at == machine]
        # What ran there may come to have all its memory; where that is too much already nobody comes.
        assert not comes or sum(rows[i][2] for i in there + comes) <= free[machine]
        for task, number in Counter(rows[i][0] for i in comes).items():
            had = sum(rows[i][0] == task for i in there)
            assert had + number <= ceil(sum(row[0] == task for row in rows) / machines)
    if not waiting:
        assert prepared is snapshot
        return
    placed = places(snapshot, PACKS, 5)
    scheduler = replace(SCHEDULER, known_cpu=known(5))
    decision, _ = scheduler.decide(prepared, scheduler.start())
    assert isinstance(decision, Placement)
    elsewhere = [i for i, machine in wanted.items() if placed[i] != machine]
    assert snapshot.machines.cpu_percent is not None
    assert decision.numbers.get("elsewhere", 0) == len(elsewhere)
    # Others may have taken the CPU before: nobody gave it away while it was free.
    for i in elsewhere:
        before = sum(5 for j, machine in placed.items() if machine == wanted[i] and j < i)
        runs = sum(5 for _, at, _ in rows if at == wanted[i])
        assert 100 - snapshot.machines.cpu_percent[wanted[i]] - runs - before < 5


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_reserved_room_is_as_if_it_were_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machines, count = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    load = (rng.integers(0, 10, machines) * 10.0).tolist()
    # The first task runs on all machines, and its first instance is to give away what it has.
    rows: Rows = [*((0, machine, 0.0) for machine in range(machines)), *((1, None, 0.0) for _ in range(count))]
    target, need = int(rng.integers(0, machines)), float(rng.integers(1, 60))
    move = PlaceHints(moves=(WantedMove("t0", 0, f"m{target}"),))
    fuller = [at + need * (machine == target != 0) for machine, at in enumerate(load)]
    nine = [9.0] * machines
    assert places(cluster(rows, nine, load), move, need) == places(cluster(rows, nine, fuller), NO_HINTS, need)


LOADS = {"t0": 0.8, "t1": 0.75, "t2": 0.7}
"""Parts of a core's time; whatever of it is CPU."""


def spread(rows: Rows, machines: int, **options: Any) -> list[int]:
    """Return where instances that wait are placed by these loads."""
    state = hinted(cluster(rows, [100.0] * machines, **options), PlaceHints(loads=LOADS), {}, LOST_S)
    known = {f"t{task}": 3.0 for task in range(3)}
    decision, _ = replace(SCHEDULER, known_cpu=known).decide(state, SCHEDULER.start())
    assert isinstance(decision, Placement)
    return [move.machine for move in decision.moves]


def test_instances_that_block_their_loop_are_spread_by_its_time() -> None:
    """By CPU they are next to nothing, and instances of one number would meet."""
    assert sorted(spread([(0, None, NAN), (1, None, NAN), (2, None, NAN)], 3)) == [0, 1, 2]
    # The largest come first, and what runs counts.
    assert spread([(0, None, NAN), (1, None, NAN), (2, None, NAN)], 2) == [0, 1, 1]
    assert spread([(0, 0, NAN), (1, None, NAN), (2, 1, NAN)], 3) == [2]
    assert spread([(0, None, NAN), (1, None, NAN), (2, None, NAN)], 3, forward=True) == [0, 0, 1]
    # Beside other programs none has CPU for them, and they are apart all the same; one that has some goes first.
    three = [(0, None, NAN), (1, None, NAN), (2, None, NAN)]
    assert sorted(spread(three, 3, load=[99.0] * 3)) == [0, 1, 2]
    assert spread(three, 3, load=[99.0, 20.0, 99.0]) == [1, 1, 1]


def test_who_takes_nothing_is_placed_as_ever_and_without_machines_nobody_is() -> None:
    state = cluster([(0, None, NAN), (1, None, NAN)], [100.0] * 2)
    some = hinted(state, PlaceHints(loads={"t1": 0.5}), {}, LOST_S)
    assert some.affinities.instance.tolist() == [1]
    lost = replace(state, machines=replace(state.machines, heartbeat_age_s=np.full(2, 99.0)))
    assert hinted(lost, PlaceHints(loads=LOADS), {}, LOST_S) is lost
