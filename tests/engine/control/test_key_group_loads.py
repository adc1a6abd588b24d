"""The loads of key groups, by which they are dealt out to instances that come."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.engine.control.application_orders import order_of_application
from penstock.engine.control.key_group_loads import loads_of
from penstock.engine.control.scale_actuator import SizeOrder
from penstock.engine.control.size_orders import order_of
from penstock.model.plan import ApplicationSize, RescalePlan, TaskSize
from penstock.model.snapshot import ApplicationColumns, BucketColumns, ClusterSnapshot
from tests.engine.control.readings import graph
from tests.engine.control.recorded import second
from tests.engine.control.test_scale_control import Running

GRAPH = graph()
COUNT = 1
AGG = "agg-1"
"""The operator of the count, by whose keys its state lies; its sink is in the same task."""


def seen(rows: list[float] | None, buckets: list[int] | None = None) -> ClusterSnapshot:
    """Return a snapshot in which the key groups of the count got so many rows."""
    number = list(range(len(rows or []))) if buckets is None else buckets
    columns = BucketColumns(
        task=np.full(len(number), COUNT, np.int32),
        bucket=np.array(number, np.int32),
        instance=np.zeros(len(number), np.int32),
        records_in=None if rows is None else np.array(rows, np.float64),
    )
    return replace(second(1), buckets=columns)


def test_loads_are_those_of_the_operators_that_lie_by_key() -> None:
    every = [GRAPH.graph.operators[operator].name for task in GRAPH.tasks for operator in task.operators]
    loads = loads_of(every, GRAPH, seen([10.0, 400.0, 30.0]))
    assert list(loads) == [AGG]
    assert loads[AGG] == [10.0, 400.0, 30.0]
    assert loads_of([], GRAPH, seen([10.0, 400.0, 30.0])) == {}


@pytest.mark.parametrize(
    "snapshot",
    [seen(None), seen([]), seen([10.0, 400.0], [0, 2]), seen([10.0, float("nan"), 400.0]), seen([0.0, 0.0])],
    ids=("not measured", "none", "one is missing", "one is not measured", "no rows"),
)
def test_what_is_not_known_of_all_is_no_load(snapshot: ClusterSnapshot) -> None:
    assert loads_of([AGG], GRAPH, snapshot) == {}


ROWS = [10.0, 400.0, 30.0]


def test_orders_for_other_instances_say_loads_and_others_do_not() -> None:
    snapshot, of_all = seen(ROWS), ApplicationColumns(("shop",), cores=[2.0], memory_bytes=[1e9], threads=[2])
    assert order_of(RescalePlan("", (TaskSize(COUNT, 3),)), GRAPH, snapshot).loads == {AGG: ROWS}
    assert order_of(RescalePlan("", (TaskSize(COUNT, 2, managed_bytes=1 << 20),)), GRAPH, snapshot).loads == {}
    whole = replace(snapshot, applications=of_all)
    assert order_of_application(ApplicationSize(0, threads=3), GRAPH, whole).loads == {AGG: ROWS}
    assert order_of_application(ApplicationSize(0, cores=3.0), GRAPH, whole).loads == {}


def test_what_is_asked_of_the_job_has_the_loads_of_the_order() -> None:
    running = Running()
    actuator = running.actuator()
    actuator.begin(SizeOrder(GRAPH, {AGG: 3}, 2, loads={AGG: ROWS}), 0)
    assert actuator.turn(0) is None
    asked = running.rescales.take()
    assert asked is not None and (asked.parallelism, asked.loads) == ({AGG: 3}, {AGG: ROWS})
