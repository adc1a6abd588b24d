"""`map_async` by hand: order, capacity, attempts, timeouts, errors, back-pressure, restarts and ends."""

from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import END_OF_TIME_US, Barrier, Element, EndOfStream, Idle, Watermark
from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.worker import Done, Waiting
from tests.engine.operators.functions.async_support import MS, TIMEOUT_MS, Asking, numbers

END = [Watermark(END_OF_TIME_US), EndOfStream()]


def test_rows_leave_in_their_order() -> None:
    asking = Asking([numbers(1, 2, 3), EndOfStream()])
    asking.run()
    asking.calls.answer_rows(3, 2)
    assert asking.out() == []
    asking.calls.answer_rows(1)
    assert asking.out() == [1, 2, 3, *END]
    assert isinstance(asking.worker.step(), Done)


def test_without_order_rows_leave_as_they_are_answered_but_not_across_a_watermark() -> None:
    asking = Asking([numbers(1, 2), numbers(3), Watermark(7), numbers(4), Watermark(9), Idle()], ordered=False)
    asking.run()
    asking.calls.answer_rows(4, 3, 2)
    assert asking.out() == [3, 2]
    asking.calls.answer_rows(1)
    assert asking.out() == [3, 2, 1, Watermark(7), 4, Watermark(9), Idle()]


def test_a_watermark_that_nothing_precedes_leaves_at_once() -> None:
    asking = Asking([Watermark(5), Idle(), numbers(1), Watermark(6), numbers(2)])
    assert asking.out() == [Watermark(5), Idle()]
    asking.calls.answer_rows(1)
    assert asking.out() == [Watermark(5), Idle(), 1, Watermark(6)]


def test_idleness_that_new_rows_end_does_not_leave() -> None:
    asking = Asking([numbers(1), Idle(), numbers(2)])
    asking.run()
    asking.calls.answer_rows(1, 2)
    assert asking.out() == [1, 2]


def test_a_barrier_passes_with_rows_in_state() -> None:
    asking = Asking([numbers(1, 2), Barrier(1), numbers(3)])
    assert asking.out() == [Barrier(1)]
    assert asking.kept == [1, 2, 3]
    asking.calls.answer_rows(1, 2, 3)
    assert asking.out() == [Barrier(1), 1, 2, 3]
    assert asking.kept == []


@pytest.mark.parametrize("ordered", [True, False])
def test_capacity_bounds_the_calls_and_then_the_input(ordered: bool) -> None:
    asking = Asking([numbers(*range(5)), numbers(5), Watermark(1)], capacity=2, ordered=ordered)
    assert asking.run() == Waiting(TIMEOUT_MS * MS)
    assert asking.instance.accounting.activity is Activity.REMOTE_WAIT
    assert len(asking.inbound.receiver) == 1
    for number in range(6):
        assert len(asking.calls.open) == min(2, 6 - number)
        asking.calls.answer_rows(number)
        asking.run()
    assert asking.out() == [*range(6), Watermark(1)]
    assert asking.calls.most == 2
    assert asking.instance.accounting.activity is Activity.INPUT_WAIT


def test_answers_that_wait_for_another_count_towards_the_capacity() -> None:
    asking = Asking([numbers(*range(5))], capacity=3)
    asking.run()
    asking.calls.answer_rows(1, 2)
    asking.run()
    assert list(asking.calls.open.values()) == [0]


def test_a_full_output_holds_up_rows_but_not_the_loop() -> None:
    asking = Asking([numbers(*range(4)), numbers(4, 5), EndOfStream()], room_bytes=16, capacity=2)
    for number in range(6):
        asking.run()
        asking.calls.answer_rows(number)
        asking.run()
        if len(asking.outbound.receiver):
            asking.take()
    assert asking.out() == [*range(6), *END]


