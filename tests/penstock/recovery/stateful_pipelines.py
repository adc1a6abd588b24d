"""One small pipeline for every operator that keeps state; in each it is called ``kept``."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock import Stream, col, count, sum_
from penstock.model.process import BatchContext, Context, Timer
from tests.penstock.recovery.stopped_jobs import Pipeline


class Total(ps.Process):
    """Adds prices up, and says so again two seconds later."""

    total = ps.value_state(int, default=0)
    seen = ps.list_state(int)

    def process(self, row: dict[str, Any], context: Context) -> Iterator[dict[str, Any]]:
        self.total.set(self.total.get() + row["price"])
        self.seen.append(row["fee"])
        context.timers.after("8s")
        yield {"item": context.key, "total": self.total.get(), "fees": sum(self.seen)}

    def on_timer(self, timer: Timer, context: Context) -> Iterator[dict[str, Any]]:
        yield {"item": context.key, "total": -self.total.get(), "fees": 0}


class BatchTotal(ps.BatchProcess):
    """Adds prices up, a batch at a time."""

    total = ps.value_state(int, default=0)

    def process(self, batch: pa.RecordBatch, context: BatchContext) -> pa.RecordBatch:
        sums = self.total.gather().to_pylist()
        totals = []
        for group, price in zip(context.groups.tolist(), batch.column("price").to_pylist(), strict=True):
            sums[group] += price
            totals.append(sums[group])
        self.total.scatter(pa.array(sums, pa.int64()))
        return pa.RecordBatch.from_pydict({"item": batch.column("item"), "total": pa.array(totals, pa.int64())})


RESULT = {"item": str, "total": int, "fees": int}


async def _answer(price: int) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"twice": 2 * price}


def _first(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {**one, "price": one["price"] + other["price"]}


def agg(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").agg(n=count(), total=sum_("price")).name("kept")


def distinct_counts(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").agg(shops=ps.count_distinct("shop"), least=ps.min_("price")).name("kept")


def tumbling(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").window(ps.tumbling("20s")).agg(n=count(), total=sum_("price")).name("kept")


def hopping(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").window(ps.hopping("20s", "10s")).agg(n=count(), total=sum_("price")).name("kept")


def updating_windows(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").window(ps.tumbling("20s")).emit("updates").agg(total=sum_("price")).name("kept")


def session(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").window(ps.session("5s")).agg(n=count(), total=sum_("price")).name("kept")


def count_window(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").window(ps.count_window(2)).agg(n=count(), total=sum_("price")).name("kept")


def global_window(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").window(ps.global_window()).agg(n=count(), total=sum_("price")).name("kept")


def reduce(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").reduce(_first).name("kept")


def window_reduce(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").window(ps.tumbling("20s")).reduce(_first).name("kept")


def over(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").over().agg(total=sum_("price"), shops=ps.count_distinct("shop")).name("kept")


def over_rows(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").over(2).agg(total=sum_("price")).name("kept")


def over_by(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").over(2, by="price").agg(total=sum_("fee")).name("kept")


def top(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").top(1, by=col("price").desc()).name("kept")


def deduplicate_first(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").deduplicate("first").name("kept")


def deduplicate_arrival(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").deduplicate("first", order="arrival").name("kept")


def deduplicate_last(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").deduplicate("last").name("kept")


def distinct(left: Stream, right: Stream) -> Stream:
    return left.distinct("item", "shop").name("kept")


def join(left: Stream, right: Stream) -> Stream:
    return left.join(right, on="item").name("kept")


def left_join(left: Stream, right: Stream) -> Stream:
    return left.join(right, on="item", how="left").name("kept")


def one_join(left: Stream, right: Stream) -> Stream:
    keyed = right.key_by("item").deduplicate("first", order="arrival").name("one")
    return left.join(keyed, on="item", validate="m:1").name("kept")


def window_join(left: Stream, right: Stream) -> Stream:
    return left.join(right, on="item", window=ps.tumbling("20s")).name("kept")


def interval_join(left: Stream, right: Stream) -> Stream:
    return left.interval_join(right, on="item", between=("-10s", "10s")).name("kept")


def asof_join(left: Stream, right: Stream) -> Stream:
    return left.asof_join(right, on="item").name("kept")


def process(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").process(Total, RESULT).name("kept")


def batch_process(left: Stream, right: Stream) -> Stream:
    return left.key_by("item").process(BatchTotal, {"item": str, "total": int}).name("kept")


def map_async(left: Stream, right: Stream) -> Stream:
    return left.map_async(_answer, {"twice": int}).name("kept")


def event_time(left: Stream, right: Stream) -> Stream:
    timed = left.event_time("due").name("kept")
    return timed.key_by("item").window(ps.tumbling("20s")).agg(n=count()).name("windows")


PIPELINES: dict[str, Pipeline] = {
    pipeline.__name__: pipeline
    for pipeline in (
        agg,
        distinct_counts,
        tumbling,
        hopping,
        updating_windows,
        session,
        count_window,
        global_window,
        reduce,
        window_reduce,
        over,
        over_rows,
        over_by,
        top,
        deduplicate_first,
        deduplicate_arrival,
        deduplicate_last,
        distinct,
        join,
        left_join,
        one_join,
        window_join,
        interval_join,
        asof_join,
        process,
        batch_process,
        map_async,
        event_time,
    )
}
"""By name."""
