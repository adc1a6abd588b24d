"""The testing kit, used as a user would."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

import penstock as ps
from penstock import col, testing
from penstock.dsl.stream import Stream


@dataclass
class Order:
    shop: str
    amount: int
    at: datetime


def totals(orders: Stream) -> Stream:
    return orders.key_by("shop").window(ps.tumbling("10s")).agg(total=ps.sum_("amount")).name("totals")


def order(shop: str, amount: int, second: int) -> dict[str, object]:
    return {"shop": shop, "amount": amount, "at": f"2026-01-01 12:00:{second:02}"}


def test_windows_close_when_the_watermark_says_so() -> None:
    kit = testing.Kit()
    orders = kit.input(Order, time="at")
    result = kit.output(totals(orders.stream))
    orders.push(order("north", 5, 1), order("north", 7, 9), order("south", 1, 31))
    assert result.take() == []
    orders.watermark("2026-01-01 12:00:10")
    assert [(row["shop"], row["total"]) for row in result.take()] == [("north", 12)]
    assert result.take() == []
    assert kit.end().ledger.late == 0
    assert [(row["shop"], row["total"]) for row in result.take()] == [("south", 1)]
    assert len(result.rows()) == 2


def test_a_watermark_can_follow_the_rows() -> None:
    kit = testing.Kit()
    orders = kit.input(Order, time="at", watermark="2s")
    result = kit.output(totals(orders.stream))
    orders.push(order("north", 5, 1), order("north", 7, 11))
    assert result.take() == []
    orders.push(order("north", 7, 12))
    assert [row["total"] for row in result.take()] == [5]
    # Behind the watermark and its window over: late.
    orders.push(order("north", 100, 9))
    kit.end()
    assert [row["total"] for row in result.take()] == [14]
    assert kit.metrics().ledger.late == 1


def test_several_inputs_do_not_wait_for_each_other() -> None:
    kit = testing.Kit()
    orders, refunds = kit.input(Order, time="at"), kit.input(Order, time="at")
    joined = orders.stream.interval_join(refunds.stream, on="shop", between=("0s", "10s"))
    result = kit.output(joined)
    orders.watermark("2026-01-01 12:00:00")
    orders.push(order("north", 5, 1))
    refunds.push(order("north", 2, 3))
    assert [row["amount_right"] for row in result.take()] == [2]
    kit.end()


def test_updates_come_at_once_with_their_weight() -> None:
    kit = testing.Kit()
    orders = kit.input(Order)
    result = kit.output(orders.stream.key_by("shop").agg(n=ps.count()))
    orders.push(order("north", 1, 1))
    assert result.take() == [{"shop": "north", "n": 1, "weight": 1}]
    orders.push(order("north", 1, 2))
    assert result.take() == [{"shop": "north", "n": 1, "weight": -1}, {"shop": "north", "n": 2, "weight": 1}]
    assert result.rows() == [{"shop": "north", "n": 2}]
    kit.stop()


def test_processing_time_moves_by_hand() -> None:
    with testing.Kit(start="2026-01-01 12:00:00") as kit:
        orders = kit.input(Order)
        counts = orders.stream.window(ps.tumbling("10s", clock="processing")).agg(n=ps.count())
        result = kit.output(counts)
        orders.push(order("north", 1, 1))
        kit.advance("9s")
        orders.push(order("north", 1, 1))
        assert result.take() == []
        kit.advance("1s")
        assert [row["n"] for row in result.take()] == [2]
        assert kit.now.isoformat() == "2026-01-01T12:00:10+00:00"


def test_state_can_be_looked_at() -> None:
    with testing.Kit() as kit:
        orders = kit.input(Order)
        kit.output(orders.stream.key_by("shop").agg(total=ps.sum_("amount")).name("totals"))
        orders.push(order("north", 1, 1), order("south", 2, 1), order("south", 3, 1))
        (groups,) = kit.state("totals").values()
        assert len(groups) == 2
        with pytest.raises(ps.OptionError, match="there is no operator 'total'"):
            kit.state("total")


class Silence(ps.Process):
    """Says when a shop has been silent for ten seconds of event time, and for a minute of processing time."""

    orders = ps.value_state(int, default=0)
    due = ps.value_state(datetime)

    def process(self, row: dict[str, Any], context: Any) -> None:
        self.orders.set(self.orders.get() + 1)
        if (due := self.due.get()) is not None:
            context.timers.cancel(due)
        self.due.set(context.timers.after("10s"))
        context.timers.after_processing("1m")

    def on_timer(self, timer: Any, context: Any) -> dict[str, Any]:
        return {"shop": context.key, "orders": self.orders.get(), "processing": timer.processing}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_state_and_timers_of_process_functions_are_by_key(parallelism: int) -> None:
    with testing.Kit(start="2026-01-01 15:00:00", parallelism=parallelism) as kit:
        orders = kit.input(Order, time="at")
        silent = orders.stream.key_by("shop").process(Silence, {"shop": str, "orders": int, "processing": bool})
        result = kit.output(silent.name("silent"))
        orders.push(order("north", 1, 1), order("south", 2, 2), order("north", 3, 5))
        assert kit.timers("silent") == [] and kit.state("silent") == {"orders": {}, "due": {}}
        orders.watermark("2026-01-01 12:00:06")
        assert kit.state("silent")["orders"] == {"north": 2, "south": 1}
        times = [(f"{time:%H:%M:%S}", key) for time, key in kit.timers("silent")]
        assert times == [("12:00:12", "south"), ("12:00:15", "north")]
        ahead = kit.timers("silent", processing=True)
        assert sorted((f"{time:%H:%M:%S}", key) for time, key in ahead) == [
            ("15:01:00", "north"),
            ("15:01:00", "south"),
        ]
        orders.watermark("2026-01-01 12:00:12")
        assert result.take() == [{"shop": "south", "orders": 1, "processing": False}]
        kit.advance("59s")
        assert result.take() == []
        kit.advance("1s")
        assert sorted(row["shop"] for row in result.take()) == ["north", "south"]
        with pytest.raises(ps.OptionError, match="has no timers"):
            kit.timers("source-1")


def test_a_failure_can_be_injected() -> None:
    kit = testing.Kit()
    orders = kit.input(Order, time="at")
    kit.output(totals(orders.stream))
    kit.fail("totals", OSError("no room"), after_rows=1)
    orders.push(order("north", 1, 1))
    with pytest.raises(OSError, match="no room"):
        orders.push(order("north", 1, 1))
    kit.close()


def test_bad_records_are_at_hand() -> None:
    kit = testing.Kit()
    orders = kit.input(Order)
    result = kit.output(orders.stream.filter(lambda amount: 10 // amount > 1))
    orders.push(order("north", 0, 1), order("north", 2, 1))
    kit.end()
    assert [row["amount"] for row in result.rows()] == [2]
    (letter,) = kit.dead_letters()
    assert "ZeroDivisionError" in letter["error"]


def test_async_functions_answer_at_once() -> None:
    async def priced(shop: str, amount: int) -> dict[str, object]:
        if amount < 0:
            raise ValueError("a negative amount")
        return {"shop": shop, "amount": amount * 100}

    kit = testing.Kit()
    orders = kit.input(Order)
    result = kit.output(orders.stream.map_async(priced, {"shop": "string", "amount": "int64"}))
    orders.push(order("north", 5, 1), order("north", -1, 2))
    assert result.take() == [{"shop": "north", "amount": 500}]
    (letter,) = kit.dead_letters()
    assert "a negative amount" in letter["error"]
    kit.end()


def test_what_is_declared_too_late_or_wrongly_is_refused() -> None:
    with testing.Kit() as kit:
        orders = kit.input(Order)
        kit.output(orders.stream.filter(col("amount") > 0))
        with pytest.raises(ps.SchemaError):
            orders.push({"shop": "north", "amount": "many", "at": "2026-01-01"})
        orders.push(order("north", 0, 1))
        with pytest.raises(ps.PlanError, match="before the first push"):
            kit.output(orders.stream)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rows_of_any_number_and_parallelism(parallelism: int) -> None:
    kit = testing.Kit(parallelism=parallelism, batch_rows=7)
    orders = kit.input(Order, time="at")
    result = kit.output(totals(orders.stream))
    orders.push([order("north", 1, second % 60) for second in range(100)])
    kit.end()
    assert sum(row["total"] for row in result.rows()) == 100
