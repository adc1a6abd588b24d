"""The key groups that an order moves: all of one instance, dealt out to those at the task manager, and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import count
from penstock.engine.moves.move_orders import GroupsOrder, MoveOrder
from penstock.engine.moves.wanted_moves import (
    FIRST_GROUPS,
    MOST_GROUPS,
    ROUND_BYTES,
    round_groups,
    wanted_groups,
    wanted_handover,
    wanted_move,
)
from penstock.engine.plan.planner import plan
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.key_groups import moved
from tests.penstock.front_door import noon


def counted(parallelism: int) -> ExecutionGraph:
    job = ps.Job()
    rows = ps.read_memory([{"key": 1, "at": noon(1)}], time="at", job=job).name("rows")
    rows.key_by("key").agg(seen=count()).name("counts").collect().name("out")
    return plan(job.graph, parallelism)


GRAPH = counted(4)
TASK = next(task for task in GRAPH.tasks if GRAPH.name(task).startswith("counts"))
NAMES = GRAPH.instances(TASK)
PLACES = {name: f"tm-{index % 2}" for task in GRAPH.tasks for index, name in enumerate(GRAPH.instances(task))}


@given(st.data())
def test_all_that_an_instance_has_goes_to_those_with_the_least(data: st.DataObject) -> None:
    owners = owner_tables(GRAPH, 32, {})
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, 3))
        order = MoveOrder(NAMES[number], f"tm-{(number + 1) % 2}")
        table = owners[TASK.id]
        if not (table == number).any():
            with pytest.raises(OptionError, match="has no key groups"):
                wanted_move(GRAPH, owners, PLACES, order)
            continue
        wanted = wanted_move(GRAPH, owners, PLACES, order)
        after = moved(table, wanted.groups)
        assert {group for group, _, _ in wanted.groups} == set(np.flatnonzero(table == number).tolist())
        takers = [index for index in range(4) if index % 2 != number % 2]
        took = [int((after == taker).sum() - (table == taker).sum()) for taker in takers]
        loads = [int((after == taker).sum()) for taker in takers]
        assert max(loads) - min(loads) <= 1 or 0 in took
        owners[TASK.id] = after


@pytest.mark.parametrize(
    ("instance", "manager", "told"),
    [
        ("counts[9]", "tm-1", "there is no instance 'counts[9]'"),
        (NAMES[0], "tm-7", "no task manager 'tm-7' hosts an instance; those that do are tm-0, tm-1"),
        (NAMES[0], "tm-0", "is at 'tm-0' already"),
        ("rows[0]", "tm-1", "does not move: "),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(instance: str, manager: str, told: str) -> None:
    if instance == "rows[0]":
        instance = next(name for task in GRAPH.tasks for name in GRAPH.instances(task) if name not in NAMES)
        places = PLACES | {instance: "tm-0"}
    else:
        places = PLACES
    with pytest.raises(OptionError) as refused:
        wanted_move(GRAPH, owner_tables(GRAPH, 32, {}), places, MoveOrder(instance, manager))
    assert told in str(refused.value)


def test_a_task_manager_without_an_instance_of_the_task_takes_nothing_over() -> None:
    places = dict.fromkeys(NAMES, "tm-0") | {"other[0]": "tm-1"}
    with pytest.raises(OptionError, match=r"no instance of .* is at 'tm-1'"):
        wanted_move(GRAPH, owner_tables(GRAPH, 32, {}), places, MoveOrder(NAMES[0], "tm-1"))


@given(st.integers(1, 100_000), st.integers(0, 1 << 40))
def test_a_round_is_bounded_by_what_is_known(groups: int, state_bytes: int) -> None:
    now = round_groups(groups, state_bytes, 0)
    assert 1 <= now <= min(4 * groups, MOST_GROUPS)
    assert now == 1 or now * state_bytes <= ROUND_BYTES * groups


def test_the_first_round_is_of_few_key_groups_and_of_fewer_large_ones() -> None:
    assert round_groups(0, 0, 0) == FIRST_GROUPS > 1
    assert round_groups(0, 0, ROUND_BYTES // 2) == 2
    assert round_groups(0, 0, ROUND_BYTES * 10) == 1


def test_partitions_go_to_those_that_read_there() -> None:
    job = ps.Job()
    rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=10), watermark="1s", job=job).name("rows")
    rows.key_by("auction").agg(seen=count()).name("counts").collect().name("out")
    graph, order = plan(job.graph, 4), MoveOrder("rows[0]", "tm-1")
    wanted = wanted_handover(graph, PLACES, (), order)
    assert wanted is not None
    assert (wanted.giver, wanted.takers, len(wanted.instances)) == ("rows[0]", ("rows[1]", "rows[3]"), 4)
    assert wanted_handover(graph, PLACES, (), MoveOrder(NAMES[0], "tm-1")) is None
    with pytest.raises(OptionError, match="reads what the process has that started the job"):
        wanted_handover(GRAPH, PLACES, (), order)
    for ended, told in (
        (("rows[0]",), "reads nothing: what it read has ended"),
        (("rows[1]", "rows[3]"), "no instance of 'rows' that reads is at 'tm-1'"),
    ):
        with pytest.raises(OptionError, match=told):
            wanted_handover(graph, PLACES, ended, order)
    with pytest.raises(OptionError, match="is at 'tm-0' already"):
        wanted_handover(graph, PLACES, (), MoveOrder("rows[0]", "tm-0"))


def test_key_groups_go_where_it_is_said() -> None:
    owners = owner_tables(GRAPH, 32, {})
    table = owners[TASK.id]
    order = GroupsOrder(GRAPH.name(TASK), ((0, 3), (9, 0), (31, int(table[31]))))
    wanted = wanted_groups(GRAPH, owners, order)
    # What is there stays.
    assert wanted.groups == ((0, int(table[0]), 3), (9, int(table[9]), 0))
    assert order.instance == f"3 key groups of {GRAPH.name(TASK)!r}" and order.manager == "its instances"


@pytest.mark.parametrize(
    ("task", "groups", "told"),
    [
        ("no such", ((0, 1),), "there is no task 'no such'"),
        (None, ((32, 1),), "has key groups 0 to 31, and no 32"),
        (None, ((0, 4),), "key group 0 cannot go from instance 0 to instance 4 of 4"),
        (None, ((0, 0),), "no key group moves"),
        (None, ((0, 1), (0, 2)), "key group 0 is not instance 0's, or moves twice"),
        ("rows", ((0, 1),), "do not move: nothing in it has state that lies by key"),
    ],
)
def test_key_groups_that_cannot_go_there_stay(task: str | None, groups: tuple[tuple[int, int], ...], told: str) -> None:
    with pytest.raises(OptionError) as refused:
        wanted_groups(GRAPH, owner_tables(GRAPH, 32, {}), GroupsOrder(task or GRAPH.name(TASK), groups))
    assert told in str(refused.value)
