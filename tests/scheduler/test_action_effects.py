"""What actions are expected to do is a figure of the snapshot before, and is seen, or not, in the one after."""

import numpy as np
import pytest

from penstock.model.plan import ApplicationSize, BucketMove, Move, RescalePlan, Route, ShedPlan, TaskSize
from penstock.scheduler.action_effects import Change, Expectation, Figures, expectations, observed, parts_of
from tests.scheduler.hostile_cases import GB, changed, job

BEFORE = Figures(job())


def expected(plan: RescalePlan | ShedPlan) -> dict[tuple[str, str], tuple[float, float]]:
    return {(item.subject, item.figure): (item.before, item.expected) for item in expectations(plan, BEFORE)}


def test_more_instances_are_to_raise_capacity_in_proportion_and_fewer_only_to_be_fewer() -> None:
    grown = expected(RescalePlan("", (TaskSize(1, 3),)))
    each = 10_000 / 9.9
    assert grown["job/split", "instances"] == (2, 3)
    assert grown["job/split", "capacity"] == pytest.approx((2 * each, 3 * each))
    assert expected(RescalePlan("", (TaskSize(1, 1),))) == {("job/split", "instances"): (2, 1)}


def test_more_memory_is_to_raise_capacity_a_little_and_less_nothing() -> None:
    more = expected(RescalePlan("", (TaskSize(2, 2, 1),)))
    assert list(more) == [("job/count", "capacity")]
    before, after = more["job/count", "capacity"]
    assert after == pytest.approx(1.1 * before)
    assert expected(RescalePlan("", (TaskSize(2, 2, managed_bytes=10**9),))).keys() == more.keys()
    assert expected(RescalePlan("", (TaskSize(2, 2, managed_bytes=10**6),))) == {}


def test_routes_and_buckets_are_to_change_the_largest_share_of_an_instance() -> None:
    assert expected(RescalePlan("", routes=(Route(0, (0.75, 0.25)),))) == {("job/split", "largest share"): (0.5, 0.75)}
    moved = RescalePlan("", buckets=(BucketMove(2, 0, 1),))
    assert expected(moved) == {("job/count", "largest share"): (0.5, 0.75)}


def test_moves_are_to_end_on_their_machines_and_allocations_to_be_had() -> None:
    move = ShedPlan({}, {}, (1.0,), "", (Move(1, 2),))
    (item,) = expectations(move, BEFORE)
    assert (item.subject, item.figure) == ("job/split/0", "on tm2")
    assert observed(item, BEFORE) == 0.0
    assert observed(item, Figures(changed(job(), {"instances.machine": [0, 2, 1, 0, 1]}))) == 1.0
    given = RescalePlan("", applications=(ApplicationSize(0, cores=8.0, memory_bytes=9 * GB),))
    assert expected(given) == {("job", "cores"): (4.0, 8.0), ("job", "memory"): (8 * GB, 9 * GB)}


def test_an_effect_came_if_it_went_half_the_way_and_what_is_not_measured_did_not_come() -> None:
    up, down = Expectation("a", "capacity", 100.0, 200.0), Expectation("a", "instances", 4.0, 2.0)
    assert up.came(150.0) and up.came(500.0) and not up.came(149.0) and not up.came(float("nan"))
    assert down.came(3.0) and down.came(1.0) and not down.came(4.0) and not down.came(5.0)


def test_shared_cores_are_no_capacity() -> None:
    """Three instances where two were, but all wait for one core: nothing is gained."""
    (_, capacity) = expectations(RescalePlan("", (TaskSize(2, 3),)), BEFORE)
    crowded = changed(
        job(),
        {
            "instances.task": [0, 1, 2, 2, 2],
            "instances.number": [0, 0, 0, 1, 2],
            "instances.records_in": [15_000, 20_000, 6_700, 6_700, 6_600],
            "instances.busy_ns": [1e9, 9.9e9, 6.6e9, 6.6e9, 6.6e9],
            "instances.core_wait_ns": [0.0, 0.0, 3.3e9, 3.3e9, 3.3e9],
            "inputs.instance": [1, 1, 2, 3],
            "buckets.instance": [2, 2, 3, 4],
        },
    )
    assert not capacity.came(observed(capacity, Figures(crowded)))


def test_evidence_is_the_same_within_a_tenth() -> None:
    (change,) = parts_of(RescalePlan("", (TaskSize(1, 3),)), BEFORE).values()
    assert change == Change("job/split", "job/split", "grow", "parallelism", 1500.0, pytest.approx(10_000 / 9.9))

    def seen(factor: float) -> Change:
        figures = Figures(changed(job(), {"partitions.appended": [7_500.0 * factor] * 2}))
        return next(iter(parts_of(RescalePlan("", (TaskSize(1, 5),)), figures).values()))

    assert change.is_same(seen(1.0)) and change.is_same(seen(1.1)) and not change.is_same(seen(1.2))
    (shrink,) = parts_of(RescalePlan("", (TaskSize(1, 1),)), BEFORE).values()
    assert not change.is_same(shrink)


def test_every_part_of_a_plan_is_a_change_of_its_own() -> None:
    plan = RescalePlan(
        "",
        (TaskSize(1, 3), TaskSize(2, 2, 1)),
        (BucketMove(2, 0, 1),),
        (Route(0, (0.5, 0.5)),),
        (ApplicationSize(0, cores=8.0),),
    )
    parts = parts_of(plan, BEFORE)
    assert [(*place, change.what) for place, change in parts.items()] == [
        ("tasks", 0, "parallelism"),
        ("tasks", 1, "memory"),
        ("buckets", 0, "bucket"),
        ("routes", 0, "route"),
        ("applications", 0, "cores"),
    ]
    assert np.isnan(parts["applications", 0].each)
