"""Sweeps and barriers of paged operators, as the chain sees them: a slice at a time, and nothing before its turn."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import MAIN, Emission, RowCounters
from penstock.engine.core.elements import Barrier, Batch, Reroute
from penstock.engine.dataflow.chain import BREATH, Awaited, ChainNode, push
from penstock.engine.paging import paged_operator
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import MOST_AT_ONCE
from penstock.model.ids import TaskId
from tests.engine.loop import channel, forward
from tests.engine.paging.counting import LITTLE, Counting, counts, everything, on_pages, paged, pages_cut, rows, spread
from tests.engine.paging.kinds import batch_of


class Ticking(ManualClock):
    """Every look at it takes a second."""

    def monotonic_ns(self) -> int:
        self.advance_us(1_000_000)
        return super().monotonic_ns()


class Alarmed(Counting):
    """Has a timer every millisecond, and something pending that may leave in a quiet moment alone."""

    fired, due_ns = 0, 0

    def timer_ns(self) -> int:
        return self.due_ns

    def has_pending(self) -> bool:
        return self.due_ns > 0

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        assert now_ns >= self.due_ns
        self.fired, self.due_ns = self.fired + 1, now_ns + 1_000_000
        return ()


def test_timers_of_buckets_have_their_turn_between_two_sweeps_however_much_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paged_operator, "SLICE_NS", 0)
    clock = ManualClock()
    operator = paged(PagingOptions(None, 8_000, 4_000), clock, Alarmed)
    buckets = spread(operator).buckets
    list(operator.on_barrier(1))
    # A sweep takes as many steps as there are buckets, and one timer has its turn behind each.
    steps, taken = 4 * len(buckets) ** 2, 0
    for _ in range(steps):
        clock.advance_us(1_000)
        if operator.has_room():
            # Of one key: the other buckets have nothing to do but their timers.
            list(operator.process(0, Batch(batch_of(rows(1)))))
            taken += 1
        now_ns, due_ns = clock.monotonic_ns(), operator.timer_ns()
        assert due_ns is not None
        if due_ns <= now_ns:
            list(operator.on_timer(now_ns))
    assert taken > steps // 4
    assert all(isinstance(bucket.operator, Alarmed) and bucket.operator.fired > 2 for bucket in buckets)
    list(operator.on_barrier(2))
    assert counts(operator) == everything(3) + Counter({"key 0": taken})


def test_a_sweep_lets_the_loop_go_on_and_nothing_comes_in_between() -> None:
    clock = Ticking()
    operator = paged(LITTLE, clock)
    spread(operator)
    list(operator.on_barrier(1))
    before = counts(operator)
    node = ChainNode("op", operator, RowCounters())
    list(operator.process(0, Batch(batch_of(rows(20)))))
    assert not operator.has_room()
    list(operator.on_timer(clock.monotonic_ns()))
    turns = 0
    assert not list(operator.on_watermark(7))
    for room in push(node, 0, Batch(batch_of(rows(400)))):
        assert room.has_room()
        if room is not BREATH:
            assert isinstance(room, Awaited)
            assert operator.unanswered() and operator.output_watermark(7) < 7
            turns += 1
    assert turns > 3
    for room in push(node, 0, Barrier(2)):
        assert room.has_room()
    assert not operator.unanswered() and operator.output_watermark(7) == 7
    assert counts(operator) == before + everything(1) + Counter({f"key {number}": 1 for number in range(20)})


def test_a_barrier_waits_until_the_checkpoint_before_is_written(tmp_path: Path) -> None:
    operator = paged(LITTLE)
    on_pages(operator)
    node = ChainNode("op", operator, RowCounters())
    list(push(node, 0, Barrier(1)))
    cut = pages_cut(operator)
    pushing = push(node, 0, Barrier(2))
    room = next(pushing)
    assert isinstance(room, Awaited) and not room.has_room() and operator.timer_ns() is None
    cut.write(tmp_path / "cut")
    assert operator.timer_ns() is not None and room.has_room()
    assert next(pushing, None) is None
    assert operator.timer_ns() is None


def test_the_more_buckets_there_are_the_more_batches_are_taken_as_one() -> None:
    operator = paged(PagingOptions(None, 1_000, 500))
    assert operator.batches_at_once() == 1
    spread(operator)
    assert operator.batches_at_once() == min(MOST_AT_ONCE, 1 + len(operator._stores.buckets) // 16) > 1
    assert paged(LITTLE).batches_at_once() == 1
    assert spread(bound := paged(LITTLE)).buckets and bound.batches_at_once() == 1


@pytest.mark.parametrize("behind", [None, "in its chain", "in a task that moves with it"])
def test_a_marker_goes_past_rows_that_wait_unless_state_behind_moves_with_it(
    behind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_operator, "SLICE_NS", 0)
    operator = paged(PagingOptions(None, 2_000, 1_000))
    spread(operator)
    node = ChainNode("op", operator, RowCounters())
    if behind == "in its chain":
        node.chained[MAIN] = [ChainNode("behind", paged(PagingOptions()), RowCounters())]
    elif behind is not None:
        (output,) = forward(channel())
        output.leads_to = TaskId(0)
        node.exchanged[MAIN] = [output]
    list(operator.process(0, Batch(batch_of(rows(400)))))
    assert operator.unanswered()
    waits = [room for room in push(node, 0, Reroute(1, TaskId(0), ((0, 0, 1),))) if isinstance(room, Awaited)]
    assert bool(waits) == operator.takes_barrier() == (behind is not None)
