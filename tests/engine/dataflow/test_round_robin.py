"""Wake times, alignment and turns: what lets the loop leave alone those to whom nothing happened."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US
from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.round_robin import QUANTUM_NS, Turns, TurnStanding
from penstock.engine.dataflow.source_alignment import SourceAlignment
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.wake_times import WakeTimes
from penstock.engine.dataflow.worker import Done, Ran, Waiting, Worker
from tests.engine.loop import Costly, channel, forward, instance, rows
from tests.engine.support import ManualClock


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 50))),
            st.integers(0, 50),
        ),
        max_size=300,
    )
)
def test_wake_times_are_those_of_a_plain_table(steps: list[Any]) -> None:
    times, table = WakeTimes(), cast("dict[int, int]", {})
    for step in steps:
        if isinstance(step, int):
            due = sorted(key for key, time_ns in table.items() if time_ns <= step)
            assert sorted(times.take(step)) == due
            table = {key: time_ns for key, time_ns in table.items() if key not in due}
        else:
            key, due_ns = step
            times.set(key, due_ns)
            table.pop(key, None)
            if due_ns is not None:
                table[key] = due_ns
        assert times.next_ns() == min(table.values(), default=None)


class Far:
    """A source that is somewhere in event time."""

    ordered = True

    def __init__(self, progress_us: int) -> None:
        self.progress_us = progress_us
        self.ended = False


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
    st.lists(
        st.tuples(st.integers(0, 4), st.one_of(st.integers(0, 9), st.just(END_OF_TIME_US), st.just(None))), max_size=80
    ),
)
def test_only_sources_that_no_other_is_behind_may_read(starts: list[int], steps: list[tuple[int, int | None]]) -> None:
    heads = [Far(start) for start in starts]
    alignment = SourceAlignment()
    for head in heads:
        alignment.add(cast("SourceHead", head))

    def allowed() -> list[bool]:
        reached = [END_OF_TIME_US if head.ended else head.progress_us for head in heads]
        return [time_us == END_OF_TIME_US or time_us <= min(reached) for time_us in reached]

    before = allowed()
    for number, progress_us in steps:
        head = heads[number % len(heads)]
        if progress_us is None:
            head.ended = True
        else:
            head.progress_us = progress_us
        said = alignment.settle(cast("SourceHead", head))
        now = allowed()
        assert [alignment.may_read(cast("SourceHead", item)) for item in heads] == now
        for index, item in enumerate(heads):
            if now[index] != before[index] and item is not head:
                assert cast("SourceHead", item) in said, "one whose turn has changed is looked at"
        before = now


def test_those_with_much_to_do_go_first_and_those_with_little_last() -> None:
    clock = ManualClock()
    turns = Turns()
    made = {standing: instance(standing.value, Costly(clock), clock, [channel()]) for standing in TurnStanding}
    for standing in reversed(TurnStanding):
        turns.place(made[standing], standing)
    for standing in TurnStanding:
        for _ in range(3):
            assert turns.next() is made[standing]
            turns.spend(made[standing], QUANTUM_NS // 2)
        turns.place(made[standing], None)
    assert turns.next() is None


def test_one_that_was_forgotten_has_no_turn() -> None:
    clock = ManualClock()
    turns = Turns()
    one = instance("one", Costly(clock), clock, [channel()])
    turns.place(one, TurnStanding.EAGER)
    turns.forget(one)
    assert turns.next() is None


def asked(worker: Worker, instances: list[Instance]) -> list[str]:
    """Step until nothing can run; return whose activity was asked for."""
    names: list[str] = []
    for item in instances:

        def activity(now_ns: int, item: Instance = item) -> Activity:
            names.append(item.name)
            return Instance.activity(item, now_ns)

        item.activity = activity  # type: ignore[method-assign]
    while isinstance(worker.step(), Ran):
        pass
    return names


def test_nobody_is_looked_at_to_whom_nothing_happened() -> None:
    clock = ManualClock()
    inbound = [channel() for _ in range(50)]
    instances = [instance(f"i{index}", Costly(clock), clock, [link], []) for index, link in enumerate(inbound)]
    worker = Worker(instances, clock)
    assert isinstance(worker.step(), Waiting)
    assert asked(worker, instances) == []
    inbound[7].sender.put(rows(3))
    assert set(asked(worker, instances)) == {"i7[0]"}
    worker.wake("i9[0]")
    worker.wake("nobody's")
    assert asked(worker, instances) == ["i9[0]"]
    worker.wake()
    assert len(asked(worker, instances)) == 50


def test_a_room_in_an_output_is_heard_of_by_its_producer_alone() -> None:
    clock = ManualClock()
    wide, narrow = channel(elements=[rows(100), rows(100)]), channel(capacity_bytes=700)
    producer = instance("producer", Costly(clock), clock, [wide], forward(narrow))
    other = instance("other", Costly(clock), clock, [channel()])
    worker = Worker([producer, other], clock)
    while isinstance(worker.step(), Ran):
        pass
    narrow.receiver.take()
    assert set(asked(worker, [producer, other])) == {"producer[0]"}


def test_a_loop_without_instances_is_done() -> None:
    clock = ManualClock()
    one = instance("one", Costly(clock), clock, [channel()])
    worker = Worker([one], clock)
    assert isinstance(worker.step(), Waiting)
    worker.remove([one])
    assert isinstance(worker.step(), Done)
