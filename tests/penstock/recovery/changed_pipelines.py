"""What may be changed of each of `PIPELINES` so that its state does not fit, and how the refusal names it."""

from collections.abc import Iterator
from typing import Any

import penstock as ps
from penstock import Stream, col, count, sum_
from penstock.model.process import Context
from tests.penstock.recovery import stateful_pipelines as kept
from tests.penstock.recovery.stateful_pipelines import RESULT, Total
from tests.penstock.recovery.stopped_jobs import Pipeline

REFUSED: dict[str, dict[str, Pipeline]] = {}
"""By pipeline and by what the refusal says."""


def _refused(pipeline: Pipeline, changes: dict[str, Pipeline]) -> None:
    REFUSED[pipeline.__name__] = changes


def sums(keyed: Any) -> Stream:
    """Count and add up, under the name that is looked for."""
    result: Stream = keyed.agg(n=count(), total=sum_("price")).name("kept")
    return result


def _windowed(window: Any, key: str = "item") -> Pipeline:
    return lambda left, right: sums(left.key_by(key).window(window))


class Shorter(ps.Process):
    """As `Total` with another type of state."""

    total = ps.value_state(float, default=0.0)
    seen = ps.list_state(int)

    def process(self, row: dict[str, Any], context: Context) -> Iterator[dict[str, Any]]:
        yield {"item": context.key, "total": 0, "fees": 0}


class Expiring(Total):
    """As `Total` with state that expires."""

    total = ps.value_state(int, default=0, ttl="1h")


class FloatBatches(kept.BatchTotal):
    """As `BatchTotal` with another type of state."""

    total = ps.value_state(float, default=0.0)


def _top(rows: int, by: Any, key: str = "item", rank: str | None = None) -> Pipeline:
    return lambda left, right: left.key_by(key).top(rows, by=by, rank=rank).name("kept")


