"""The task scheduler of Stream-Economics, section 4: the machine with the most free CPU, and what comes before that."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import NoChange, Placement, not_measured
from penstock.model.snapshot import (
    AffinityColumns,
    ApplicationColumns,
    ClusterSnapshot,
    EdgeColumns,
    InstanceColumns,
    MachineColumns,
    TaskColumns,
)
from penstock.scheduler.placement import TaskScheduler, cpu_by_task
from tests.papers_cases import cases

NAN = float("nan")
seeds = st.integers(0, 2**32 - 1)
SCHEDULER = TaskScheduler()


def cluster(
    free: Sequence[float],
    waiting: Sequence[int],
    cpu: Sequence[float] = (),
    ran_on: Sequence[int | None] | None = None,
    affinities: Sequence[tuple[int, int, str]] = (),
    lost: Sequence[int] = (),
) -> ClusterSnapshot:
    """Return machines of four cores with so much free; by instance that waits its task; `cpu` by task that runs.

    What runs has a machine of its own kind, the last, which has nothing free. `affinities`: instance that waits,
    machine, kind.
    """
    machines, tasks = len(free) + 1, max([*waiting, len(cpu) - 1, 0]) + 1
    running, n = len(cpu), len(cpu) + len(waiting)
    ran = list(ran_on) if ran_on is not None else [None] * len(waiting)
    rows = np.array([(running + i, m, kind) for i, m, kind in affinities], object).reshape(-1, 3)
    return ClusterSnapshot(
        number=1,
        time_s=100.0,
        window_s=1.0,
        applications=ApplicationColumns(("a",)),
        tasks=TaskColumns(tuple(f"t{t}" for t in range(tasks)), *([np.zeros(tasks, np.int32)] * 7)),
        machines=MachineColumns(
            tuple(f"m{m}" for m in range(machines)),
            np.full(machines, 4.0),
            400.0 - np.array([*free, 0.0]),
            heartbeat_age_s=np.isin(np.arange(machines), lost) * 60.0,
        ),
        instances=InstanceColumns(
            [*range(running), *waiting],
            np.arange(n),
            [machines - 1] * running + [0 if m is None else m for m in ran],
            np.arange(n) < running,
            records_in=np.full(n, 1.0),
            cpu_ns=[*(np.array(cpu) * 1e7), *[NAN] * len(waiting)],
            age_s=[*[100.0] * running, *(NAN if m is None else 50.0 for m in ran)],
        ),
        affinities=AffinityColumns(
            rows[:, 0].astype(np.int32),
            rows[:, 1].astype(np.int32),
            *(rows[:, 2] == kind for kind in ("preferred", "reserved", "flagged")),
        ),
    )


def machines_of(snapshot: ClusterSnapshot, scheduler: TaskScheduler = SCHEDULER) -> list[int]:
    decision, _ = scheduler.decide(snapshot, scheduler.start())
    assert isinstance(decision, Placement), decision
    return [move.machine for move in decision.moves]


def test_the_most_free_first_and_a_core_for_what_was_never_measured() -> None:
    assert machines_of(cluster([300.0, 250.0], [0, 1, 2, 3])) == [0, 1, 0, 1]


def test_a_task_that_is_known_counts_what_it_takes() -> None:
    assert machines_of(cluster([300.0, 250.0], [0, 0, 0, 0], cpu=[20.0])) == [0, 0, 0, 1]


def test_the_core_is_only_set_aside_until_there_is_a_figure() -> None:
    snapshot = cluster([300.0, 250.0], [0])
    decision, memory = SCHEDULER.decide(snapshot, SCHEDULER.start())
    assert isinstance(decision, Placement) and decision.moves[0].machine == 0
    again, memory = SCHEDULER.decide(replace(snapshot, time_s=101.0), memory)
    assert again == NoChange("no instance waits to be placed", {"starting": 1})
    # It runs, not measured yet, while a second comes: machine 0 counts as 300 - 100 free; with a figure as measured.
    both = replace(cluster([300.0, 250.0], [0, 1]), time_s=102.0)
    for cpu, expected in ((NAN, 1), (1e8, 0)):
        instances = replace(both.instances, is_running=[True, False], cpu_ns=[cpu, NAN])
        decision, _ = SCHEDULER.decide(replace(both, instances=instances), memory)
        assert isinstance(decision, Placement) and [m.machine for m in decision.moves] == [expected]


def test_what_did_not_start_in_time_is_placed_again() -> None:
    snapshot = cluster([300.0], [0])
    _, memory = SCHEDULER.decide(snapshot, SCHEDULER.start())
    assert isinstance(SCHEDULER.decide(replace(snapshot, time_s=159.0), memory)[0], NoChange)
    assert isinstance(SCHEDULER.decide(replace(snapshot, time_s=160.0), memory)[0], Placement)


def test_a_start_that_is_under_way_takes_room() -> None:
    _, memory = SCHEDULER.decide(cluster([300.0, 250.0], [0]), SCHEDULER.start())
    decision, _ = SCHEDULER.decide(cluster([300.0, 250.0], [0, 1]), memory)
    assert isinstance(decision, Placement) and [m.machine for m in decision.moves] == [1]


def test_a_preference_counts_where_there_is_room() -> None:
    affinities = [(0, 1, "preferred"), (1, 1, "preferred")]
    assert machines_of(cluster([300.0, 150.0], [0, 1], affinities=affinities)) == [1, 0]


def test_of_several_preferences_the_most_free() -> None:
    affinities = [(0, 1, "preferred"), (0, 2, "preferred")]
    assert machines_of(cluster([300.0, 150.0, 160.0], [0], affinities=affinities)) == [2]


def test_a_restart_returns_to_where_it_was() -> None:
    assert machines_of(cluster([300.0, -50.0], [0], ran_on=[1])) == [1]


def test_a_restart_does_not_return_to_a_lost_machine() -> None:
    assert machines_of(cluster([100.0, 300.0, 200.0], [0], ran_on=[1], lost=[1])) == [2]


def test_what_was_flagged_goes_elsewhere_and_waits_if_there_is_no_other() -> None:
    flagged = [(0, 0, "flagged")]
    decision, _ = SCHEDULER.decide(
        cluster([300.0, -20.0], [0], ran_on=[0], affinities=flagged, lost=[2]), SCHEDULER.start()
    )
    assert isinstance(decision, Placement) and decision.moves[0].machine == 1 and decision.moves[0].flagged
    alone = cluster([300.0], [0], ran_on=[0], affinities=flagged, lost=[1])
    decision, _ = SCHEDULER.decide(alone, SCHEDULER.start())
    assert decision == NoChange("no machine for 1 instances")


def test_a_reservation_counts_whatever_the_load() -> None:
    affinities = [(0, 0, "flagged"), (0, 1, "reserved"), (0, 2, "preferred")]
    assert machines_of(cluster([300.0, -20.0, 200.0], [0], ran_on=[0], affinities=affinities)) == [1]


def test_reserved_room_is_taken_before_others_choose() -> None:
    affinities = [(1, 0, "reserved")]
    assert machines_of(cluster([300.0, 250.0], [0, 1], affinities=affinities)) == [1, 0]


def test_not_measured() -> None:
    snapshot = cluster([300.0], [0])
    blind = replace(snapshot, machines=replace(snapshot.machines, cpu_percent=None))
    assert SCHEDULER.decide(blind, SCHEDULER.start())[0] == not_measured("machines.cpu_percent")
    unseen = replace(snapshot, machines=replace(snapshot.machines, cpu_percent=[NAN, 390.0]))
    assert machines_of(unseen) == [1]


def test_the_last_known_figure_is_remembered() -> None:
    _, memory = SCHEDULER.decide(cluster([300.0, 250.0], [], cpu=[20.0]), SCHEDULER.start())
    decision, _ = SCHEDULER.decide(cluster([300.0, 250.0], [0, 0, 0]), memory)
    assert isinstance(decision, Placement) and [m.machine for m in decision.moves] == [0, 0, 0]


def test_cpu_of_the_slowest_instance() -> None:
    snapshot = cluster([0.0], [], cpu=[10.0, 20.0, 30.0, 40.0])
    instances = replace(snapshot.instances, task=[0, 0, 0, 1], records_in=[5.0, 2.0, 2.0, NAN])
    assert cpu_by_task(replace(snapshot, instances=instances))[0] == 30.0
    assert np.isnan(cpu_by_task(replace(snapshot, instances=instances))[1])


def test_ties_are_drawn_evenly_and_the_same_again() -> None:
    snapshot = cluster([200.0, 200.0, 200.0], [0])
    drawn = Counter(machines_of(snapshot, TaskScheduler(seed=seed))[0] for seed in range(600))
    assert all(140 < drawn[machine] < 260 for machine in range(3))
    assert machines_of(snapshot, TaskScheduler(seed=7)) == machines_of(snapshot, TaskScheduler(seed=7))


@settings(max_examples=cases())
@given(seeds)
def test_every_instance_takes_the_best_that_is_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machines, count, known = int(rng.integers(1, 6)), int(rng.integers(1, 8)), int(rng.integers(0, 4))
    free = rng.integers(-2, 8, machines) * 50.0
    waiting = rng.integers(0, 5, count).tolist()
    ran_on = [int(m) if m < machines else None for m in rng.integers(0, 2 * machines, count)]
    lost = np.flatnonzero(rng.random(machines + 1) < 0.2).tolist()
    affinities = [
        (i, int(rng.integers(0, machines)), kind)
        for i in range(count)
        for kind in ("preferred", "preferred", "reserved", "flagged")
        if rng.random() < 0.2
    ]
    snapshot = cluster(free.tolist(), waiting, rng.uniform(5, 100, known).tolist(), ran_on, affinities, lost)
    decision, _ = SCHEDULER.decide(snapshot, SCHEDULER.start())
    left = np.append(free, 0.0)
    placed = {m.instance - known: m for m in decision.moves} if isinstance(decision, Placement) else {}
    alive = [m for m in range(machines + 1) if m not in lost]
    needs = np.append(snapshot.instances.cpu_ns[:known] / 1e7, [100.0] * 9)  # type: ignore[index]

    def wished(i: int, kind: str) -> list[int]:
        return [m for j, m, found in affinities if j == i and found == kind]

    def fixed(i: int) -> int | None:
        reserved = [m for m in wished(i, "reserved") if m in alive]
        if reserved:
            return reserved[0]
        previous = ran_on[i]
        return previous if previous in alive and not wished(i, "flagged") else None

    for i in sorted(range(count), key=lambda i: (fixed(i) is None, i)):
        expected, need = fixed(i), needs[waiting[i]]
        fit = [m for m in alive if m not in wished(i, "flagged")]
        if expected is None and fit:
            roomy = [m for m in fit if m in wished(i, "preferred") and left[m] >= need]
            best = max(left[roomy or fit])
            expected = placed[i].machine
            assert left[expected] == best and expected in (roomy or fit)
        if expected is None:
            assert i not in placed
            continue
        assert placed[i].machine == expected and placed[i].flagged == bool(wished(i, "flagged"))
        left[expected] -= need


def test_a_decision_names_what_it_rests_on() -> None:
    decision, _ = SCHEDULER.decide(
        cluster([300.0], [0, 0], affinities=[(1, 0, "flagged")], lost=[1]), SCHEDULER.start()
    )
    assert decision.reason == "1 of 2 instances that wait are placed"
    assert decision.numbers == {"placed": 1, "without_machine": 1, "starting": 0}


IN_TURN = TaskScheduler(in_turn=True)


def numbered(free: Sequence[float], tasks: int, parallelism: int, forward: bool) -> ClusterSnapshot:
    """Return tasks in a row whose instances all wait; rows go on to the same number, or to all."""
    waiting = [task for task in range(tasks) for _ in range(parallelism)]
    snapshot = cluster(free, waiting)
    upper = np.arange(tasks - 1)
    edges = EdgeColumns(upper, upper + 1, [False] * len(upper), is_forward=[forward] * len(upper))
    numbers = np.tile(np.arange(parallelism), tasks)
    return replace(snapshot, edges=edges, instances=replace(snapshot.instances, number=numbers))


def test_in_turn_instances_of_one_number_meet_where_machines_are_alike() -> None:
    # The last machine is full.
    assert machines_of(numbered([400.0, 398.0], 3, 2, forward=False), IN_TURN) == [0, 1] * 3
    assert machines_of(numbered([200.0, 300.0], 3, 2, forward=False), IN_TURN) == [1, 0, 1, 0, 1, 0]


def test_in_turn_instances_of_one_task_go_apart_where_machines_are_alike() -> None:
    """A source comes first, so that the first instance of what is behind it is not where its number says."""
    snapshot = cluster([100.0, 100.0], [0, 1, 1, 2])
    numbers = np.array([0, 0, 1, 0])
    assert machines_of(replace(snapshot, instances=replace(snapshot.instances, number=numbers)), IN_TURN) == [
        0,
        1,
        0,
        1,
    ]


def test_in_turn_an_instance_goes_apart_from_those_of_its_task_that_run() -> None:
    snapshot = cluster([200.0, 200.0, 198.0], [0, 0, 0])
    instances = replace(
        snapshot.instances,
        number=np.array([1, 2, 0]),
        machine=np.array([0, 1, 0]),
        is_running=np.array([True, True, False]),
    )
    running = replace(snapshot, instances=instances)
    assert machines_of(running, IN_TURN) == [2]
    # One that has less free does not get it.
    free = replace(running.machines, cpu_percent=np.array([200.0, 200.0, 350.0, 400.0]))
    assert machines_of(replace(running, machines=free), IN_TURN) == [0]


def test_instances_that_hand_on_all_rows_stay_together() -> None:
    assert machines_of(numbered([400.0, 400.0], 3, 3, forward=True), IN_TURN) == [0, 1, 0] * 3
    assert machines_of(numbered([150.0, 300.0], 2, 2, forward=True), IN_TURN) == [1, 0, 1, 0]
    flagged = numbered([400.0, 300.0], 2, 1, forward=True)
    elsewhere = AffinityColumns([1], [0], [False], [False], [True])
    assert machines_of(replace(flagged, affinities=elsewhere), IN_TURN) == [1, 1]


def test_what_was_measured_before_the_start_counts_until_there_is_a_figure() -> None:
    known = TaskScheduler(in_turn=True, known_cpu={"t0": 10.0})
    assert machines_of(cluster([150.0, 120.0], [0, 0, 0, 0]), known) == [0, 0, 0, 1]
