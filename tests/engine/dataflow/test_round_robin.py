"""Wake times, alignment and turns: what lets the loop leave alone those to whom nothing happened."""

from collections.abc import Iterable
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.contract import Emission
from penstock.engine.core.elements import END_OF_TIME_US, Barrier
from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.round_robin import MOST_AHEAD_NS, QUANTUM_NS, Turns, TurnStanding
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


MS = 1_000_000


def used_ms(shares: dict[str, float], readers: dict[str, tuple[int, int, int]], until_ms: int) -> dict[str, float]:
    """Return the time of the core that readers had, with what others did for them.

    ``readers``: what a read takes, what is done behind it, and how long there is nothing to read after it, ms.
    """
    clock = ManualClock()
    made = {name: instance(name, Costly(clock), clock, [channel()]) for name in (*readers, "behind")}
    names = {id(each): name for name, each in made.items()}
    turns = Turns({made[name].name: share for name, share in shares.items()})
    due_ms, used, now_ms = dict.fromkeys(readers, 0), dict.fromkeys(readers, 0.0), 0
    while now_ms < until_ms:
        for name in readers:
            turns.place(made[name], TurnStanding.READING if due_ms[name] <= now_ms else None)
        reader = turns.next()
        if reader is None:
            now_ms = min(due_ms.values())
            continue
        name = names[id(reader)]
        read_ms, behind_ms, rest_ms = readers[name]
        turns.spend(reader, read_ms * MS)
        turns.place(made["behind"], TurnStanding.EAGER)
        for _ in range(behind_ms):
            assert turns.next() is made["behind"]
            turns.spend(made["behind"], MS)
        turns.place(made["behind"], None)
        now_ms += read_ms + behind_ms
        used[name] += read_ms + behind_ms
        due_ms[name] = now_ms + rest_ms
    return used


def test_readers_share_the_core_with_what_is_done_behind_them() -> None:
    # One has dear rows and much of them; two have cheap ones, come to them every moment, whose work is elsewhere.
    used = used_ms({}, {"dear": (27, 0, 0), "one": (1, 6, 1), "two": (1, 6, 1)}, 30_000)
    assert used["dear"] == pytest.approx(10_000, rel=0.02)
    assert used["one"] == pytest.approx(used["two"], rel=0.02)


def test_readers_have_their_shares() -> None:
    used = used_ms({"a": 3.0}, {"a": (5, 0, 0), "b": (2, 9, 0)}, 10_000)
    assert used["a"] / used["b"] == pytest.approx(3.0, rel=0.02)


def test_who_had_nothing_to_read_has_no_claim_for_it() -> None:
    clock = ManualClock()
    turns = Turns()
    busy, late = (instance(name, Costly(clock), clock, [channel()]) for name in ("busy", "late"))
    turns.place(busy, TurnStanding.READING)
    for _ in range(1_000):
        assert turns.next() is busy
        turns.spend(busy, MS)
    turns.place(late, TurnStanding.READING)
    order = []
    for _ in range(10):
        reader = turns.next()
        assert reader is not None
        order.append(reader)
        turns.spend(reader, MS)
    assert order.count(busy) == order.count(late) == 5


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=2, max_size=6))
def test_nobody_is_ahead_of_another_by_more_than_one_read_of_each(costs: list[tuple[int, int]]) -> None:
    readers = {f"r{number}": (read_ms, behind_ms, 0) for number, (read_ms, behind_ms) in enumerate(costs)}
    used = used_ms({}, readers, 2_000)
    assert max(used.values()) - min(used.values()) <= 2 * max(sum(each) for each in costs)


def test_one_that_was_forgotten_has_no_turn() -> None:
    clock = ManualClock()
    turns = Turns()
    one = instance("one", Costly(clock), clock, [channel()])
    turns.place(one, TurnStanding.EAGER)
    turns.place(one, TurnStanding.READING)
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


@pytest.mark.parametrize("has_little", [True, False])
def test_who_can_read_goes_first_once_those_without_a_full_batch_have_used_much_of_the_core(has_little: bool) -> None:
    clock, turns = ManualClock(), Turns()
    busy, reader = (instance(name, Costly(clock), clock, [channel(name)]) for name in ("busy", "reader"))
    turns.place(busy, TurnStanding.EAGER)
    turns.place(reader, TurnStanding.READING)
    ran = []
    for _ in range(12):
        following = turns.next()
        assert following is not None
        ran.append(following)
        turns.spend(following, MOST_AHEAD_NS // 5, has_little=has_little and following is busy)
    assert ran == ([*[busy] * 5, reader, *[busy] * 5, reader] if has_little else [busy] * 12)


class Sweeping(Costly):
    """Works something off whenever it is asked, without an end."""

    def timer_ns(self) -> int | None:
        return 0

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        self.clock.advance_ns(MOST_AHEAD_NS // 5)
        return ()


def test_who_can_read_waits_no_longer_beside_one_that_waits_for_a_barrier() -> None:
    clock = ManualClock()
    one = instance("one", Sweeping(clock), clock, [channel("first", elements=[Barrier(1)]), channel("second")])
    worker = Worker([one], clock)
    with patch.object(Turns, "spend", autospec=True, side_effect=Turns.spend) as spend:
        for _ in range(6):
            assert isinstance(worker.step(), Ran)
    assert one.gate is not None and not one.gate.is_thin()
    assert all(call.kwargs["has_little"] for call in spend.call_args_list)
    reader = instance("reader", Costly(clock), clock, [channel("reader")])
    worker._turns.place(reader, TurnStanding.READING)
    assert worker._turns.next() is reader