def test_a_failed_call_is_made_again_then_a_dead_letter() -> None:
    asking = Asking([numbers(1, 2), EndOfStream()], retries=1)
    asking.run()
    asking.calls.answer_rows(1, 2, error="no")
    assert asking.out() == []
    asking.calls.answer_rows(2)
    asking.calls.answer_rows(1, error="still no")
    assert asking.out() == [2, *END]
    assert (asking.rejected.rows, asking.rejected.errors) == ([{"x": 1}], ["still no"])
    assert (asking.counters.rows_in, asking.counters.passed, asking.counters.dead_lettered) == (2, 1, 1)


def test_a_call_that_takes_too_long_is_cancelled_and_made_again() -> None:
    asking = Asking([numbers(1), EndOfStream()], retries=1)
    asking.run()
    asking.clock.advance_ns(TIMEOUT_MS * MS - 1)
    asking.run()
    assert not asking.calls.cancelled
    asking.clock.advance_ns(1)
    asking.run()
    assert (asking.calls.cancelled, asking.calls.open) == ({0: 1}, {1: 1})
    asking.calls.answer(0, "too late")
    assert asking.out() == []
    asking.clock.advance_ns(TIMEOUT_MS * MS)
    assert asking.out() == END
    assert asking.rejected.errors == ["no answer within 100ms, the last of 2 attempts"]


def test_an_answer_that_is_there_is_never_too_late() -> None:
    asking = Asking([numbers(1)])
    asking.run()
    asking.calls.answer_rows(1)
    asking.clock.advance_ns(2 * TIMEOUT_MS * MS)
    assert asking.out() == [1]


def test_a_result_that_does_not_fit_is_a_dead_letter() -> None:
    asking = Asking([numbers(1, 2, 3)])
    asking.run()
    asking.calls.open = {ticket: "two" if number == 2 else number for ticket, number in asking.calls.open.items()}
    asking.calls.answer_rows(1, 3)
    asking.calls.answer(1)
    assert asking.out() == [1, 3]
    assert asking.rejected.rows == [{"x": 2}]
    assert "does not fit the schema" in asking.rejected.errors[0]


def test_batches_of_different_keep_are_not_joined() -> None:
    asking = Asking([numbers(1, keep=0.5), numbers(2, keep=0.5), numbers(3)])
    asking.run()
    asking.calls.answer_rows(1, 2, 3)
    asking.run()
    batches: list[Any] = [asking.outbound.receiver.take() for _ in range(len(asking.outbound.receiver))]
    assert [(batch.rows.num_rows, batch.keep, batch.ingest_ns) for batch in batches] == [(2, 0.5, 7), (1, 1.0, 7)]


@pytest.mark.parametrize("drained", [True, False])
def test_the_end_waits_for_all_answers(drained: bool) -> None:
    asking = Asking([numbers(1, 2, 3), EndOfStream(drained)], capacity=2)
    asking.run()
    assert asking.instance.accounting.activity is Activity.REMOTE_WAIT
    asking.calls.answer_rows(2, 1)
    assert asking.out() == [1, 2]
    asking.calls.answer_rows(3)
    assert asking.out() == [1, 2, 3, *(END if drained else [EndOfStream(False)])]


def test_an_abort_cancels_what_is_under_way() -> None:
    asking = Asking([numbers(1)])
    asking.run()
    asking.operator.abort()
    assert asking.calls.stopped
    assert asking.kept == [1]