_refused(
    kept.agg,
    {
        "its key was item and is shop now": lambda left, right: sums(left.key_by("shop")),
        "its key was item and is upper(item) now": lambda left, right: sums(left.key_by(item=col("item").str.upper())),
        "its key was item and is item, shop now": lambda left, right: sums(left.key_by("item", "shop")),
        "its key was item and is none now": lambda left, right: left.agg(n=count(), total=sum_("price")).name("kept"),
        "its aggregate 'total' was sum(price) and is sum(price * 2) now": lambda left, right: (
            left.key_by("item").agg(n=count(), total=sum_(col("price") * 2)).name("kept")
        ),
        "its aggregate 'total' was sum(price) and is sum(price) where fee > 1 now": lambda left, right: (
            left.key_by("item").agg(n=count(), total=sum_("price").filter(col("fee") > 1)).name("kept")
        ),
        "its aggregate 'total' was sum(price) and is max(price) now": lambda left, right: (
            left.key_by("item").agg(n=count(), total=ps.max_("price")).name("kept")
        ),
        "its window was none and is tumbling 20s now": _windowed(ps.tumbling("20s")),
        "it was an 'agg' and is a 'top' now": _top(1, "price"),
        "it was an 'agg' and is a 'filter' now": lambda left, right: left.filter(col("price") > 3).name("kept"),
        "its input was an append-only stream and is an updating stream now": lambda left, right: sums(
            left.key_by("item", "shop").top(1, by="price").name("new").key_by("item")
        ),
    },
)
_refused(
    kept.distinct_counts,
    {
        "its aggregate 'shops' was count_distinct(shop) and is count_distinct(fee) now": lambda left, right: (
            left.key_by("item").agg(shops=ps.count_distinct("fee"), least=ps.min_("price")).name("kept")
        ),
    },
)
_refused(
    kept.tumbling,
    {
        "its window was tumbling 20s and is tumbling 10s now": _windowed(ps.tumbling("10s")),
        "its window was tumbling 20s and is tumbling 20s, offset 5s now": _windowed(ps.tumbling("20s", offset="5s")),
        "its window was tumbling 20s and is hopping 20s every 10s now": _windowed(ps.hopping("20s", "10s")),
        "its window was tumbling 20s and is session gap 20s now": _windowed(ps.session("20s")),
        "its window was tumbling 20s and is count 2 now": _windowed(ps.count_window(2)),
        "its window was tumbling 20s and is global now": _windowed(ps.global_window()),
        "its window was tumbling 20s and is none now": lambda left, right: sums(left.key_by("item")),
        "its allowed lateness was none and is 5s now": _windowed(ps.tumbling("20s", lateness="5s")),
        "its clock was event time and is processing time now": _windowed(ps.tumbling("20s", clock="processing")),
        "its emission was final results and is updates now": lambda left, right: sums(
            left.key_by("item").window(ps.tumbling("20s")).emit("updates")
        ),
        "its key was item and is shop now": _windowed(ps.tumbling("20s"), "shop"),
        "its aggregate 'total' was sum(price) and is sum(fee) now": lambda left, right: (
            left.key_by("item").window(ps.tumbling("20s")).agg(n=count(), total=sum_("fee")).name("kept")
        ),
    },
)
_refused(
    kept.hopping,
    {
        "its window was hopping 20s every 10s and is hopping 20s every 5s now": _windowed(ps.hopping("20s", "5s")),
        "its window was hopping 20s every 10s and is hopping 30s every 10s now": _windowed(ps.hopping("30s", "10s")),
        "its key was item and is shop now": _windowed(ps.hopping("20s", "10s"), "shop"),
    },
)
_refused(
    kept.updating_windows,
    {
        "its window was tumbling 20s and is tumbling 10s now": lambda left, right: (
            left.key_by("item").window(ps.tumbling("10s")).emit("updates").agg(total=sum_("price")).name("kept")
        ),
        "its emission was updates and is final results now": lambda left, right: (
            left.key_by("item").window(ps.tumbling("20s")).agg(total=sum_("price")).name("kept")
        ),
    },
)
_refused(
    kept.session,
    {
        "its window was session gap 5s and is session gap 9s now": _windowed(ps.session("9s")),
        "its key was item and is shop now": _windowed(ps.session("5s"), "shop"),
    },
)
_refused(
    kept.count_window,
    {
        "its window was count 2 and is count 3 now": _windowed(ps.count_window(3)),
        "its key was item and is shop now": _windowed(ps.count_window(2), "shop"),
    },
)
_refused(
    kept.global_window,
    {
        "its window was global and is tumbling 1h now": _windowed(ps.tumbling("1h")),
        "its key was item and is shop now": _windowed(ps.global_window(), "shop"),
    },
)
_refused(
    kept.reduce,
    {
        "its key was item and is shop now": lambda left, right: left.key_by("shop").reduce(kept._first).name("kept"),
        "its window was none and is tumbling 20s now": kept.window_reduce,
    },
)
_refused(
    kept.window_reduce,
    {
        "its window was tumbling 20s and is tumbling 10s now": lambda left, right: (
            left.key_by("item").window(ps.tumbling("10s")).reduce(kept._first).name("kept")
        ),
        "it was a 'reduce' and is an 'agg' now": kept.tumbling,
    },
)
_refused(
    kept.over,
    {
        "its key was item and is shop now": lambda left, right: (
            left.key_by("shop").over().agg(total=sum_("price"), shops=ps.count_distinct("shop")).name("kept")
        ),
        "its frame was all rows so far and is the last 2 now": kept.over_rows,
        "its aggregate 'total' was sum(price) and is sum(fee) now": lambda left, right: (
            left.key_by("item").over().agg(total=sum_("fee"), shops=ps.count_distinct("shop")).name("kept")
        ),
    },
)
_refused(
    kept.over_rows,
    {
        "its frame was the last 2 and is the last 3 now": lambda left, right: (
            left.key_by("item").over(3).agg(total=sum_("price")).name("kept")
        ),
        "its aggregate 'total' was sum(price) and is sum(fee) now": lambda left, right: (
            left.key_by("item").over(2).agg(total=sum_("fee")).name("kept")
        ),
        "its order was event time and is price now": lambda left, right: (
            left.key_by("item").over(2, by="price").agg(total=sum_("price")).name("kept")
        ),
    },
)
_refused(
    kept.over_by,
    {
        "its order was price and is price desc now": lambda left, right: (
            left.key_by("item").over(2, by=col("price").desc()).agg(total=sum_("fee")).name("kept")
        ),
        "its frame was the last 2 and is all rows so far now": lambda left, right: (
            left.key_by("item").over(by="price").agg(total=sum_("fee")).name("kept")
        ),
        "its aggregate 'total' was sum(fee) and is sum(price) now": lambda left, right: (
            left.key_by("item").over(2, by="price").agg(total=sum_("price")).name("kept")
        ),
    },
)
_refused(
    kept.top,
    {
        "its number of rows was 1 and is 2 now": _top(2, col("price").desc()),
        "its order was price desc and is price now": _top(1, col("price")),
        "its order was price desc and is fee desc now": _top(1, col("fee").desc()),
        "its key was item and is shop now": _top(1, col("price").desc(), "shop"),
        "its rank was none and is a column now": _top(1, col("price").desc(), rank="place"),
        "it was a 'top' and is a 'deduplicate' now": kept.deduplicate_first,
    },
)
_refused(
    kept.deduplicate_first,
    {
        "its order was event time and is arrival now": kept.deduplicate_arrival,
        "its ttl was none and is 1h now": lambda left, right: (
            left.key_by("item").deduplicate("first", ttl="1h").name("kept")
        ),
        "its key was item and is shop now": lambda left, right: left.key_by("shop").deduplicate("first").name("kept"),
        "it was a 'deduplicate' and is a 'top' now": kept.deduplicate_last,
    },
)
_refused(kept.deduplicate_arrival, {"its order was arrival and is event time now": kept.deduplicate_first})
_refused(
    kept.deduplicate_last,
    {"its key was item and is shop now": lambda left, right: left.key_by("shop").deduplicate("last").name("kept")},
)
_refused(
    kept.distinct,
    {
        "its key was item, shop and is item now": lambda left, right: left.distinct("item").name("kept"),
        "its key was item, shop and is shop, item now": lambda left, right: left.distinct("shop", "item").name("kept"),
    },
)
_refused(
    kept.join,
    {
        "its left key was item and is shop now": lambda left, right: left.join(
            right, left_on="shop", right_on="item"
        ).name("kept"),
        "its right key was item and is shop now": lambda left, right: left.join(
            right, left_on="item", right_on="shop"
        ).name("kept"),
        "its how was inner and is left now": kept.left_join,
        "its window was none and is tumbling 20s now": kept.window_join,
        "its left side came from 'left' and comes from 'right' now": lambda left, right: right.join(
            left, on="item"
        ).name("kept"),
        "it was a 'join' and is an 'interval_join' now": kept.interval_join,
    },
)
_refused(
    kept.left_join,
    {
        "its how was left and is full now": lambda left, right: left.join(right, on="item", how="full").name("kept"),
        "its left key was item and is shop now": lambda left, right: left.join(
            right, left_on="shop", right_on="item", how="left"
        ).name("kept"),
    },
)


