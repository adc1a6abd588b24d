"""The verbs of the DSL, run on a few rows: row by row, names and exchanges, schemas and Arrow capsules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

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
    found = rows(orders().map_batches(lambda frame: frame[frame["item"] == "pen"], format="pandas").select("price"))
    assert found == PEN_PRICES


@pytest.mark.fixed_settings("parallelism", "batch_rows")
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


@pytest.mark.fixed_settings("parallelism")
def test_late_rows_leave_through_a_side_output() -> None:
    job = ps.Job()
    late = {"item": "pen", "price": 1, "at": noon(2)}
    stream = ps.read_memory([*ORDERS, late], schema=SCHEMA, time="at", job=job)
    counts = stream.window(ps.tumbling("10s")).agg(n=ps.count())
    side = counts.side_output("late").collect()
    found = rows(counts, batch_rows=1)
    assert [row["n"] for row in found] == [3, 2, 1]
    assert side.rows() == [late]


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


def test_the_contract_of_a_query_is_carried_in_the_plan() -> None:
    job = ps.Job()
    orders(job).write_black_hole().with_min_accuracy(0.7).with_max_lag("10s").name("shed")
    orders(job).write_black_hole().with_min_accuracy(0.7, columns=False).name("bare")
    orders(job).collect().name("whole")
    sinks = sinks_of(job.plan())
    assert (sinks["shed"].under_contract, sinks["shed"].columns, sinks["shed"].max_lag_us) == (True, True, 10_000_000)
    assert (sinks["bare"].under_contract, sinks["bare"].columns, sinks["bare"].max_lag_us) == (True, False, None)
    assert not sinks["whole"].under_contract


def test_a_sink_defined_again_replaces_the_old_one() -> None:
    job = ps.Job()
    old = orders(job).collect().name("result")
    new = orders(job).filter(col("price") > 3).collect().name("result")
    job.run("test")
    assert len(new.rows()) == 3
    assert list(sinks_of(job.plan())) == ["result"]
    with pytest.raises(ps.PlanError, match="run the job first"):
        old.rows()


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


def test_streams_of_the_same_columns_are_joined_by_the_dozen() -> None:
    job = ps.Job()
    streams = [ps.read_memory([{"k": 1, "v": number}], job=job) for number in range(4)]
    assert rows(ps.join(*streams, on="k")) == [{"k": 1, "v": 0, "v_right": 1, "v_right2": 2, "v_right3": 3}]
