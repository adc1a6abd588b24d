"""Every verb of the DSL, and the sentence that says what is wrong with one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import penstock as ps
from penstock import col
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SinkSpec
from tests.penstock.front_door import ORDERS, SCHEMA, Row, line, noon, ordered, orders, rows


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@dataclass
class Order:
    item: str | None
    price: int | None
    at: datetime


@dataclass
class Doubled:
    item: str | None
    twice: float


Attempt = Callable[[], object]

PEN_PRICES: list[Row] = [{"price": 3}, {"price": 4}, {"price": 5}]


def test_filter_by_expression_drops_null() -> None:
    found = rows(orders().filter(col("price") > 3).select("price"))
    assert found == [{"price": 4}, {"price": 5}, {"price": 8}]


def test_filter_by_a_function_of_the_row() -> None:
    assert rows(orders().filter(lambda row: row["item"] == "pen").select("price")) == PEN_PRICES


def test_filter_by_a_function_of_columns() -> None:
    assert rows(orders().filter(lambda item: item == "pen").select("price")) == PEN_PRICES


def test_map_takes_and_returns_dicts() -> None:
    stream = orders().filter(col("price").is_not_null())
    found = rows(stream.map(lambda row: {"double": row["price"] * 2}, {"double": int}))
    assert [row["double"] for row in found] == [4, 6, 8, 10, 16]


def test_map_returns_a_dataclass_named_by_its_annotation() -> None:
    def double(item: str, price: int | None) -> Doubled:
        return Doubled(item, 2.0 * (price or 0))

    stream = orders().map(double)
    assert stream.schema == pa.schema({"item": pa.string(), "twice": pa.float64()})
    assert {"item": "ink", "twice": 16.0} in rows(stream)


def test_map_of_columns_into_one_column_may_return_a_plain_value() -> None:
    found = rows(orders().map(lambda price: (price or 0) + 1, {"next": pa.int32()}))
    assert [row["next"] for row in found] == [1, 3, 4, 5, 6, 9]


def test_map_without_a_schema_keeps_the_streams_own() -> None:
    stream = orders().map(lambda row: {**row, "price": 1})
    assert stream.schema == SCHEMA
    assert {row["price"] for row in rows(stream)} == {1}


def test_a_parameter_with_a_default_is_no_column() -> None:
    found = rows(orders().filter(lambda item, wanted="ink": item == wanted).select("price"))
    assert found == [{"price": 8}, {"price": None}]


def test_flat_map_returns_any_number_of_rows() -> None:
    def copies(item: str | None, price: int | None) -> Iterator[Row]:
        for number in range((price or 0) // 4):
            yield {"item": item, "number": number}

    found = rows(orders().flat_map(copies, {"item": str, "number": int}))
    assert found == ordered(
        [
            {"item": "ink", "number": 0},
            {"item": "ink", "number": 1},
            {"item": "pen", "number": 0},
            {"item": "pen", "number": 0},
        ]
    )


def test_flat_map_takes_its_schema_from_a_list_of_dataclasses() -> None:
    def both(item: str) -> list[Doubled]:
        return [Doubled(item, 1.0), Doubled(item, 2.0)]

    stream = orders().flat_map(both)
    assert stream.schema.names == ["item", "twice"]
    assert len(rows(stream)) == 2 * len(ORDERS)


def add_one(batch: Any) -> Any:
    if isinstance(batch, pl.DataFrame):
        return batch.with_columns(pl.col("price") + 1)
    if isinstance(batch, dict):
        return {**batch, "price": batch["price"] + 1}
    return batch.set_column(1, "price", pa.compute.add(batch.column("price"), 1))


@pytest.mark.parametrize("kind", ["pyarrow", "polars", "numpy"])
def test_map_batches_in_every_format(kind: str) -> None:
    whole = orders().filter(col("price").is_not_null())
    found = rows(whole.map_batches(add_one, format=kind))
    assert sorted(row["price"] for row in found) == [3, 4, 5, 6, 9]
    assert {row["item"] for row in found} == {"pen", "ink", None}


def test_map_batches_in_pandas() -> None:
    pytest.importorskip("pandas")
    found = rows(orders().map_batches(lambda frame: frame[frame["item"] == "pen"], format="pandas").select("price"))
    assert found == PEN_PRICES


def test_map_batches_with_another_schema_may_change_the_number_of_rows() -> None:
    stream = orders().map_batches(lambda batch: {"rows": [batch.num_rows]}, {"rows": int})
    assert rows(stream) == [{"rows": 6}]


def test_select_computes_and_renames() -> None:
    stream = orders().select("item", (col("price") * 2).alias("twice"), third=col("price") / 3, same="price")
    assert stream.schema.names == ["item", "twice", "third", "same"]
    assert {"item": "pen", "twice": 6, "third": 1.0, "same": 3} in rows(stream)


def test_with_columns_adds_and_replaces_in_place() -> None:
    stream = orders().with_columns(price=col("price") + 1, big=col("price") > 4)
    assert stream.schema.names == ["item", "price", "at", "big"]
    assert {"item": "ink", "price": 9, "at": noon(1), "big": True} in rows(stream)


def test_drop_and_rename() -> None:
    stream = orders().drop("at").rename({"item": "what"}, price="cost")
    assert stream.schema.names == ["what", "cost"]
    assert {"what": "pen", "cost": 5} in rows(stream)


def test_rename_may_swap_names() -> None:
    assert orders().rename(item="price", price="item").schema.names == ["price", "item", "at"]


def test_renamed_event_time_stays_event_time() -> None:
    stream = orders().rename(at="when").window(ps.tumbling("10s")).agg(n=ps.count())
    assert [row["n"] for row in rows(stream)] == [3, 2, 1]


def test_union_merges_streams_of_a_job() -> None:
    job = ps.Job()
    first, second = orders(job), orders(job)
    assert len(rows(first.union(second, first.filter(col("price") > 4)))) == 14


def test_split_sends_every_row_to_one_output() -> None:
    job = ps.Job()
    parts = orders(job).split(cheap=col("price") < 4, pens=col("item") == "pen")
    assert list(parts) == ["rest", "cheap", "pens"]
    results = {name: part.select("price").collect() for name, part in parts.items()}
    job.run("test")
    assert {name: ordered(result.rows()) for name, result in results.items()} == {
        "cheap": [{"price": 2}, {"price": 3}],
        "pens": [{"price": 4}, {"price": 5}],
        "rest": [{"price": 8}, {"price": None}],
    }


def test_late_rows_leave_through_a_side_output() -> None:
    job = ps.Job()
    late = {"item": "pen", "price": 1, "at": noon(2)}
    stream = ps.read_memory([*ORDERS, late], schema=SCHEMA, time="at", job=job)
    counts = stream.window(ps.tumbling("10s")).agg(n=ps.count())
    side = counts.side_output("late").collect()
    found = rows(counts, batch_rows=1)
    assert [row["n"] for row in found] == [3, 2, 1]
    assert side.rows() == [late]


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


def test_broadcast_sends_every_row_to_every_instance() -> None:
    stream = orders().broadcast().filter(col("price") > 4).parallelism(3)
    assert sorted(row["price"] for row in rows(stream)) == [5, 5, 5, 8, 8, 8]


def test_rebalance_deals_rows_out() -> None:
    job = ps.Job()
    stream = orders(job).rebalance().filter(col("price").is_not_null()).parallelism(2)
    assert len(rows(stream, batch_rows=1)) == 5
    assert [task.parallelism for task in job.plan().tasks] == [1, 2]


def test_names_are_kept_in_the_plan() -> None:
    job = ps.Job()
    orders(job).name("orders").filter(col("price") > 3).name("dear").collect().name("out")
    metrics = job.run("test")
    assert line(metrics, "dear") == {"rows_in": 6, "passed": 3, "filtered": 3, "rows_out": 3}


def sinks_of(plan: ExecutionGraph) -> dict[str, SinkSpec]:
    return {node.name: node.spec for node in plan.graph.operators.values() if isinstance(node.spec, SinkSpec)}


def test_accuracy_and_priority_of_a_query_are_carried_in_the_plan() -> None:
    job = ps.Job()
    orders(job).write_black_hole().with_min_accuracy(0.7).with_priority(5).name("shed")
    orders(job).collect().name("whole")
    sinks = sinks_of(job.plan())
    assert (sinks["shed"].min_accuracy, sinks["shed"].priority) == (0.7, 5)
    assert (sinks["whole"].min_accuracy, sinks["whole"].priority) == (1.0, 0)


def test_a_sink_defined_again_replaces_the_old_one() -> None:
    job = ps.Job()
    old = orders(job).collect().name("result")
    new = orders(job).filter(col("price") > 3).collect().name("result")
    job.run("test")
    assert len(new.rows()) == 3
    assert list(sinks_of(job.plan())) == ["result"]
    with pytest.raises(ps.PlanError, match="run the job first"):
        old.rows()


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


@pytest.mark.parametrize(
    "schema",
    [
        Order,
        SCHEMA,
        {"item": str, "price": "int64", "at": datetime},
        {"item": pa.string(), "price": int, "at": datetime},
    ],
)
def test_schemas(schema: Any) -> None:
    stream = ps.read_iterable(lambda: iter(ORDERS), schema=schema, time="at", job=ps.Job())
    assert stream.schema.names == ["item", "price", "at"]
    found = rows(stream.key_by("item").agg(n=ps.count()))
    assert {"item": "pen", "n": 3} in found


@pytest.mark.parametrize(
    "made",
    [
        lambda table: table,
        lambda table: table.to_reader(),
        lambda table: table.to_batches(max_chunksize=2),
        pl.DataFrame,
        duckdb.from_arrow,
        lambda table: table.to_pylist(),
    ],
)
def test_arrow_capsules_go_in(made: Callable[[pa.Table], Any]) -> None:
    data = made(pa.Table.from_pylist(ORDERS, schema=SCHEMA))
    stream = ps.read_memory(data, time="at", job=ps.Job())
    assert rows(stream.key_by("item").agg(total=ps.sum_("price"))) == [
        {"item": "ink", "total": 8},
        {"item": "pen", "total": 12},
        {"item": None, "total": 2},
    ]


def test_arrow_capsules_come_out() -> None:
    result = orders().key_by("item").agg(total=ps.sum_("price")).collect()
    result.job.run("test")
    assert pl.DataFrame(result).sort("item", nulls_last=True)["total"].to_list() == [8, 12, 2]
    summed = duckdb.sql("SELECT sum(total) FROM result")
    assert summed is not None
    assert summed.fetchall() == [(22,)]
    assert pa.table(result).num_rows == 3


def here(error: pytest.ExceptionInfo[ps.UserError], *parts: str) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_an_unknown_column_is_named_with_its_place_and_close_matches() -> None:
    with pytest.raises(ps.ExpressionError) as error:
        orders().name("orders").filter(col("prise") > 3)
    here(error, "'prise'", "did you mean 'price'?", "test_stream.py:", "'filter-1'")
    with pytest.raises(ps.ExpressionError) as error:
        orders().key_by("items").agg(n=ps.count())
    here(error, "'items'", "did you mean 'item'?", "test_stream.py:")
    with pytest.raises(ps.ExpressionError) as error:
        orders().agg(n=ps.sum_("zzz"))
    here(error, "'zzz'", "item, price, at")


def test_names_given_as_text_are_checked_as_well() -> None:
    wrongs: list[Attempt] = [
        lambda: orders().drop("prise"),
        lambda: orders().rename(prise="cost"),
        lambda: ps.read_memory(ORDERS, time="prise", job=ps.Job()),
        lambda: orders().write_black_hole(mode="upsert", key="prise"),
    ]
    for wrong in wrongs:
        with pytest.raises(ps.SchemaError) as error:
            wrong()
        here(error, "'prise'", "did you mean 'price'?", "test_stream.py:")


def test_an_ill_typed_expression() -> None:
    with pytest.raises(ps.ExpressionError) as error:
        orders().select(x=col("item") + 1)
    here(error, "int64 1", "string 'item'", "test_stream.py:", "'select-1'")
    with pytest.raises(ps.ExpressionError) as error:
        orders().filter(col("price") + 1)
    here(error, "'filter-1'", "condition", "int64")


@pytest.mark.parametrize("at", ["price", "item"])
def test_event_time_is_a_timestamp(at: str) -> None:
    with pytest.raises(ps.SchemaError) as error:
        ps.read_memory(ORDERS, time=at, job=ps.Job())
    here(error, f"time='{at}'", "must be a timestamp", "test_stream.py:")


def test_a_window_needs_event_time() -> None:
    with pytest.raises(ps.PlanError, match=r"needs event time.*time=") as error:
        orders(time=None).window(ps.tumbling("1s")).agg(n=ps.count())
    here(error, "'agg-1'")
    with pytest.raises(ps.PlanError, match="needs event time"):
        orders().with_columns(at=col("at").dt.truncate("minute")).window(ps.tumbling("1s")).agg(n=ps.count())


def test_an_append_sink_refuses_an_updating_stream() -> None:
    with pytest.raises(ps.PlanError, match=r"mode='changelog'.*mode='upsert'"):
        orders().agg(n=ps.count()).write_parquet("result.parquet")
    with pytest.raises(ps.PlanError, match="needs key"):
        orders().agg(n=ps.count()).write_parquet("result.parquet", mode="upsert")
    with pytest.raises(ps.PlanError, match="append, changelog or upsert"):
        orders().write_parquet("result.parquet", mode="apend")


def test_columns_need_names_of_their_own() -> None:
    wrongs: list[Attempt] = [
        lambda: orders().select("item", "item"),
        lambda: orders().rename(item="price"),
        lambda: orders().key_by("item").agg(item=ps.count()),
        lambda: orders().key_by(window_end="item").window(ps.tumbling("1s")).agg(n=ps.count()),
    ]
    for wrong in wrongs:
        with pytest.raises(ps.PlanError, match=r"twice|two columns called|is a column of windowed results"):
            wrong()


def test_operators_need_names_of_their_own() -> None:
    job = ps.Job()
    orders(job).name("same").filter(col("price") > 3).name("same").collect()
    with pytest.raises(
        ps.PlanError, match=r"two operators are named 'same' \(at .*\.py:\d+ and .*test_stream.py:\d+\)"
    ):
        job.run("test")


def test_streams_of_two_jobs_do_not_mix() -> None:
    mixes: list[Attempt] = [lambda: orders().union(orders()), lambda: orders().join(orders(), on="item")]
    for mix in mixes:
        with pytest.raises(ps.PlanError, match="streams of two jobs; read both in the same Job"):
            mix()


def test_a_union_needs_equal_columns() -> None:
    job = ps.Job()
    with pytest.raises(ps.PlanError, match=r"different columns: \(item string.*select the same columns"):
        orders(job).union(orders(job).drop("price"))
    with pytest.raises(ps.PlanError, match="updating stream with an append-only"):
        orders(job).key_by("item").agg().union(orders(job).select("item"))


def test_joins_say_what_they_need() -> None:
    job = ps.Job()
    left, right = orders(job), orders(job)
    with pytest.raises(ps.PlanError, match="keys in pairs"):
        left.join(right)
    with pytest.raises(ps.PlanError, match="not both"):
        left.join(right, on="item", left_on="item")
    with pytest.raises(ps.PlanError, match="two columns 'price'; choose another suffix"):
        left.join(right, on="item", suffix="")
    with pytest.raises(ps.PlanError, match="append-only"):
        left.key_by("item").agg(n=ps.count()).join(right, on="item")
    with pytest.raises(ps.PlanError, match="cast one of them"):
        left.join(right, left_on="item", right_on="price")
    with pytest.raises(ps.PlanError, match="session"):
        left.join(right, on="item", window=ps.session("1s"))


def test_an_exchange_must_not_part_a_key() -> None:
    job = ps.Job()
    orders(job).rebalance().key_by("item").agg(n=ps.count()).collect()
    with pytest.raises(ps.PlanError, match=r"'agg-1' at .*test_stream.py:\d+ .*rebalance\(\) cannot feed it"):
        job.run("test")
    job = ps.Job()
    orders(job).broadcast().join(orders(job).broadcast(), on="item").collect()
    with pytest.raises(ps.PlanError, match=r"broadcast\(\) one side only"):
        job.run("test")


def test_what_has_no_key_has_one_instance() -> None:
    stream = orders().agg(n=ps.count()).parallelism(3)
    with pytest.raises(ps.PlanError, match=r"'agg-1' at .* has no key, so it runs in one instance, not 3"):
        rows(stream)
    assert rows(orders().agg(n=ps.count()).parallelism(1), parallelism=3) == [{"n": 6}]


@pytest.mark.parametrize("instances", [0, -1, 1.5, True, "2"])
def test_parallelism_is_a_whole_number(instances: Any) -> None:
    with pytest.raises(ps.OptionError, match="parallelism must be a whole number of at least 1"):
        orders().parallelism(instances)
    with pytest.raises(ps.OptionError, match="parallelism must be a whole number of at least 1"):
        orders().collect().parallelism(instances)


def nothing() -> Row:
    return {}


def test_verbs_check_their_arguments() -> None:
    stream = orders()
    not_an_aggregate: Any = "count"
    wrongs: list[tuple[Attempt, str]] = [
        (lambda: stream.map(lambda a, b: {}), r"takes \(a, b\).*item, price, at"),
        (lambda: stream.map(lambda *, item: {}), "must take the row as one dict"),
        (lambda: stream.map(nothing), r"'nothing' takes \(\); it must take the row as one dict"),
        (lambda: stream.map(lambda row: row, on_error="explode"), "dead_letter, skip, fail"),
        (lambda: stream.map(lambda row: row, schema=3), "a schema is"),
        (lambda: stream.drop("item", "price", "at"), "leaves no column"),
        (lambda: stream.select(), "leaves no column"),
        (lambda: stream.key_by(), "at least one column"),
        (lambda: stream.key_by("item").agg(n=not_an_aggregate), "needs an aggregate such as count"),
        (lambda: stream.agg(), "nothing to compute"),
        (lambda: stream.split(rest=col("price") > 1), "'rest'"),
        (lambda: stream.side_output("late"), "it has main"),
        (lambda: stream.window(ps.tumbling("10 parsecs")), "must be a duration"),
        (lambda: stream.window(ps.tumbling(0)), "above zero"),
        (lambda: stream.window(ps.hopping("5s", "10s")), "hop must not exceed its size"),
        (lambda: stream.window(ps.tumbling("1s", clock="wall")), "'event' or 'processing'"),
        (lambda: stream.window(ps.tumbling("1s")).emit("sometimes"), "'final', 'updates'"),
        (lambda: stream.collect().with_min_accuracy(1.5), "between 0 and 1"),
        (lambda: ps.approx_quantile("price", 2), "between 0 and 1"),
        (lambda: orders(watermark="-1s"), "must be a duration|must not be negative"),
    ]
    for wrong, sentence in wrongs:
        with pytest.raises(ps.UserError, match=sentence):
            wrong()


def test_a_batch_format_that_is_unknown() -> None:
    with pytest.raises(ps.PlanError, match="pyarrow, polars, pandas, numpy, not 'cudf'"):
        rows(orders().map_batches(lambda batch: batch, format="cudf"))