def test_unanswered_rows_are_asked_for_again_after_a_restart() -> None:
    before = Asking([numbers(*range(6)), Barrier(1)], capacity=4)
    before.run()
    before.calls.answer_rows(0, 2, 3)
    assert before.out() == [Barrier(1), 0]
    after = Asking.after(before, elements=[Watermark(3), numbers(6), EndOfStream()], capacity=4)
    assert after.run() == Waiting(TIMEOUT_MS * MS)
    assert list(after.calls.open.values()) == [1, 2, 3, 4]
    after.calls.answer_rows(4, 3, 2, 1)
    after.run()
    after.calls.answer_rows(5, 6)
    assert after.out() == [1, 2, 3, 4, 5, Watermark(3), 6, *END]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_watermark_held_back_leaves_behind_its_rows_after_a_restart(ordered: bool) -> None:
    before = Asking(ordered=ordered).feed(Watermark(2), numbers(1), Watermark(5), numbers(2), Barrier(1))
    assert before.out() == [Watermark(2), Barrier(1)]
    assert before.operator.notes() == {"watermark_us": 5, "passed_us": 2}
    after = Asking.after(before, ordered=ordered, capacity=1).feed(Barrier(2))
    after.calls.answer_rows(1)
    assert after.out() == [Barrier(2), 1]
    assert after.operator.due_us() is not None
    again = Asking.after(after, ordered=ordered).feed(numbers(3), Watermark(9))
    again.calls.answer_rows(2)
    assert again.out() == [Watermark(2), 2, Watermark(5)]
    again.calls.answer_rows(3)
    assert again.out() == [Watermark(2), 2, Watermark(5), 3, Watermark(9)]
    assert again.operator.due_us() is None
    assert Asking.after(again, ordered=ordered).feed(numbers(4), Watermark(10)).out() == [Watermark(9)]


@pytest.mark.parametrize("ordered", [True, False])
def test_unanswered_rows_of_several_instances_are_asked_for_as_one(ordered: bool) -> None:
    parts = [[numbers(1, 2), Watermark(7)], [Watermark(3), numbers(3), Watermark(6), numbers(4)], [Watermark(8)]]
    before = [Asking(ordered=ordered).feed(*elements, Barrier(1)) for elements in parts]
    assert [one.out() for one in before] == [[Barrier(1)], [Watermark(3), Barrier(1)], [Watermark(8), Barrier(1)]]
    after = Asking.after(*before, ordered=ordered).feed(Watermark(9))
    after.calls.answer_rows(4, 2, 3)
    after.calls.answer_rows(1)
    assert after.out() == [*([1, 2, 3, 4] if ordered else [4, 2, 3, 1]), Watermark(9)]


Plan = dict[int, list[str]]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Element], Plan]:
    """Return a stream of rows 0, 1, 2, ... and what each of their attempts comes to."""
    fresh = count()
    elements: list[Element] = []
    plan: Plan = {}
    for index, size in enumerate(draw(st.lists(st.integers(-2, 4), max_size=7))):
        if size > 0:
            rows = [next(fresh) for _ in range(size)]
            plan |= {row: draw(st.lists(st.sampled_from(["answer", "error", "silence"]), max_size=3)) for row in rows}
            elements.append(numbers(*rows))
        else:
            elements.append([Watermark(index), Barrier(index + 1), Idle()][-size])
    return [*elements, EndOfStream(draw(st.booleans()))], plan


@given(
    streams(), st.booleans(), st.integers(1, 5), st.integers(0, 2), st.sampled_from([1, 40, 1 << 20]),
    st.randoms(use_true_random=False), st.integers(0, 30),
)  # fmt: skip
def test_any_answers_in_any_order(
    stream: tuple[list[Element], Plan],
    ordered: bool,
    capacity: int,
    retries: int,
    room_bytes: int,
    chance: Any,
    crash_after: int,
) -> None:
    """Whatever becomes of the calls, each row leaves once, in its place; a restart at any moment loses none."""
    elements, plan = stream
    options = {"ordered": ordered, "capacity": capacity, "retries": retries, "room_bytes": room_bytes}
    asking = Asking(elements, **options)
    attempts: Counter[int] = Counter()
    for step in count():
        outcome = asking.run()
        assert asking.calls.most <= capacity
        if isinstance(outcome, Done):
            break
        if step == crash_after:
            break
        _happen(asking, plan, attempts, chance)
    expected = {row for row, outcomes in plan.items() if "answer" in [*outcomes, "answer"][: retries + 1]}
    told = asking.out()
    if not isinstance(outcome, Done):
        _restart(asking, chance, options)
        return
    _check(elements, told, expected, ordered)
    assert sorted(letter["x"] for letter in asking.rejected.rows) == sorted(set(plan) - expected)
    assert asking.kept == []


