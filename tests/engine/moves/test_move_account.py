"""What a move took is added up by times that are handed in, and the rates before and during it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.moves.move_account import MoveAccount
from penstock.engine.moves.move_orders import ChangeOrder, MoveOrder, MoveOrders, MoveSummary, MoveTotals
from penstock.engine.moves.source_rates import SourceRates
from penstock.model.errors import RetryableError

SECOND = 1_000_000_000
MS = 1_000_000


def test_it_has_the_pause_of_each_key_group_the_marker_and_what_was_planned() -> None:
    account = MoveAccount(10 * SECOND, planned_bytes=900, planned_ms=70.0)
    account.round_begins(10 * SECOND, 3, 0)
    account.given(10 * SECOND + 5 * MS, 600)
    account.installed(3, 1, 8 * MS)
    account.round_is_over(10 * SECOND + 10 * MS)
    account.round_begins(10 * SECOND + 20 * MS, 1, 1)
    account.given(10 * SECOND + 27 * MS, 400)
    account.installed(1, 2, 20 * MS)
    account.round_is_over(10 * SECOND + 50 * MS)
    found = account.summary(10 * SECOND + 50 * MS, SourceRates())
    assert (found.key_groups, found.rounds, found.state_bytes, found.buckets, found.checkpoints) == (4, 2, 1_000, 3, 1)
    assert (found.took_ms, found.round_p50_ms, found.planned_bytes, found.planned_ms) == (50.0, 20.0, 900, 70.0)
    assert found.pause_ms[0] == 8.0 and 19.0 < found.pause_ms[1] <= 20.0
    assert found.marker_ms[0] == 6.0 and found.marker_ms[1] <= 7.0
    assert found.source_rows_s == (None, None)
    assert found.sentence() == (
        "4 key groups, 3 buckets, 1,000 bytes (900 expected) in 50 ms (70 expected); paused 8.0 ms (p99 19.6 ms); the "
        "marker took 6.0 ms (p99 7.0 ms); 1 checkpoints let through"
    )


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_rates_before_and_during_a_move_are_those_of_the_counts(before: int, during: int) -> None:
    rates, rows = SourceRates(), 0
    for second in range(200):
        rates.note(second * SECOND, rows)
        rows += before if second < 100 else during
    assert rates.rate(0, 50 * SECOND) is None
    assert rates.rate(0, 145 * SECOND) is not None
    assert rates.rate(150 * SECOND, 190 * SECOND) == during
    account = MoveAccount(150 * SECOND, 0, None)
    assert account.summary(151 * SECOND, rates).source_rows_s[1] is None


def test_a_count_of_another_attempt_begins_anew() -> None:
    rates = SourceRates()
    for second, rows in enumerate([0, 100, 200, 300, 50, 60, 70, 80]):
        rates.note(second * SECOND, rows)
    assert rates.rate(0, 10 * SECOND) == 10.0


def test_totals_count_what_has_ended() -> None:
    orders = MoveOrders()
    orders.open()
    assert orders.totals() is None
    first, second = orders.ask(MoveOrder("a[0]", "tm-1")), orders.ask(MoveOrder("a[1]", "tm-0"))
    account = MoveAccount(0, 0, None)
    account.round_begins(0, 5, 0)
    account.given(1, 77)
    account.installed(5, 1, 3 * MS)
    account.round_is_over(4 * MS)
    first.answer.set_result(account.summary(4 * MS, SourceRates()))
    second.answer.set_exception(RetryableError("lost"))
    assert orders.totals() == MoveTotals(1, 1, 5, 77, 4.0, 3.0, 1e-6)
    # Partitions have neither pauses nor markers.
    orders.ask(MoveOrder("source[0]", "tm-1")).answer.set_result(MoveSummary(0, 0, 0, 1.0, 0.0, 0.0, partitions=2))
    assert orders.totals() == MoveTotals(2, 1, 5, 77, 5.0, 3.0, 1e-6)


def test_moves_of_a_change_are_told_and_counted_as_those_are_that_were_asked_for() -> None:
    orders = MoveOrders()
    asked = orders.note(ChangeOrder("count", "drain"), 5)
    assert orders.take() is None
    (record,) = orders.records()
    assert (record.instance, record.task_manager, record.cause) == ("key groups of 'count'", "its instances", "drain")
    assert (record.number, record.state, record.moved_key_groups, record.key_groups) == (1, "waiting", 0, 5)
    asked.begun, asked.progress = True, (3, 5)
    assert [(item.state, item.moved_key_groups) for item in orders.records()] == [("moving", 3)]
    asked.answer.set_result(MoveSummary(5, 1, 77, 4.0, 4.0, 4.0, pause_ms=(1.0, 2.0), marker_ms=(0.5, 0.7)))
    assert orders.totals() == MoveTotals(1, 0, 5, 77, 4.0, 2.0, 0.7)
    assert [item.state for item in orders.records()] == ["done"]
