"""Readings go to the places of instances among those of their task, whatever numbers these have."""

import numpy as np
import pyarrow as pa

from penstock.engine.control.instance_places import InstancePlaces
from penstock.model.execution_graph import Task
from penstock.model.ids import OperatorId, TaskId

TASKS = [Task(TaskId(0), (OperatorId("a"),), 2), Task(TaskId(1), (OperatorId("b"),), 2).numbered((1, 3))]


def table(*rows: tuple[int, int]) -> pa.Table:
    tasks, numbers = zip(*rows, strict=True)
    return pa.table({"task": pa.array(tasks, pa.int32()), "number": pa.array(numbers, pa.int32())})


def test_numbers_with_gaps_have_places_without() -> None:
    places = InstancePlaces(TASKS).of(table((0, 1), (1, 3), (1, 1), (0, 0)), "task")
    assert places.tolist() == [1, 1, 0, 0]


def test_who_has_left_has_none() -> None:
    places = InstancePlaces(TASKS)
    kept, which = places.kept(table((0, 2), (1, 0), (1, 2), (1, 3), (1, 9)), "task")
    assert which is not None and which.tolist() == [False, False, False, True, False]
    assert np.asarray(kept.column("number")).tolist() == [3]
    assert places.kept(table((0, 0)), "task")[1] is None
