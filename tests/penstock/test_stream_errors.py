"""The sentence that says what is wrong with a pipeline: what, where, and what to write instead."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import col
from tests.penstock.front_door import ORDERS, Row, orders, rows

Attempt = Callable[[], object]


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def here(error: pytest.ExceptionInfo[ps.UserError], *parts: str) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_an_unknown_column_is_named_with_its_place_and_close_matches() -> None:
    with pytest.raises(ps.ExpressionError) as error:
        orders().name("orders").filter(col("prise") > 3)
    here(error, "'prise'", "did you mean 'price'?", "test_stream_errors.py:", "'filter-1'")
    with pytest.raises(ps.ExpressionError) as error:
        orders().key_by("items").agg(n=ps.count())
    here(error, "'items'", "did you mean 'item'?", "test_stream_errors.py:")
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
        here(error, "'prise'", "did you mean 'price'?", "test_stream_errors.py:")


def test_an_ill_typed_expression() -> None:
    with pytest.raises(ps.ExpressionError) as error:
        orders().select(x=col("item") + 1)
    here(error, "int64 1", "string 'item'", "test_stream_errors.py:", "'select-1'")
    with pytest.raises(ps.ExpressionError) as error:
        orders().filter(col("price") + 1)
    here(error, "'filter-1'", "condition", "int64")


@pytest.mark.parametrize("at", ["price", "item"])
def test_event_time_is_a_timestamp(at: str) -> None:
    with pytest.raises(ps.SchemaError) as error:
        ps.read_memory(ORDERS, time=at, job=ps.Job())
    here(error, f"time='{at}'", "must be a timestamp", "test_stream_errors.py:")


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
        ps.PlanError, match=r"two operators are named 'same' \(at .*\.py:\d+ and .*test_stream_errors.py:\d+\)"
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
    with pytest.raises(ps.PlanError, match=r"'agg-1' at .*test_stream_errors.py:\d+ .*rebalance\(\) cannot feed it"):
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
