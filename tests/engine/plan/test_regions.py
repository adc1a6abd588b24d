"""The smallest region that restarts: tasks joined by channels, directly or not."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.engine.plan.regions import regions, restart_region
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import JobGraph
from tests.engine.planning import told


def graph(operators: Sequence[Sequence[str]], edges: Sequence[tuple[str, str, bool]]) -> ExecutionGraph:
    """Make a graph of tasks by their operators, and edges as (producer, consumer, chained)."""
    return ExecutionGraph(
        JobGraph(),
        tuple(
            Task(TaskId(index), tuple(OperatorId(name) for name in names), 1) for index, names in enumerate(operators)
        ),
        tuple(Edge(OperatorId(a), "main", OperatorId(b), 0, "forward", chained) for a, b, chained in edges),
    )


def test_two_pipelines_restart_apart_and_joined_ones_together() -> None:
    job = ps.Job()
    told(job).key_by("s").agg(n=ps.count()).collect()
    shared = told(job).key_by("s").agg(n=ps.count())
    shared.key_by("n").agg(m=ps.count()).collect()
    shared.filter(ps.col("n") > 1).collect()
    plan = job.plan(2)
    first, second = regions(plan)
    assert {len(first), len(second)} == {2, 3}
    for region in (first, second):
        assert all(restart_region(plan, {task}) == region for task in region)


def test_it_goes_up_as_well_as_down_and_not_through_chains() -> None:
    plan = graph(
        [["a"], ["b"], ["c", "d"], ["e"]],
        [("a", "c", False), ("b", "c", False), ("c", "d", True)],
    )
    assert restart_region(plan, {TaskId(0)}) == {0, 1, 2}
    assert restart_region(plan, {TaskId(3)}) == {3}
    assert restart_region(plan, {TaskId(1), TaskId(3)}) == {0, 1, 2, 3}
    assert restart_region(plan, set()) == frozenset()


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(ValueError, match="7"):
        restart_region(graph([["a"]], []), {TaskId(7)})


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=10))
def test_regions_are_what_no_channel_leaves_and_nothing_smaller(count: int, pairs: Sequence[tuple[int, int]]) -> None:
    channels = [(a % count, b % count) for a, b in pairs if a % count != b % count]
    plan = graph([[str(task)] for task in range(count)], [(str(a), str(b), False) for a, b in channels])
    found = regions(plan)
    assert sorted(task for region in found for task in region) == list(range(count))
    number = {task: index for index, region in enumerate(found) for task in region}
    assert all(number[TaskId(a)] == number[TaskId(b)] for a, b in channels)
    # A component of n tasks hangs together by reachability, worked out in another way: the closure of a relation.
    closure = {(a, a) for a in range(count)} | set(channels) | {(b, a) for a, b in channels}
    while more := {(a, d) for a, b in closure for c, d in closure if b == c} - closure:
        closure |= more
    for task in range(count):
        assert restart_region(plan, {TaskId(task)}) == {b for a, b in closure if a == task}
