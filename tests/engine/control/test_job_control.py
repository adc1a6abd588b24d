"""Instances go where there is most CPU for them, counted with what foreign processes take."""

from collections import Counter

import pytest

import penstock as ps
from penstock.engine.control.job_control import TICK_NS, JobControl
from penstock.model.execution_graph import ExecutionGraph
from penstock.scheduler.place_hints import WantedMove
from tests.engine.control.readings import (
    MANAGERS,
    OPTIONS,
    SECOND_NS,
    graph,
    hear_burner,
    job_places,
    machine,
    part,
    ran,
)

GRAPH = graph()
SOURCE, COUNT = (GRAPH.name(task) for task in GRAPH.tasks)
EVERYWHERE = {f"{SOURCE}[0]": "tm-0", f"{SOURCE}[1]": "tm-1", f"{COUNT}[0]": "tm-0", f"{COUNT}[1]": "tm-1"}


def control(plan: ExecutionGraph = GRAPH) -> JobControl:
    return JobControl("test", plan, OPTIONS, 0)


def test_nothing_is_chosen_before_anything_is_measured() -> None:
    empty = control()
    assert empty.due_ns is None
    assert empty.place(job_places(), SECOND_NS) == {}


@pytest.mark.parametrize("foreign", [0.0, 0.03])
def test_a_first_start_spreads_instances_by_their_numbers(foreign: float) -> None:
    first = control()
    hear_burner(first, foreign)
    assert first.place(job_places(), SECOND_NS) == EVERYWHERE


@pytest.mark.parametrize("restart", range(20))
def test_beside_a_burner_known_tasks_go_elsewhere_while_there_is_room(restart: int) -> None:
    again = control()
    again.know({SOURCE: 30.0, COUNT: 15.0 + restart / 2})
    hear_burner(again, 1.0, restart)
    places = again.place(job_places(), (restart + 1) * SECOND_NS)
    # 30 + 30 + 15 + 15 are less than a core.
    assert set(places.values()) == {"tm-1"}


def test_what_has_no_room_beside_the_others_goes_to_the_burner() -> None:
    again = control()
    again.know({SOURCE: 90.0, COUNT: 60.0})
    hear_burner(again, 0.5)
    # 50 and 100 are free: 90 leaves 10 there, the next 90 goes to the other, and what is left is even but for 10.
    assert Counter(again.place(job_places(), SECOND_NS).values()) == {"tm-0": 2, "tm-1": 2}


def test_without_a_burner_they_spread_by_need() -> None:
    again = control(graph(3))
    again.know({SOURCE: 60.0, COUNT: 20.0})
    hear_burner(again, 0.0)
    needs = {"tm-0": 0.0, "tm-1": 0.0}
    for name, place in again.place(job_places(), SECOND_NS).items():
        needs[place] += 60.0 if name.startswith(SOURCE) else 20.0
    assert max(needs.values()) - min(needs.values()) <= 20.0


def test_what_runs_counts_where_it_runs() -> None:
    """A region that is built anew goes beside the one that went on."""
    job = ps.Job()
    for _ in range(2):
        ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job).write_black_hole()
    plan = job.plan(1, apart=True)
    stays, again = (plan.instances(task)[0] for task in plan.tasks)
    running = control(plan)
    running.know({plan.name(task): 40.0 for task in plan.tasks})
    for second in (1, 2):
        for name in MANAGERS:
            read = part(second, {(0, 0): ran(second, 0.4 * second)}) if name == "tm-0" else None
            cpu_s = 0.4 * second if read else 0.0
            running.hear(name, machine(second, cpu_s, [0.2 * second, 0.2 * second]), read, second * SECOND_NS)
    assert running.place(job_places({stays: "tm-0"}), 2 * SECOND_NS) == {again: "tm-1"}


def test_what_is_at_the_caller_stays_and_needs_no_task_manager() -> None:
    at_caller = control()
    hear_burner(at_caller, 0.0)
    places = {f"{COUNT}[{number}]": "caller" for number in range(2)}
    assert at_caller.place(job_places(places), SECOND_NS) == {
        f"{SOURCE}[0]": "tm-0",
        f"{SOURCE}[1]": "tm-1",
    }


def test_a_task_manager_that_was_silent_for_long_gets_nothing() -> None:
    silent = control()
    hear_burner(silent, 0.0)
    job = job_places()
    job.silent_s["tm-0"] = 11.0  # type: ignore[index]
    assert set(silent.place(job, SECOND_NS).values()) == {"tm-1"}


def test_a_tick_measures_tasks_and_what_was_known_of_others_stays() -> None:
    ticking = control()
    ticking.know({SOURCE: 77.0, COUNT: 5.0})
    for second in (1, 2):
        read = part(second, {(0, 0): ran(second, 0.25 * second, 50 * second)})
        ticking.hear("tm-0", machine(second, 0.25 * second), read, second * SECOND_NS)
    assert ticking.due_ns == SECOND_NS + TICK_NS
    ticking.tick(job_places(EVERYWHERE), 2 * SECOND_NS)
    assert ticking.measured_cpu == pytest.approx({SOURCE: 25.0, COUNT: 5.0})
    assert ticking.due_ns == 2 * SECOND_NS + TICK_NS


def test_the_control_of_the_next_plan_knows_where_there_is_room() -> None:
    before = control()
    before.know({SOURCE: 30.0, COUNT: 20.0})
    hear_burner(before, 1.0)
    after = control(graph(3))
    after.follow(before)
    running = {name: place for name, place in EVERYWHERE.items() if name.startswith(SOURCE)}
    places = after.place(job_places(running), SECOND_NS)
    assert set(places.values()) == {"tm-1"} and f"{COUNT}[2]" in places


@pytest.mark.parametrize(("moves", "place"), [((), "tm-1"), ((WantedMove(SOURCE, 0, "tm-1"),), "tm-0")])
def test_room_for_what_load_shedding_moves_is_kept_also_by_the_control_of_the_next_plan(
    moves: tuple[WantedMove, ...], place: str
) -> None:
    before = control()
    before.know({SOURCE: 60.0, COUNT: 30.0})
    hear_burner(before, 0.0)
    before._moving.wanted = moves
    after = control()
    after.follow(before)
    there = {name: at for name, at in EVERYWHERE.items() if name != f"{COUNT}[1]"}
    assert after.place(job_places(there), SECOND_NS) == {f"{COUNT}[1]": place}
