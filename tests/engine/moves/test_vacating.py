"""A task manager goes while the job runs: each of its instances is followed by one elsewhere, with another number."""

import numpy as np
import pytest

from penstock.engine.executors.managers.places import deal_out
from penstock.engine.moves.live_changes import LiveChange, live_change
from penstock.engine.moves.vacating import vacated
from penstock.engine.plan.recut import recut
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.model.execution_graph import ExecutionGraph
from tests.engine.moves.test_live_changes import counted

KEY_GROUPS = 16
MANAGERS = ["tm-0", "tm-1", "tm-2"]


GRAPH = counted(3)
PLACES = deal_out(GRAPH, [task.id for task in GRAPH.tasks], MANAGERS)


def without(graph: ExecutionGraph, manager: str) -> tuple[LiveChange, dict[str, str]]:
    places = {name: PLACES.get(name, "tm-2") for task in graph.tasks for name in graph.instances(task)}
    stay = [name for name in MANAGERS if name != manager]
    found = vacated(graph, places, [manager], stay, {})
    assert not isinstance(found, str)
    return found[0], dict(found[1])


def test_each_instance_is_followed_by_one_elsewhere() -> None:
    change, targets = without(GRAPH, "tm-0")
    assert {name.partition("[")[2] for name in change.leaving()} == {"0]"}
    assert {name.partition("[")[2] for name in change.new()} == {"3]"} and targets.keys() == {*change.new()}
    assert set(targets.values()) == {"tm-1"}
    assert all((task.numbers, task.gaps, task.first_free) == ((1, 2, 3), (0,), 4) for task in change.after.tasks)
    assert change.anew.tasks == GRAPH.tasks and all(numbers == (0,) for numbers in change.gone().values())


def test_what_goes_takes_its_key_groups_to_who_follows_and_nothing_else_moves() -> None:
    change, _ = without(GRAPH, "tm-1")
    owners = owner_tables(GRAPH, KEY_GROUPS, {})
    ((lead, groups),) = change.moves(owners)
    assert groups == tuple((int(group), 1, 3) for group in np.flatnonzero(owners[lead] == 1))
    (source,) = change.sources()
    assert change.followers(source) == {"rows -> some[1]": "rows -> some[3]"}
    assert "rows -> some[1]" not in change.staying(source.id)


def test_other_numbers_of_instances_even_out_over_gaps() -> None:
    change, _ = without(GRAPH, "tm-0")
    owners = owner_tables(GRAPH, KEY_GROUPS, {})
    ((lead, groups),) = change.moves(owners)
    table = owners[lead].copy()
    for group, _, taker in groups:
        table[group] = taker
    wider = live_change(change.after, recut(GRAPH, {"counts": 4}, KEY_GROUPS))
    assert isinstance(wider, LiveChange) and wider.new() == ("counts -> out[4]",)
    ((_, more),) = wider.moves(dict.fromkeys(owners, table))
    assert len(more) == KEY_GROUPS // 4 and {taker for _, _, taker in more} == {4}
    narrower = live_change(change.after, recut(GRAPH, {"counts": 2}, KEY_GROUPS))
    assert isinstance(narrower, LiveChange) and narrower.leaving() == ("counts -> out[3]",)
    ((_, fewer),) = narrower.moves(dict.fromkeys(owners, table))
    assert {giver for _, giver, _ in fewer} == {3} and {taker for _, _, taker in fewer} == {1, 2}


def test_a_number_that_was_taken_is_not_taken_again() -> None:
    narrow = recut(GRAPH, {"counts": 2}, KEY_GROUPS)
    counts = next(task for task in GRAPH.tasks if GRAPH.name(task) == "counts -> out")
    change = live_change(narrow, recut(narrow, {"counts": 3}, KEY_GROUPS), {counts.id: 3})
    assert isinstance(change, LiveChange) and change.new() == ("counts -> out[3]",)


def test_a_single_instance_that_has_an_exchange_before_it_is_followed_as_well() -> None:
    graph = counted(1, apart=True)
    places = {name: "tm-0" for task in graph.tasks for name in graph.instances(task)}
    found = vacated(graph, places, ["tm-0"], ["tm-1"], {})
    assert not isinstance(found, str)
    change, targets = found
    assert targets == {"rows -> some[1]": "tm-1", "counts -> out[1]": "tm-1"}
    ((_, groups),) = change.moves(owner_tables(graph, KEY_GROUPS, {}))
    assert groups == tuple((group, 0, 1) for group in range(KEY_GROUPS))


@pytest.mark.parametrize(
    ("parallelism", "stay", "reason"),
    [(1, ["tm-1"], "it has a single instance"), (3, [], "no other task manager is there")],
)
def test_what_cannot_go_while_the_job_runs_says_why(parallelism: int, stay: list[str], reason: str) -> None:
    graph = counted(parallelism)
    places = {name: "tm-0" for task in graph.tasks for name in graph.instances(task)}
    assert vacated(graph, places, ["tm-0"], stay, {}) == reason
