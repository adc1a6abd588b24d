"""Sweeps and barriers of paged operators, as the chain sees them: a slice at a time, and nothing before its turn."""

from collections import Counter
from pathlib import Path

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import Barrier, Batch
from penstock.engine.dataflow.chain import BREATH, Awaited, ChainNode, push
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import MOST_AT_ONCE
from tests.engine.paging.counting import LITTLE, counts, everything, on_pages, paged, pages_cut, rows, spread
from tests.engine.paging.kinds import batch_of


class Ticking(ManualClock):
    """Every look at it takes a second."""

    def monotonic_ns(self) -> int:
        self.advance_us(1_000_000)
        return super().monotonic_ns()


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
