"""Changes of places as people are told of them, and the key groups of instances."""

import numpy as np

from penstock.engine.moves.live_changes import LiveChange, live_change
from penstock.engine.moves.under_way import (
    BUILT_ANEW,
    ChangeUnderWay,
    change_phrase,
    key_group_counts,
    rescale_phrase,
)
from penstock.engine.plan.recut import recut
from tests.engine.moves.test_live_changes import GRAPH


def test_a_change_says_what_it_waits_for_or_what_moves() -> None:
    change = ChangeUnderWay("counts -> out from 2 to 3 instances", BUILT_ANEW)
    assert change.sentence() == "counts -> out from 2 to 3 instances: waits until all instances have begun anew"
    moving = ChangeUnderWay("tm-1 drained", "key groups have moved", "counts -> out", 12, 43)
    assert moving.sentence() == "tm-1 drained: 12 of 43 key groups of counts -> out have moved"


def test_instances_and_task_managers_are_named() -> None:
    change = live_change(GRAPH, recut(GRAPH, {"rows": 1, "counts": 3}, 16))
    assert isinstance(change, LiveChange)
    assert change_phrase(change, ()) == "rows -> some from 2 to 1 instances, counts -> out from 2 to 3 instances"
    assert change_phrase(change, ("tm-1", "tm-2")) == "tm-1, tm-2 drained"
    assert rescale_phrase({"rows": 1, "counts": 3}) == "rows to 1 instance, counts to 3 instances"
    assert rescale_phrase({}) == "instances placed anew"


def test_key_groups_are_those_of_tasks_with_state_by_key_that_are_up() -> None:
    source, counting = GRAPH.tasks
    owners = np.array([0, 0, 1, 2], np.int32)
    counts = key_group_counts(GRAPH, {source.id: owners, counting.id: owners})
    name = GRAPH.name(counting)
    assert [counts(name, number) for number in range(4)] == [2, 1, 1, 0]
    assert counts(GRAPH.name(source), 0) is None
    assert key_group_counts(GRAPH, {})(name, 0) is None
