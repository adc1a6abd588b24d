"""Readings go to the places of instances among those of their task, whatever numbers these have."""

import numpy as np

from penstock.engine.control.instance_places import InstancePlaces
from penstock.engine.control.part_reading import Rows
from penstock.model.execution_graph import Task
from penstock.model.ids import OperatorId, TaskId

TASKS = [Task(TaskId(0), (OperatorId("a"),), 2), Task(TaskId(1), (OperatorId("b"),), 2).numbered((1, 3))]


def read(*rows: tuple[int, int]) -> Rows:
    return np.array([*rows], [("task", "<i4"), ("number", "<i4")])


def test_numbers_with_gaps_have_places_without() -> None:
    places = InstancePlaces(TASKS).of(read((0, 1), (1, 3), (1, 1), (0, 0)), "task")
    assert places.tolist() == [1, 1, 0, 0]


def test_who_has_left_has_none() -> None:
    places = InstancePlaces(TASKS)
    kept, at, which = places.kept(read((0, 2), (1, 0), (1, 2), (1, 3), (1, 9)), "task")
    assert which is not None and which.tolist() == [False, False, False, True, False]
    assert kept["number"].tolist() == [3] and at.tolist() == [1]
    assert places.kept(read((0, 0)), "task")[2] is None
