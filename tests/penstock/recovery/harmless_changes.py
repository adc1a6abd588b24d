"""What may be changed of `PIPELINES` and leaves their state what it is."""

import asyncio
from collections.abc import Iterator
from typing import Any

import penstock as ps
from penstock import Stream, col, count, sum_
from penstock.model.process import Context
from tests.penstock.recovery import stateful_pipelines as kept
from tests.penstock.recovery.changed_pipelines import sums
from tests.penstock.recovery.stateful_pipelines import RESULT, Total
from tests.penstock.recovery.stopped_jobs import Pipeline


async def _other(price: int) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"twice": price + price}


class Renamed(Total):
    """As `Total`, by another name and with one more state."""

    more = ps.map_state(str, int)


class Fewer(ps.Process):
    """As `Total` without the list."""

    total = ps.value_state(int, default=0)

    def process(self, row: dict[str, Any], context: Context) -> Iterator[dict[str, Any]]:
        self.total.set(self.total.get() + row["price"])
        context.timers.after("8s")
        yield {"item": context.key, "total": self.total.get(), "fees": 0}

    on_timer = Total.on_timer


def _more(left: Stream, right: Stream) -> Stream:
    windowed = left.key_by("item").window(ps.tumbling("20s"))
    return windowed.agg(
        least=ps.min_("price"),
        total=sum_("price"),
        shops=ps.collect_list("shop"),
        n=count(),
        least_shop=ps.min_("shop"),
    ).name("kept")


def _northern(left: Stream, shops: list[str]) -> Stream:
    return left.key_by("item").agg(n=count().filter(col("shop").is_in(shops)), total=sum_("price")).name("kept")


HARMLESS: dict[str, tuple[Pipeline, Pipeline, tuple[str, ...] | None]] = {
    "agg: added, among the others": (
        kept.agg,
        lambda left, right: left.key_by("item").agg(least=ps.min_("fee"), n=count(), total=sum_("price")).name("kept"),
        ("item", "n", "total"),
    ),
    "agg: dropped": (
        kept.agg,
        lambda left, right: left.key_by("item").agg(total=sum_("price")).name("kept"),
        ("item", "total"),
    ),
    "agg: key renamed": (
        kept.agg,
        lambda left, right: sums(left.key_by(thing=col("item"))),
        ("n", "total"),
    ),
    "agg: a filter before it": (
        kept.agg,
        lambda left, right: sums(left.filter(col("price") > 0).key_by("item")),
        None,
    ),
    "agg: members of a set in another order": (
        lambda left, right: _northern(left, ["north", "east", "west"]),
        lambda left, right: _northern(left, ["west", "north", "east"]),
        None,
    ),
    "agg: computed columns before it": (
        kept.agg,
        lambda left, right: sums(left.with_columns(more=col("fee") + 1).key_by("item")),
        None,
    ),
    "distinct counts: one more over the same values": (
        kept.distinct_counts,
        lambda left, right: (
            left.key_by("item")
            .agg(
                dear=ps.count_distinct("shop").filter(col("price") > 4),
                shops=ps.count_distinct("shop"),
                least=ps.min_("price"),
            )
            .name("kept")
        ),
        ("item", "shops", "least"),
    ),
    "tumbling: added": (kept.tumbling, _more, ("item", "n", "total")),
    "tumbling: renamed and in another order": (
        kept.tumbling,
        lambda left, right: (
            left.key_by("item").window(ps.tumbling("20s")).agg(amount=sum_("price"), n=count()).name("kept")
        ),
        None,
    ),
    "tumbling: the mean of what is summed up": (
        kept.tumbling,
        lambda left, right: (
            left.key_by("item")
            .window(ps.tumbling("20s"))
            .agg(n=count(), mean=ps.mean("price"), total=sum_("price"))
            .name("kept")
        ),
        None,
    ),
    "tumbling: fewer": (
        kept.tumbling,
        lambda left, right: left.key_by("item").window(ps.tumbling("20s")).agg(n=count()).name("kept"),
        None,
    ),
    "session: added": (
        kept.session,
        lambda left, right: (
            left.key_by("item")
            .window(ps.session("5s"))
            .agg(least=ps.min_("price"), n=count(), total=sum_("price"))
            .name("kept")
        ),
        ("item", "n", "total"),
    ),
    "count window: added": (
        kept.count_window,
        lambda left, right: (
            left.key_by("item")
            .window(ps.count_window(2))
            .agg(least=ps.min_("price"), n=count(), total=sum_("price"))
            .name("kept")
        ),
        ("item", "n", "total"),
    ),
    "over: added": (
        kept.over,
        lambda left, right: (
            left.key_by("item")
            .over()
            .agg(fees=sum_("fee"), shops=ps.count_distinct("shop"), list=ps.collect_list("fee"), total=sum_("price"))
            .name("kept")
        ),
        ("item", "at", "total", "shops"),
    ),
    "over rows: added": (
        kept.over_rows,
        lambda left, right: (
            left.key_by("item").over(2).agg(fees=sum_("fee"), n=count(), total=sum_("price")).name("kept")
        ),
        ("item", "at", "total"),
    ),
    "reduce: another function": (
        kept.window_reduce,
        lambda left, right: (
            left.key_by("item")
            .window(ps.tumbling("20s"))
            .reduce(lambda one, two: {**one, "price": two["price"] + one["price"]})
            .name("kept")
        ),
        None,
    ),
    "join: a filter behind it": (
        kept.join,
        lambda left, right: kept.join(left, right).filter(col("price") > 0),
        None,
    ),
    "join: fewer columns read": (
        kept.join,
        lambda left, right: kept.join(left, right).select("item", "price", "fee_right"),
        ("item", "price", "fee_right"),
    ),
    "as-of join: fewer columns read": (
        kept.asof_join,
        lambda left, right: kept.asof_join(left, right).select("item", "price", "fee_right"),
        ("item", "price", "fee_right"),
    ),
    "process: another class, and one more state": (
        kept.process,
        lambda left, right: left.key_by("item").process(Renamed, RESULT).name("kept"),
        None,
    ),
    "process: one state fewer": (
        kept.process,
        lambda left, right: left.key_by("item").process(Fewer, RESULT).name("kept"),
        ("item", "total"),
    ),
    "map_async: another function": (
        kept.map_async,
        lambda left, right: left.map_async(_other, {"twice": int}, capacity=7).name("kept"),
        None,
    ),
}
"""The pipeline, what it becomes, and the columns that must be as if it had always been that (None: all)."""
