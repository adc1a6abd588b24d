"""Which edges are free, what is said of shares that cannot be, and what is left of routes in another plan."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import penstock as ps
from penstock import col
from penstock.engine.jobs.route_orders import RouteOrders
from penstock.engine.plan.free_edges import fitting, free_edges, wanted_route
from penstock.engine.plan.recut import recut
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph


def graph(parallelism: int = 2) -> ExecutionGraph:
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job).name("bids")
    dear = bids.rebalance().filter(col("price") > 10).name("dear").select(id="auction", price="price").name("parsed")
    dear.key_by("id").agg(n=ps.count()).name("counts").write_json(Path("nowhere"), mode="changelog").name("out")
    return job.plan(parallelism)


def test_shares_are_those_of_the_operator_that_rows_come_to() -> None:
    plan = graph()
    assert [plan.node(edge.consumer).name for edge in free_edges(plan)] == ["dear"]
    assert wanted_route(plan, "dear", [3, 1]) == wanted_route(plan, "parsed", [6, 2]) == ("dear", (0.75, 0.25))
    assert wanted_route(plan, "parsed", []) == ("dear", ())


@pytest.mark.parametrize(
    ("operator", "shares", "reason"),
    [
        ("derr", [1, 1], "there is no operator 'derr': rows may go to any instance of 'dear'"),
        ("counts", [1, 1], "nothing comes to 'counts' that may go to any of its instances"),
        ("dear", [1, 1, 1], "'dear' has 2 instances: give as many shares, not 3"),
        ("dear", [0, 0], "one of them greater than 0"),
        ("dear", [-1, 2], "numbers from 0 on"),
        ("dear", [float("nan"), 1], "numbers from 0 on"),
        ("dear", [float("inf"), 1], "numbers from 0 on"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(operator: str, shares: Sequence[float], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        wanted_route(graph(), operator, shares)


def test_orders_hold_until_the_operator_has_other_instances() -> None:
    plan, orders = graph(), RouteOrders()
    kept: list[object] = []
    orders.keep = kept.append
    assert orders.ask(plan, "dear", [1, 3]) == orders.of(plan) == {"dear": (0.25, 0.75)}
    assert orders.version == 1 and kept == [{"dear": (0.25, 0.75)}]
    assert fitting(recut(plan, {"dear": 3}, 128), orders.of(plan)) == {}
    assert orders.ask(plan, "dear", []) == orders.of(plan) == {}
    orders.close(OptionError("over"))
    with pytest.raises(OptionError, match="over"):
        orders.ask(plan, "dear", [1, 1])
