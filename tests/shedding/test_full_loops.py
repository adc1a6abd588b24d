"""What a machine could not do while rows waited is not free; it is where nothing waits, and is forgotten again."""

from dataclasses import replace

import pytest

from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    InstanceColumns,
    MachineColumns,
    PartitionColumns,
    TaskColumns,
)
from penstock.shedding.full_loops import MOST, FullLoops, learned, with_full_loops


def snapshot(worked: float, waiting: float = 0.0, queued: float = 0.0) -> ClusterSnapshot:
    """Return a window of 5 s of a source and a task on a machine each; percent that both worked, and rows that wait."""
    return ClusterSnapshot(
        1,
        100.0,
        5.0,
        applications=ApplicationColumns(("a",)),
        tasks=TaskColumns(
            ("clicks", "sums"), [0, 0], [True, False], [True] * 2, [False] * 2, [False] * 2, [1] * 2, [0] * 2
        ),
        machines=MachineColumns(("m", "n"), [1.0, 1.0], [worked, worked]),
        instances=InstanceColumns(
            [0, 1], [0, 0], [0, 1], [True, True], records_in=[5_000.0] * 2, queue_rows=[0.0, queued]
        ),
        partitions=PartitionColumns([0], [5e3], [5e3], end_offset=[1e6], position=[1e6 - waiting]),
    )


def free(worked: float, steps: float, full: FullLoops) -> list[float]:
    """Return percent of a core that a policy sees as free, where steps that cost so much are not counted as work."""
    seen = snapshot(worked)
    seen = replace(seen, machines=replace(seen.machines, cpu_percent=[worked - steps] * 2))
    percent = with_full_loops(seen, full).machines.cpu_percent
    assert percent is not None
    return [100.0 - float(each) for each in percent]


def after(
    full: FullLoops, worked: float, steps: float, waiting: float = 0.0, queued: float = 0.0, *, fits: bool = False
) -> FullLoops:
    seen = snapshot(worked, waiting, queued)
    prepared = replace(seen, machines=replace(seen.machines, cpu_percent=[worked - steps] * 2))
    return learned(full, seen, prepared, lambda: fits)


def test_what_is_left_of_a_full_machine_before_which_rows_waited_is_not_free() -> None:
    once = after(FullLoops(), 98.0, 10.0, waiting=900.0)
    # What waits now may have come at last: only a window that begins with it says what could not be done.
    assert once.unusable == {} and once.waited == {"m"}
    twice = after(once, 98.0, 10.0, waiting=900.0)
    assert twice.unusable == pytest.approx({"m": 12.0})
    assert free(98.0, 10.0, twice) == pytest.approx([0.0, 12.0])
    # Later windows count by half.
    assert after(twice, 98.0, 4.0, waiting=900.0).unusable == pytest.approx({"m": 9.0})


def test_rows_that_wait_between_tasks_count_at_the_machine_that_does_not_take_them() -> None:
    twice = after(after(FullLoops(), 96.0, 0.0, queued=500.0), 96.0, 0.0, queued=500.0)
    assert twice.unusable == pytest.approx({"n": 4.0})


@pytest.mark.parametrize(("worked", "waiting"), [(60.0, 900.0), (98.0, 0.0)], ids=["has time", "nothing waits"])
def test_a_machine_that_is_not_full_or_keeps_up_has_what_is_left(worked: float, waiting: float) -> None:
    twice = after(after(FullLoops(), worked, 10.0, waiting), worked, 10.0, waiting)
    assert twice.unusable == {} and free(worked, 10.0, twice) == [110.0 - worked] * 2


def test_rows_that_wait_within_their_bound_while_others_are_shed_say_so_too() -> None:
    seen = snapshot(96.0)
    once = learned(FullLoops(), seen, seen, lambda: False, {"clicks"})
    assert once.unusable == {} and once.waited == {"m"}
    twice = learned(once, seen, seen, lambda: False, {"clicks"})
    assert twice.unusable == pytest.approx({"m": 4.0})
    assert learned(twice, seen, seen, lambda: False, {"clicks"}).unusable == pytest.approx({"m": 4.0})


def test_it_is_forgotten_slowly_by_a_full_machine_and_soon_by_one_with_time() -> None:
    full = FullLoops({"m": 10.0}, frozenset({"m"}))
    assert after(full, 98.0, 10.0).unusable == pytest.approx({"m": 9.9})
    # Nothing need be shed without it: then it is worth a try.
    assert after(full, 98.0, 10.0, fits=True).unusable == pytest.approx({"m": 8.0})
    assert after(full, 60.0, 10.0).unusable == pytest.approx({"m": 5.0})
    for _ in range(8):
        full = after(full, 60.0, 10.0)
    assert full.unusable == {}


def test_it_is_a_quarter_of_a_core_at_most() -> None:
    twice = after(after(FullLoops(), 95.0, 80.0, waiting=900.0), 95.0, 80.0, waiting=900.0)
    assert twice.unusable == pytest.approx({"m": 100.0 * MOST})


def test_what_was_not_measured_teaches_nothing() -> None:
    seen, full = snapshot(98.0, 900.0), FullLoops({"m": 10.0}, frozenset({"m"}))
    bare = replace(seen, machines=replace(seen.machines, cpu_percent=None))
    assert learned(full, bare, bare, lambda: True) == full
    assert with_full_loops(bare, full) is bare
