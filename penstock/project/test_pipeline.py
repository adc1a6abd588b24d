"""Tests of the pipeline: rows are pushed and time is moved by hand, so they are exact and take milliseconds."""

from typing import Any

from penstock import testing
from pipeline import Order, placed, revenue


def order(time: str, shop: str, quantity: int, price: float, status: str = "placed") -> dict[str, Any]:
    """Make an order of one March morning."""
    at = f"2026-03-02 {time}"
    return {"at": at, "shop": shop, "item": "tea", "quantity": quantity, "price": price, "status": status}


def test_revenue_leaves_when_its_window_is_over() -> None:
    """The watermark closes windows: nothing comes before it, one row per shop after it."""
    kit = testing.Kit()
    orders = kit.input(Order, time="at")
    totals = kit.output(revenue(orders.stream))
    orders.push(
        order("09:01:00", "north", 2, 4.5), order("09:09:59", "north", 1, 12.0), order("09:10:00", "north", 1, 1)
    )
    assert totals.take() == []
    orders.watermark("2026-03-02 09:10:00")
    assert [(row["shop"], row["orders"], row["revenue"]) for row in totals.take()] == [("north", 2, 21.0)]
    kit.end()
    assert [(row["shop"], row["orders"], row["revenue"]) for row in totals.take()] == [("north", 1, 1.0)]


def test_an_order_after_its_window_is_late() -> None:
    """A late order changes no result and is not lost."""
    kit = testing.Kit()
    orders = kit.input(Order, time="at")
    result = revenue(orders.stream)
    totals, late = kit.output(result), kit.output(result.side_output("late"))
    orders.push(order("09:01:00", "north", 2, 4.5))
    orders.watermark("2026-03-02 09:10:00")
    orders.push(order("09:02:00", "north", 5, 4.5))
    assert kit.end().ledger.late == 1
    assert [row["revenue"] for row in totals.rows()] == [9.0]
    assert [row["quantity"] for row in late.rows()] == [5]


def test_cancelled_orders_are_left_out() -> None:
    """Only what was placed passes."""
    kit = testing.Kit()
    orders = kit.input(Order, time="at")
    passed = kit.output(placed(orders.stream))
    orders.push(order("09:01:00", "north", 2, 4.5, "cancelled"), order("09:02:00", "south", 1, 7.25))
    assert [row["shop"] for row in passed.rows()] == ["south"]
    kit.end()
