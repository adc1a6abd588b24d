"""Owners of key groups: as a checkpoint notes them, shared by tasks whose rows stay where they are, moved least."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import col, count, sum_
from penstock.engine.paging.key_ranges import owned_runs
from penstock.engine.restore.key_group_owners import Noted, noted_owners, owner_tables
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.key_groups import Owners, assign, reassign
from penstock.state.checkpoints.manifest import InstanceEntry
from tests.penstock.front_door import noon

ROW = [{"key": 1, "other": 2, "value": 3, "at": noon(1)}]


def entries(owners: Owners) -> list[InstanceEntry]:
    return [
        InstanceEntry(operator="op", instance=number, key_groups=tuple(owned_runs(owners, number)))
        for number in np.unique(owners).tolist()
    ]


def planned(parallelism: int) -> ExecutionGraph:
    """Plan windows whose rows stay, through a filter that several read, for windows and a join; and others by hash."""
    job = ps.Job()
    rows = ps.read_memory(ROW, time="at", job=job).name("rows")
    small = rows.key_by("key").window(ps.tumbling("1s")).agg(n=count()).name("small")
    large = small.filter(col("n") > 1).name("large")
    wide = large.key_by("key").window(ps.tumbling("5s")).agg(n=sum_("n")).name("wide")
    large.key_by("n").agg(keys=count()).name("by n").collect().name("first")
    counts = rows.key_by("key").agg(seen=count()).name("counts")
    wide.join(counts, on="key", how="left").name("both").collect().name("second")
    return job.plan(parallelism)


def tables_of(graph: ExecutionGraph, tables: dict[int, Owners], *names: str) -> Sequence[list[int]]:
    nodes = {node.name: node.id for node in graph.graph.operators.values()}
    return [tables[graph.task_of(nodes[name]).id].tolist() for name in names]


@given(st.lists(st.integers(0, 7), min_size=8, max_size=60))
def test_owners_are_read_as_they_were_noted(owners: list[int]) -> None:
    table = np.array(owners, np.int32)
    assert noted_owners(entries(table), 8).tolist() == owners


def test_what_does_not_say_who_owned_a_group_is_as_at_the_beginning() -> None:
    silent = [InstanceEntry(operator="op", instance=number) for number in range(3)]
    assert noted_owners(silent, 16).tolist() == assign(16, 3).tolist()
    assert noted_owners(silent, 2).tolist() == assign(3, 3).tolist()
    holes = [InstanceEntry(operator="op", instance=0, key_groups=((0, 3), (5, 16)))]
    assert noted_owners(holes, 16).tolist() == [0] * 16


def test_a_job_that_begins_has_ranges() -> None:
    graph = planned(3)
    tables = owner_tables(graph, 16, {})
    assert set(tables) == {task.id for task in graph.tasks}
    assert all(table.tolist() == assign(16, 3).tolist() for table in tables.values())


def test_rows_that_stay_with_their_instance_stay_with_their_owner() -> None:
    """Only what a hash exchange feeds may have owners of its own, such as what was there at another time."""
    graph = planned(4)
    scattered = np.array([0, 1, 2] * 8, np.int32)
    reversed_ranges = assign(24, 3)[::-1].copy()
    noted = Noted(reversed_ranges, 3)
    tables = owner_tables(graph, 24, {"small": Noted(scattered, 3), "wide": noted, "by n": noted})
    small, large, wide, both, by_n = tables_of(graph, tables, "small", "large", "wide", "both", "by n")
    assert small == large == wide == both == reassign(scattered, 4).tolist()
    assert by_n == reassign(reversed_ranges, 4).tolist()
    # "small" is new: its rows stay with those that have state.
    tables = owner_tables(graph, 24, {"wide": noted})
    assert tables_of(graph, tables, "small", "both") == [reassign(reversed_ranges, 4).tolist()] * 2


def test_as_many_instances_go_on_with_what_moves_have_left_to_them() -> None:
    graph = planned(4)
    uneven = np.array([0, 1, 0, 3] * 6, np.int32)
    tables = owner_tables(graph, 24, {"small": Noted(uneven, 4), "by n": Noted(uneven, 3)})
    small, by_n = tables_of(graph, tables, "small", "by n")
    assert small == uneven.tolist()
    assert by_n == reassign(uneven, 4).tolist()


@pytest.mark.parametrize(("groups", "before", "after"), [(4, 6, 3), (4, 3, 6), (4, 6, 5), (4, 6, 6)])
def test_more_instances_than_key_groups_have_as_many_groups(groups: int, before: int, after: int) -> None:
    noted = noted_owners(entries(assign(max(groups, before), before)), groups)
    assert len(noted) == max(groups, before)
    table = tables_of(graph := planned(after), owner_tables(graph, groups, {"small": Noted(noted, before)}), "small")[0]
    assert table == assign(max(groups, after), after).tolist()
