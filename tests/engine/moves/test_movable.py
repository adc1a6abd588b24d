"""What may move, what with it, who begins, and what is refused."""

import numpy as np
import pytest

import penstock as ps
from penstock import count
from penstock.dsl.keyed_stream import KeyedStream
from penstock.engine.moves.movable import fault, marker_senders, refusal, takers, together
from penstock.engine.plan.planner import plan
from penstock.model.execution_graph import ExecutionGraph, Task


def keyed(job: ps.Job) -> KeyedStream:
    rows = [{"key": 1, "at": 1, "value": 2}]
    return ps.read_memory(rows, job=job).name("rows").key_by("key")


def task_with(graph: ExecutionGraph, operator: str) -> Task:
    return next(task for task in graph.tasks if any(graph.node(item).name == operator for item in task.operators))


def test_tasks_that_share_owners_move_together_and_producers_outside_begin() -> None:
    job = ps.Job()
    stream = keyed(job)
    counts = stream.agg(n=count()).name("counts")
    counts.join(stream.agg(m=count()).name("others"), on="key").name("both").collect().name("out")
    graph = plan(job.graph, 2)
    both = task_with(graph, "both").id
    moving = together(graph, both)
    assert {task_with(graph, name).id for name in ("counts", "others", "both")} <= moving
    assert moving == together(graph, task_with(graph, "counts").id)
    assert [task.id for task in marker_senders(graph, moving)] == [task_with(graph, "rows").id]
    assert {task.id for task in takers(graph, moving)} == moving - {task_with(graph, "rows").id}
    assert refusal(graph, both) is None


def test_a_single_instance_does_not_move() -> None:
    job = ps.Job()
    keyed(job).agg(n=count()).name("counts").collect()
    graph = plan(job.graph, 1)
    assert refusal(graph, task_with(graph, "counts").id) == "it has a single instance"


def test_what_has_no_keys_does_not_move() -> None:
    job = ps.Job()
    keyed(job).agg(n=count()).name("counts").collect()
    graph = plan(job.graph, 2)
    assert refusal(graph, task_with(graph, "rows").id) == "nothing in it has state that lies by key"


def test_what_an_upsert_sink_is_behind_does_not_move() -> None:
    job = ps.Job()
    counts = keyed(job).agg(n=count()).name("counts")
    counts.key_by("n").agg(keys=count()).name("again").for_each_batch(print, mode="upsert", key="n").name("latest")
    graph = plan(job.graph, 2)
    for name in ("counts", "again"):
        told = refusal(graph, task_with(graph, name).id)
        assert told is not None and "upsert sink 'latest' is behind it" in told


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ([(0, 0, 1), (3, 1, 0)], None),
        ([], "no key group moves"),
        ([(0, 1, 0)], "key group 0 is not instance 1's"),
        ([(0, 0, 1), (0, 0, 2)], "moves twice"),
        ([(7, 0, 1)], "key group 7 is not instance 0's"),
        ([(0, 0, 3)], "cannot go from instance 0 to instance 3 of 3"),
        ([(0, 0, 0)], "cannot go from instance 0 to instance 0"),
        ([(2, 1, 0), (3, 1, 2)], None),
    ],
)
def test_what_is_wrong_with_a_change_of_owners(groups: list[tuple[int, int, int]], told: str | None) -> None:
    owners = np.array([0, 0, 1, 1, 2], np.int32)
    found = fault(owners, range(3), groups)
    assert found == told if told is None else told in str(found)
