"""Pipelines with every kind of operator, whose functions and classes a module has."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import penstock as ps
from penstock import col
from penstock.dsl.job import Job

FIELDS = {"key": str, "value": int, "at": datetime.datetime}


class Largest(ps.UserAggregate):
    state: Mapping[str, Any] = {"largest": np.int64}
    result_type = pa.int64()

    def update(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64], values: Sequence[pa.Array]) -> None:
        np.maximum.at(state["largest"], groups, values[0].to_numpy(zero_copy_only=False))

    def merge(
        self,
        state: Mapping[str, NDArray[Any]],
        groups: NDArray[np.int64],
        other: Mapping[str, NDArray[Any]],
        other_groups: NDArray[np.int64],
    ) -> None:
        np.maximum.at(state["largest"], groups, other["largest"][other_groups])

    def result(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64]) -> Any:
        return state["largest"][groups]


class Seconds(ps.WindowAssigner):
    def __init__(self, seconds: int) -> None:
        self.size_us = seconds * 1_000_000

    def assign(self, times_us: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        start = times_us // self.size_us * self.size_us
        return np.arange(len(times_us)), start, start + self.size_us


class Counting(ps.Process):
    rows = ps.value_state(int, default=0)

    def process(self, row: dict[str, Any], context: Any) -> Iterator[dict[str, Any]]:
        self.rows.set(self.rows.get() + 1)
        yield {"key": context.key, "value": self.rows.get()}


def rows() -> Iterator[dict[str, Any]]:
    start = datetime.datetime(2026, 1, 1)
    for index in range(120):
        yield {"key": "abc"[index % 3], "value": index * 7 % 50, "at": start + datetime.timedelta(seconds=index)}


async def negated(row: dict[str, Any]) -> dict[str, Any]:
    return {"key": row["key"], "value": -row["value"]}


def pipelines(job: Job, where: Path) -> None:
    """Add pipelines to a job that write below ``where``."""
    source = ps.read_iterable(rows, schema=FIELDS, time="at", job=job)
    keyed = source.key_by("key")
    pair = {"key": str, "value": int}
    other = source.select("key", "at", other=col("value") + 1)
    found: dict[str, ps.Stream] = {
        "aggregate": keyed.window(ps.session("10s")).agg(n=ps.count(), largest=ps.aggregate(Largest(), "value")),
        "assigned": keyed.window(Seconds(9)).agg(total=ps.sum_("value").filter(col("value") > 3)),
        "updating": keyed.agg(n=ps.count(), largest=ps.aggregate(Largest(), "value")),
        "asof": source.asof_join(other, on="key"),
        "async": source.map_async(negated, schema=pair),
        "batches": source.map_batches(lambda batch: batch, schema=FIELDS),
        "filter": source.filter(col("value") > 10).filter(lambda value: value % 2 == 0),
        "first": keyed.deduplicate(),
        "interval": source.interval_join(other, on="key", between=("-3s", "3s")),
        "join": source.join(other.key_by("key").agg(m=ps.max_("other")), on="key"),
        "window join": source.join(other, on="key", window=ps.tumbling("6s")),
        "lookup": source.lookup(ps.lookup_table([{"key": "a", "name": "A"}]), on="key", how="left"),
        "over": keyed.over(3).agg(total=ps.sum_("value")),
        "process": keyed.process(Counting(), schema=pair),
        "project": source.with_columns(text=col("key").str.upper(), double=col("value") * 2),
        "reduce": keyed.window(ps.tumbling("20s")).reduce(lambda older, newer: newer),
        "row": source.flat_map(lambda row: [row, row]),
        "split": source.split(small=col("value") < 10)["small"],
        "time": source.with_columns(later="at").event_time("later"),
        "top": keyed.top(2, by=col("value").desc(), rank="place"),
        "union": source.union(source),
    }
    for name, stream in found.items():
        stream.write_parquet(where / name, mode="changelog" if stream.updating else "append")
    parted = ps.read_iterable(rows, schema=FIELDS, time="at", job=job)
    parted.filter(col("value") > 10).write_parquet(where / "part").with_min_accuracy(0.5)
    parted.filter(col("value") > 5).write_parquet(where / "whole")
