"""What identifies a row of a sink, read off the plan."""

import datetime
from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock as ps
from penstock import col, count, count_window, session, tumbling
from penstock.dsl.stream import Stream
from penstock.model.job_graph import SinkSpec
from penstock.replay.output_keys import OutputKeys, output_keys

ROWS = [{"at": datetime.datetime(2024, 1, 1), "shop": "a", "item": 1}]
SCHEMA = {"at": pa.timestamp("us"), "shop": str, "item": int}
WINDOW = ("window_start", "window_end")


def windows(rows: Stream) -> Stream:
    return rows.key_by("shop", "item").window(tumbling("1m")).agg(n=count())


CASES: dict[str, tuple[Callable[[Stream], Stream], OutputKeys]] = {
    "windows": (windows, OutputKeys(("shop", "item", *WINDOW), *WINDOW, time="window_end")),
    "filtered": (
        lambda rows: windows(rows).filter(col("n") > 1),
        OutputKeys(("shop", "item", *WINDOW), *WINDOW, time="window_end"),
    ),
    "renamed": (
        lambda rows: windows(rows).rename({"shop": "place", "window_start": "begin", "window_end": "until"}),
        OutputKeys(("place", "item", "begin", "until"), "begin", "until", time="until"),
    ),
    "a key is dropped": (lambda rows: windows(rows).drop("item"), OutputKeys(time="window_end")),
    "a key is computed anew": (
        lambda rows: windows(rows).with_columns(shop=col("shop").str.concat("!")),
        OutputKeys(time="window_end"),
    ),
    "sessions": (
        lambda rows: rows.key_by("shop").window(session("1m")).agg(n=count()),
        OutputKeys(("shop", *WINDOW), *WINDOW, time="window_end"),
    ),
    "a count of rows": (
        lambda rows: rows.key_by("shop").window(count_window(2)).agg(n=count()),
        OutputKeys(("shop",), time="window_end"),
    ),
    "no window": (lambda rows: rows.key_by("shop").agg(n=count()), OutputKeys(("shop",))),
    "rows": (lambda rows: rows.filter(col("item") > 0), OutputKeys(time="at")),
    "a union": (lambda rows: windows(rows).union(windows(rows)), OutputKeys(time="window_end")),
    "ranks": (
        lambda rows: rows.key_by("shop").top(3, by=col("item").desc(), rank="rank"),
        OutputKeys(("shop", "rank")),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_plan_says_what_a_row_is_about(name: str) -> None:
    build, expected = CASES[name]
    job = ps.Job()
    build(ps.read_memory(ROWS, schema=SCHEMA, time="at", job=job)).collect()
    (sink,) = [node for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec)]
    assert output_keys(job.graph, sink) == expected