def _happen(asking: Asking, plan: Plan, attempts: Counter[int], chance: Any) -> None:
    """Let one thing happen: an answer, an error, an answer no one waits for, room in the output, or a timeout."""
    calls = asking.calls
    spoken = {ticket: row for ticket, row in calls.open.items() if _outcome(plan, attempts, row) != "silence"}
    things = (
        ["take"] * bool(len(asking.outbound.receiver)) + ["answer"] * bool(spoken) + ["stale"] * bool(calls.cancelled)
    )
    thing = chance.choice(things) if things else "silence"
    if thing == "take":
        asking.take()
    elif thing == "stale":
        calls.answer(chance.choice(list(calls.cancelled)), chance.choice([None, "stale"]))
    elif thing == "answer":
        ticket = chance.choice(list(spoken))
        row = spoken[ticket]
        calls.answer(ticket, None if _outcome(plan, attempts, row) == "answer" else "an error")
        attempts[row] += 1
    else:
        attempts.update(calls.open.values())
        asking.clock.advance_ns(TIMEOUT_MS * MS)


def _outcome(plan: Plan, attempts: Counter[int], row: int) -> str:
    return [*plan[row], *["answer"] * 3][attempts[row]]


def _restart(asking: Asking, chance: Any, options: dict[str, Any]) -> None:
    """Go on with the state of a loop that was left; every row it took in leaves here if it did not there."""
    left = [row for row in asking.told if isinstance(row, int)] + [letter["x"] for letter in asking.rejected.rows]
    again = asking.kept
    assert sorted(left + again) == list(range(asking.counters.rows_in))
    notes = asking.operator.notes()
    after = Asking.after(asking, elements=[EndOfStream(False)], **options)
    while not isinstance(after.run(), Done):
        if len(after.outbound.receiver):
            after.take()
        else:
            after.calls.answer(chance.choice(list(after.calls.open)))
    told = after.out()
    assert sorted(row for row in told if isinstance(row, int)) == again
    held = [Watermark(notes["watermark_us"])] if notes["watermark_us"] > notes["passed_us"] else []
    assert [item for item in told if not isinstance(item, int)] == [*held, EndOfStream(False)]


def _check(elements: list[Element], told: list[Any], expected: set[int], ordered: bool) -> None:
    """Compare what left with what came: rows, watermarks among them, barriers not before what was ahead of them."""
    rows = [item for item in told if isinstance(item, int)]
    assert (rows if ordered else sorted(rows)) == sorted(expected)
    before: set[int] = set()
    ahead: dict[int, set[int]] = {}
    epochs: dict[int, set[int]] = {}
    for element in elements:
        if isinstance(element, Watermark):
            ahead[element.time_us] = set(before)
        elif isinstance(element, Barrier):
            epochs[element.epoch] = set(before)
        elif not isinstance(element, Idle | EndOfStream):
            before |= set(element.rows["x"].to_pylist())
    ahead[END_OF_TIME_US] = before
    marks = [(index, item.time_us) for index, item in enumerate(told) if isinstance(item, Watermark)]
    assert [time_us for _, time_us in marks] == sorted({time_us for _, time_us in marks})
    for index, time_us in marks:
        assert {row for row in told[:index] if isinstance(row, int)} == ahead[time_us] & expected
    for index, item in enumerate(told):
        if isinstance(item, Barrier):
            assert {row for row in told[:index] if isinstance(row, int)} <= epochs[item.epoch]
    assert [item.epoch for item in told if isinstance(item, Barrier)] == list(epochs)
    assert told[-1] == elements[-1]
