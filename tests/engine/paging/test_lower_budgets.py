"""A budget that is lowered while an operator runs: state goes to pages bit by bit, and nothing is held up for it."""

from collections import Counter
from pathlib import Path

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import Barrier, Batch
from penstock.engine.dataflow.chain import ChainNode, push
from penstock.engine.paging.paged_operator import PAGES_NS, PagedOperator
from tests.engine.paging.counting import LITTLE, MB, ROOM, counts, everything, on_pages, paged, pages_cut, rows, spread
from tests.engine.paging.kinds import batch_of
from tests.engine.paging.test_slices import Ticking

SMALL = MB + 20_000


def resident(operator: PagedOperator) -> int:
    return sum(bucket.is_resident for bucket in operator._stores.buckets)


def test_buckets_go_one_slice_after_the_other_and_all_rows_count() -> None:
    clock = Ticking()
    operator = paged(ROOM, clock)
    stores = spread(operator)
    there = resident(operator)
    stores.approach_budget(SMALL)
    assert stores.is_shrinking() and resident(operator) == there
    # Input finds what it needs, and lets nothing go that is not above the budget by itself.
    list(operator.process(0, Batch(batch_of(rows(1)))))
    there = resident(operator)
    assert there == len(stores.buckets)
    slices = 0
    while stores.is_shrinking():
        due_ns = operator.timer_ns()
        assert due_ns is not None and due_ns <= clock.monotonic_ns()
        before = resident(operator)
        list(operator.on_timer(clock.monotonic_ns()))
        assert before - resident(operator) <= 1
        slices += 1
    assert slices >= there - resident(operator) > 1
    assert stores.held_bytes() <= 20_000 and stores.options.budget_bytes == SMALL
    list(operator.on_barrier(1))
    assert counts(operator) == everything(3) + Counter({"key 0": 1})


def test_a_greater_budget_holds_at_once() -> None:
    operator = paged(LITTLE)
    stores = spread(operator)
    pages = stores.pages
    stores.approach_budget(64 * MB)
    assert not stores.is_shrinking() and stores.pages is pages
    assert stores.options.held_bytes == 48 * MB
    stores.approach_budget(None)
    assert not stores.is_shrinking() and stores.options.held_bytes is None


def test_state_without_a_bound_comes_down_and_its_program_may_take_the_bound_back() -> None:
    clock = Ticking()
    operator = paged(ROOM, clock)
    stores = spread(operator)
    stores.set_budget(None)
    stores.approach_budget(SMALL)
    list(operator.on_timer(clock.monotonic_ns()))
    assert stores.is_shrinking() and stores.options.budget_bytes is not None
    between = resident(operator)
    stores.approach_budget(None)
    assert not stores.is_shrinking()
    list(operator.on_timer(clock.monotonic_ns()))
    assert resident(operator) == between > 0


def test_it_waits_for_a_checkpoint_that_is_written(tmp_path: Path) -> None:
    operator = paged(ROOM, Ticking())
    stores = on_pages(operator)
    node = ChainNode("op", operator, RowCounters())
    list(push(node, 0, Barrier(1)))
    cut = pages_cut(operator)
    there = resident(operator)
    stores.approach_budget(SMALL)
    assert not stores.is_shrinking() and operator.timer_ns() is None
    list(operator.on_timer(0))
    assert resident(operator) == there
    cut.release()
    assert stores.is_shrinking() and operator.timer_ns() is not None


def test_rows_that_waited_within_a_greater_budget_are_worked_off_in_slices() -> None:
    clock = Ticking()
    operator = paged(LITTLE, clock)
    stores = spread(operator)
    list(operator.on_barrier(1))
    before = counts(operator)
    # As much as may wait, and then only a tenth of it may.
    stores.bound.options = stores.bound.goal = stores.bound._given = type(LITTLE)(64 * MB, 8_000, 4_000)
    list(operator.process(0, Batch(batch_of(rows(400)))))
    waiting = operator._backlog.bytes
    assert waiting > 0
    stores.approach_budget(SMALL)
    assert stores.options.waiting_bytes >= waiting
    list(operator.process(0, Batch(batch_of(rows(1)))))
    assert operator._backlog
    turns = 0
    while operator._backlog or stores.is_shrinking():
        list(operator.on_timer(clock.monotonic_ns()))
        turns += 1
    assert turns > 3 and stores.options.budget_bytes == SMALL
    list(operator.on_barrier(2))
    assert counts(operator) == before + everything(1) + Counter({"key 0": 1})


def test_a_page_store_that_has_no_room_is_asked_again_later() -> None:
    clock = ManualClock()
    operator = paged(ROOM, clock)
    stores = spread(operator)
    stores.approach_budget(SMALL)
    pages = stores.pages
    pages.has_room = lambda: False  # type: ignore[method-assign]
    there = resident(operator)
    list(operator.on_timer(clock.monotonic_ns()))
    assert resident(operator) == there
    assert operator.timer_ns() == clock.monotonic_ns() + PAGES_NS
    del pages.has_room
    clock.advance_us(PAGES_NS // 1_000)
    while stores.is_shrinking():
        list(operator.on_timer(clock.monotonic_ns()))
    assert resident(operator) < there
