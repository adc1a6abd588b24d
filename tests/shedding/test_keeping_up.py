"""A job keeps up where hardly anything waits, in its logs and before its tasks, and is idle where no loop is full."""

from dataclasses import replace

from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    InstanceColumns,
    MachineColumns,
    PartitionColumns,
    TaskColumns,
)
from penstock.shedding.keeping_up import WAITING_S, is_idle, keeps_up

RATE = 1_000.0


def snapshot(lag: float = 0.0, queued: float = 0.0) -> ClusterSnapshot:
    """Return a window of 5 s of a source and a task behind it, with rows that wait at each."""
    return ClusterSnapshot(
        1,
        100.0,
        5.0,
        applications=ApplicationColumns(("a",)),
        tasks=TaskColumns(
            ("clicks", "work"), [0, 0], [True, False], [False, True], [False] * 2, [False] * 2, [1] * 2, [0] * 2
        ),
        machines=MachineColumns(("m",), [1.0], [100.0]),
        instances=InstanceColumns(
            [0, 1], [0, 0], [0, 0], [True] * 2, records_in=[RATE * 5] * 2, queue_rows=[float("nan"), queued]
        ),
        partitions=PartitionColumns([0], [RATE * 5], [RATE * 5], end_offset=[1e6], position=[1e6 - lag]),
    )


def test_a_loop_that_is_full_keeps_up_as_long_as_nothing_waits() -> None:
    assert keeps_up(snapshot())
    assert keeps_up(snapshot(lag=WAITING_S * RATE, queued=WAITING_S * RATE))


def test_it_does_not_once_rows_wait_in_a_log_or_before_a_task() -> None:
    assert not keeps_up(snapshot(lag=WAITING_S * RATE + 1))
    assert not keeps_up(snapshot(queued=WAITING_S * RATE + 1))


def test_what_is_not_known_is_no_evidence() -> None:
    seen = snapshot()
    assert not keeps_up(replace(seen, partitions=replace(seen.partitions, end_offset=None)))
    assert not keeps_up(replace(seen, partitions=replace(seen.partitions, end_offset=[float("nan")])))
    assert not keeps_up(replace(seen, partitions=replace(seen.partitions, appended=None)))
    assert not keeps_up(replace(seen, instances=replace(seen.instances, queue_rows=None)))
    assert not keeps_up(snapshot(queued=float("nan")))


def test_a_job_is_idle_whose_loops_have_time_left_whatever_waits() -> None:
    seen = snapshot(lag=10 * RATE)
    assert not is_idle(seen)
    assert is_idle(replace(seen, machines=replace(seen.machines, cpu_percent=[80.0])))
    # A machine on which nothing runs says nothing.
    two = MachineColumns(("m", "n"), [1.0, 1.0], [80.0, float("nan")])
    assert is_idle(replace(seen, machines=two))
    both = replace(seen.instances, machine=[0, 1])
    assert not is_idle(replace(seen, machines=two, instances=both))
    assert not is_idle(replace(seen, machines=replace(seen.machines, cpu_percent=None)))