def _one_where(price: int) -> Pipeline:
    return lambda left, right: kept.one_join(left, right).filter(col("price_right") > price)


_refused(
    kept.one_join,
    {
        "its validate was m:1 and is m:m now": lambda left, right: left.join(
            right.key_by("item").deduplicate("first", order="arrival").name("one"), on="item", validate="m:m"
        ).name("kept"),
        "its rows with a partner was all and is those where price > 20 now": _one_where(20),
    },
)
_refused(
    kept.window_join,
    {
        "its window was tumbling 20s and is tumbling 10s now": lambda left, right: left.join(
            right, on="item", window=ps.tumbling("10s")
        ).name("kept"),
        "its allowed lateness was none and is 5s now": lambda left, right: left.join(
            right, on="item", window=ps.tumbling("20s", lateness="5s")
        ).name("kept"),
        "its left key was item and is shop now": lambda left, right: left.join(
            right, left_on="shop", right_on="item", window=ps.tumbling("20s")
        ).name("kept"),
    },
)
_refused(
    kept.interval_join,
    {
        "its between was -10s and 10s and is -20s and 10s now": lambda left, right: left.interval_join(
            right, on="item", between=("-20s", "10s")
        ).name("kept"),
        "its between was -10s and 10s and is -10s and due now": lambda left, right: left.interval_join(
            right, on="item", between=("-10s", col("due"))
        ).name("kept"),
        "its how was inner and is left now": lambda left, right: left.interval_join(
            right, on="item", between=("-10s", "10s"), how="left"
        ).name("kept"),
        "its left side came from 'left' and comes from 'right' now": lambda left, right: right.interval_join(
            left, on="item", between=("-10s", "10s")
        ).name("kept"),
    },
)
_refused(
    kept.asof_join,
    {
        "its tolerance was none and is 1s now": lambda left, right: left.asof_join(
            right, on="item", tolerance="1s"
        ).name("kept"),
        "its how was left and is inner now": lambda left, right: left.asof_join(right, on="item", how="inner").name(
            "kept"
        ),
        "its right key was item and is shop now": lambda left, right: left.asof_join(
            right, left_on="item", right_on="shop"
        ).name("kept"),
        "its left side came from 'left' and comes from 'right' now": lambda left, right: right.asof_join(
            left, on="item"
        ).name("kept"),
    },
)
_refused(
    kept.process,
    {
        "its key was item and is shop now": lambda left, right: left.key_by("shop").process(Total, RESULT).name("kept"),
        "its order was event time and is arrival now": lambda left, right: (
            left.key_by("item").process(Total, RESULT, order="arrival").name("kept")
        ),
        "its state 'total' was a value of int64 and is a value of double now": lambda left, right: (
            left.key_by("item").process(Shorter, RESULT).name("kept")
        ),
        "its state 'total' was a value of int64 and is a value of int64, ttl 1h of event time now": (
            lambda left, right: left.key_by("item").process(Expiring, RESULT).name("kept")
        ),
        "it was a 'process' and is an 'agg' now": kept.agg,
    },
)
_refused(
    kept.batch_process,
    {
        "its state 'total' was a value of int64 and is a value of double now": lambda left, right: (
            left.key_by("item").process(FloatBatches, {"item": str, "total": int}).name("kept")
        ),
    },
)
_refused(kept.map_async, {"it was a 'map_async' and is an 'agg' now": kept.agg})
_refused(
    kept.event_time,
    {
        "its event time was due and is at now": lambda left, right: (
            left.event_time("at").name("kept").key_by("item").window(ps.tumbling("20s")).agg(n=count()).name("windows")
        ),
    },
)
