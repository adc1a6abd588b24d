"""Which backlogs are shed for: what came since the start, beyond what may wait, where the loop has no time left."""

from dataclasses import replace

from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    InstanceColumns,
    MachineColumns,
    PartitionColumns,
    TaskColumns,
)
from penstock.shedding.source_backlog import BacklogRule, CountedBacklog, counted_backlog

RULE = BacklogRule()


def snapshot(
    waiting: float, offered: float, consumed: float, load: float = 100.0, age_s: float = 100.0
) -> ClusterSnapshot:
    """Return a window of 5 s of a source with rows that wait; rates in rows/s."""
    return ClusterSnapshot(
        1,
        100.0,
        5.0,
        applications=ApplicationColumns(("a",)),
        tasks=TaskColumns(("clicks",), [0], [True], [True], [False], [False], [1], [0]),
        machines=MachineColumns(("m",), [1.0], [load]),
        instances=InstanceColumns([0], [0], [0], [True], age_s=[age_s]),
        partitions=PartitionColumns([0], [offered * 5], [consumed * 5], end_offset=[1e6], position=[1e6 - waiting]),
    )


def counted(result: CountedBacklog) -> float:
    partitions = result.snapshot.partitions
    assert partitions.end_offset is not None and partitions.position is not None
    return float((partitions.end_offset - partitions.position).sum())


def test_what_waited_at_the_start_is_neither_counted_nor_shed_for() -> None:
    first = counted_backlog(snapshot(50_000.0, 1000.0, 2000.0), RULE, None, frozenset())
    assert counted(first) == 0.0 and first.exempt == {"clicks"} and first.old == {"clicks": 45_000.0}
    second = counted_backlog(snapshot(45_000.0, 1000.0, 2000.0), RULE, first.old, frozenset())
    assert second.old == {"clicks": 35_000.0} and second.exempt == {"clicks"}
    # Once it was read, what came meanwhile counts.
    last = counted_backlog(snapshot(15_000.0, 1000.0, 2000.0), RULE, {"clicks": 5_000.0}, frozenset())
    assert last.old == {"clicks": 0.0} and not last.exempt and counted(last) == 14_500.0


def test_a_restored_source_begins_with_what_waits() -> None:
    restored = counted_backlog(snapshot(9_000.0, 0.0, 0.0, age_s=2.0), RULE, {"clicks": 0.0}, frozenset())
    assert restored.exempt == {"clicks"} and restored.old == {"clicks": 9_000.0}


def test_it_may_be_allowed_to_shed_a_backlog() -> None:
    allowed = counted_backlog(snapshot(50_000.0, 1000.0, 900.0), BacklogRule(shed_old=True), None, frozenset())
    assert counted(allowed) == 49_500.0 and not allowed.exempt


def test_an_overload_from_the_first_row_on_is_no_old_backlog() -> None:
    first = counted_backlog(snapshot(5_000.0, 3000.0, 2000.0), RULE, None, frozenset())
    assert first.old == {"clicks": 0.0} and not first.exempt and counted(first) == 3_500.0


def test_rows_that_wait_for_something_else_than_the_loop_do_not_count() -> None:
    slow_sink = counted_backlog(snapshot(90_000.0, 1000.0, 100.0, load=40.0), RULE, {"clicks": 0.0}, frozenset())
    assert counted(slow_sink) == 0.0


def test_rows_may_wait_as_long_as_their_query_allows() -> None:
    rule = BacklogRule(max_lag_s={"clicks": 10.0})
    within = counted_backlog(snapshot(9_000.0, 1000.0, 900.0), rule, {"clicks": 0.0}, frozenset())
    assert within.exempt == {"clicks"}
    beyond = counted_backlog(snapshot(11_000.0, 1000.0, 900.0), rule, {"clicks": 0.0}, frozenset())
    assert not beyond.exempt and counted(beyond) == 1_000.0
    # One that is shed already is not let go while it is overloaded: its lag would come and go.
    shed = counted_backlog(snapshot(9_000.0, 1000.0, 900.0), rule, {"clicks": 0.0}, frozenset({"clicks"}))
    assert not shed.exempt


def test_without_readings_of_logs_nothing_is_said() -> None:
    bare = replace(snapshot(1.0, 1.0, 1.0), partitions=PartitionColumns([0]))
    assert counted_backlog(bare, RULE, None, frozenset()) == CountedBacklog(bare, frozenset(), {})


def test_a_source_is_near_its_bound_from_half_of_it_on_while_its_machine_is_full() -> None:
    def near(waiting: float, bound_s: float = 0.5, load: float = 100.0) -> frozenset[str]:
        rule = BacklogRule(max_lag_s={"clicks": bound_s})
        result = counted_backlog(snapshot(waiting, 1000.0, 900.0, load), rule, {"clicks": 0.0}, frozenset({"clicks"}))
        assert counted(result) == (max(0.0, waiting - 1000.0 * bound_s) if load >= 90.0 else 0.0)
        return result.near

    assert near(250.0) == frozenset() and near(251.0) == near(800.0) == {"clicks"}
    assert near(2_500.0, 5.0) == frozenset() and near(2_501.0, 5.0) == {"clicks"}
    assert near(400.0, load=80.0) == frozenset()


def test_what_waited_at_the_start_is_near_no_bound() -> None:
    old = counted_backlog(snapshot(50_000.0, 1000.0, 2000.0), RULE, None, frozenset())
    assert old.near == frozenset()
