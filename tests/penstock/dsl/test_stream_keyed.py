"""Keyed streams of the DSL, run on a few rows: aggregates, windows, reduce and joins."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import penstock as ps
from penstock import col
from tests.penstock.front_door import ORDERS, SCHEMA, Row, noon, ordered, orders, rows


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_key_by_columns_and_expressions() -> None:
    stream = orders().key_by("item", dear=col("price") >= 4).agg(n=ps.count())
    assert stream.schema.names == ["item", "dear", "n"]
    assert rows(stream) == ordered(
        [
            {"item": "ink", "dear": True, "n": 1},
            {"item": "ink", "dear": None, "n": 1},
            {"item": "pen", "dear": False, "n": 1},
            {"item": "pen", "dear": True, "n": 2},
            {"item": None, "dear": False, "n": 1},
        ]
    )


def test_agg_without_a_key() -> None:
    stream = orders().agg(n=ps.count(), prices=ps.count("price"), total=ps.sum_("price"), mean=ps.mean("price"))
    assert stream.updating
    assert rows(stream) == [{"n": 6, "prices": 5, "total": 22, "mean": 4.4}]


def test_aggregates_take_expressions_and_filters() -> None:
    stream = (
        orders()
        .key_by("item")
        .agg(
            dear=ps.count().filter(col("price") > 4),
            most=ps.max_(col("price") * 10),
            last=ps.last("price"),
            dearest=ps.arg_max("at", "price"),
        )
    )
    assert {"item": "pen", "dear": 1, "most": 50, "last": 4, "dearest": noon(4)} in rows(stream)


def test_no_aggregates_give_the_distinct_keys() -> None:
    assert rows(orders().key_by("item").agg()) == [{"item": "ink"}, {"item": "pen"}, {"item": None}]


def starts(stream: ps.Stream) -> list[tuple[str, datetime, datetime, int]]:
    return [(row["item"], row["window_start"], row["window_end"], row["n"]) for row in rows(stream)]


@pytest.mark.parametrize(
    ("window", "pens"),
    [
        (ps.tumbling("10s"), [(0, 10, 2), (20, 30, 1)]),
        (ps.tumbling("10s", offset="3s"), [(-7, 3, 1), (3, 13, 1), (23, 33, 1)]),
        (ps.hopping("10s", "5s"), [(-5, 5, 2), (0, 10, 2), (20, 30, 1), (25, 35, 1)]),
        (ps.sliding("10s", "5s"), [(-5, 5, 2), (0, 10, 2), (20, 30, 1), (25, 35, 1)]),
        (ps.session("4s"), [(0, 8, 2), (25, 29, 1)]),
        (ps.count_window(2), [(0, 4, 2), (25, 25, 1)]),
    ],
)
def test_windows(window: Any, pens: list[tuple[int, int, int]]) -> None:
    found = starts(orders().key_by("item").window(window).agg(n=ps.count()))
    seconds = [
        (round((start - noon(0)).total_seconds()), int((end - noon(0)).total_seconds()), n)
        for item, start, end, n in found
        if item == "pen"
    ]
    assert sorted(seconds) == pens


def test_a_global_window_answers_once_at_the_end() -> None:
    stream = orders().key_by("item").window(ps.global_window()).agg(n=ps.count())
    assert not stream.updating
    assert rows(stream) == [{"item": "ink", "n": 2}, {"item": "pen", "n": 3}, {"item": None, "n": 1}]


class Shifts(ps.WindowAssigner):
    """A window of 20 seconds that starts 10 seconds before its row's ten seconds."""

    def assign(self, times_us: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        begin = times_us // 10_000_000 * 10_000_000
        return np.arange(len(times_us)), begin - 10_000_000, begin + 10_000_000


def test_custom_windows() -> None:
    found = starts(orders().key_by("item").window(Shifts()).agg(n=ps.count()))
    assert ("pen", noon(-10), noon(10), 2) in found
    assert ("pen", noon(10), noon(30), 1) in found


def test_windows_that_update_are_changelogs() -> None:
    stream = orders().key_by("item").window(ps.tumbling("10s")).emit("updates").agg(n=ps.count())
    assert stream.updating
    assert ("pen", noon(0), noon(10), 2) in starts(stream)


def test_a_final_windows_result_has_event_time() -> None:
    counts = orders().key_by("item").window(ps.tumbling("10s")).agg(n=ps.count())
    found = rows(counts.window(ps.tumbling("20s")).agg(keys=ps.count(), most=ps.max_("n")))
    assert [(row["window_start"], row["keys"], row["most"]) for row in found] == [(noon(0), 4, 2), (noon(20), 1, 1)]


def test_allowed_lateness_takes_rows_after_the_end() -> None:
    late = {"item": "pen", "price": 1, "at": noon(2)}
    data = [*ORDERS[:5], late]
    keyed = ps.read_memory(data, schema=SCHEMA, time="at", job=ps.Job()).key_by("item").window(ps.tumbling("10s"))
    found = starts(keyed.allowed_lateness("5s").agg(n=ps.count()))
    assert ("pen", noon(0), noon(10), 3) in found


def test_reduce_folds_in_event_time_order() -> None:
    joined = [*reversed(ORDERS)]
    stream = ps.read_memory(joined, schema=SCHEMA, time="at", watermark="1m", job=ps.Job())

    def add(one: Row, other: Row) -> Row:
        return {**other, "price": (one["price"] or 0) * 10 + (other["price"] or 0)}

    found = rows(stream.key_by("item").reduce(add).select("item", "price"))
    assert found == [{"item": "ink", "price": 80}, {"item": "pen", "price": 354}, {"item": None, "price": 2}]


def names_and_stock(job: ps.Job) -> ps.Stream:
    stock = [
        {"item": "pen", "price": 70, "at": noon(2)},
        {"item": "cap", "price": 80, "at": noon(3)},
        {"item": None, "price": 90, "at": noon(4)},
    ]
    return ps.read_memory(stock, schema=SCHEMA, time="at", job=job)


def test_join_names_columns_of_both_sides() -> None:
    job = ps.Job()
    joined = orders(job).join(names_and_stock(job), on="item")
    assert joined.schema.names == ["item", "price", "at", "price_right", "at_right"]
    assert [(row["item"], row["price"], row["price_right"]) for row in rows(joined)] == [
        ("pen", 3, 70),
        ("pen", 4, 70),
        ("pen", 5, 70),
    ]


def test_join_by_expressions_with_a_suffix() -> None:
    job = ps.Job()
    joined = orders(job).join(
        names_and_stock(job), left_on=col("price") * 10, right_on=[col("price") + 10], suffix="_there"
    )
    assert joined.schema.names == ["item", "price", "at", "item_there", "price_there", "at_there"]
    assert [(row["price"], row["price_there"]) for row in rows(joined)] == [(8, 70)]


def test_join_within_a_window() -> None:
    job = ps.Job()
    joined = orders(job).join(names_and_stock(job), on="item", window=ps.tumbling("10s"))
    assert joined.schema.names[-2:] == ["window_start", "window_end"]
    assert [(row["price"], row["window_start"]) for row in rows(joined)] == [(3, noon(0)), (5, noon(0))]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_join_may_have_one_side_broadcast(parallelism: int) -> None:
    job = ps.Job()
    joined = orders(job).rebalance().join(names_and_stock(job).broadcast(), on="item")
    assert [row["price"] for row in rows(joined, parallelism=parallelism, batch_rows=1)] == [3, 4, 5]


class Longest(ps.UserAggregate):
    """The length of the longest text."""

    state: Mapping[str, Any] = {"longest": np.int64}
    result_type = pa.int64()

    def update(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64], values: Sequence[pa.Array]) -> None:
        lengths = pa.compute.utf8_length(values[0]).fill_null(0).to_numpy(zero_copy_only=False)
        np.maximum.at(state["longest"], groups, lengths)

    def merge(
        self,
        state: Mapping[str, NDArray[Any]],
        groups: NDArray[np.int64],
        other: Mapping[str, NDArray[Any]],
        other_groups: NDArray[np.int64],
    ) -> None:
        np.maximum.at(state["longest"], groups, other["longest"][other_groups])

    def result(self, state: Mapping[str, NDArray[Any]], groups: NDArray[np.int64]) -> Any:
        return state["longest"][groups]


@pytest.mark.parametrize("window", [None, ps.tumbling("1m"), ps.session("20s")])
def test_an_aggregate_of_the_users(window: Any) -> None:
    keyed = orders().with_columns(text=col("item").fill_null("nothing")).key_by(odd=col("price") % 2)
    stream = keyed.agg(longest=ps.aggregate(Longest(), "text"))
    if window is not None:
        stream = keyed.window(window).agg(longest=ps.aggregate(Longest(), "text"))
    assert [(row["odd"], row["longest"]) for row in rows(stream)] == [(0, 7), (1, 3), (None, 3)]
