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
        left.key_by("item").agg(n=ps.count()).join(right, on="item", window=ps.tumbling("1s"))
    with pytest.raises(ps.OptionError, match="inner, left, right, full, not 'outer'"):
        left.join(right, on="item", how="outer")
    with pytest.raises(ps.OptionError, match="begins after it ends"):
        left.interval_join(right, on="item", between=("5s", "-5s"))
    with pytest.raises(ps.OptionError, match="lower bound of between must be a duration such as '10s', not None"):
        left.interval_join(right, on="item", between=(None, "5s"))  # type: ignore[arg-type]
    with pytest.raises(ps.PlanError, match=r"join\(\) matches columns and expressions, not 3"):
        left.join(right, on=3)  # type: ignore[arg-type]
    with pytest.raises(ps.PlanError, match=r"""lookup_table\("codes.csv"\)"""):
        left.lookup(right, on="item")  # type: ignore[arg-type]
    with pytest.raises(ps.PlanError, match="cast one of them"):
        left.join(right, left_on="item", right_on="price")
    with pytest.raises(ps.PlanError, match="session"):
        left.join(right, on="item", window=ps.session("1s"))


def test_a_column_must_not_be_named_like_those_of_operators() -> None:
    with pytest.raises(ps.SchemaError, match=r"column name '\$at' begins with '\$', which is reserved"):
        ps.read_memory([{"$at": 1}], job=ps.Job())
    with pytest.raises(ps.SchemaError, match=r"'\$accuracy' begins with"):
        orders().rename(item="$accuracy")
    with pytest.raises(ps.SchemaError, match=r"'\$key0' begins with"):
        orders().rename(item="$key0")


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
        (lambda: stream.collect().with_max_lag("soon"), "max_lag must be a duration such as '10s'"),
        (lambda: stream.collect().with_max_lag(0), r"max_lag must be above zero, .*with_max_lag\('10s'\)"),
        (lambda: ps.approx_quantile("price", 2), "between 0 and 1"),
        (lambda: orders(watermark="-1s"), "must be a duration|must not be negative"),
    ]
    for wrong, sentence in wrongs:
        with pytest.raises(ps.UserError, match=sentence):
            wrong()


def test_a_batch_format_that_is_unknown() -> None:
    with pytest.raises(ps.PlanError, match="pyarrow, polars, pandas, numpy, not 'cudf'"):
        rows(orders().map_batches(lambda batch: batch, format="cudf"))


def test_arguments_of_the_wrong_type_say_what_to_write() -> None:
    stream = orders()
    wrong: Any = 5
    text: Any = "price > 3"
    true: Any = True
    size: Any = "10s"
    names: Any = ["item", "price"]
    function: Any = ps.tumbling
    grouped: Any = stream.key_by("item")
    wrongs: list[tuple[Attempt, str, str]] = [
        (
            lambda: stream.filter(text),
            "filter() takes an expression or a function of the row, not 'price > 3'",
            'ps.sql("price > 3")',
        ),
        (lambda: stream.filter(true), "not True", 'col("price") > 3'),
        (lambda: stream.split(dear=text), "split() takes expressions, not 'price > 3'", 'ps.sql("price > 3")'),
        (lambda: stream.map(wrong), "map() takes a function, not 5", "map(lambda row:"),
        (lambda: stream.flat_map(wrong), "flat_map() takes a function, not 5", "flat_map(lambda row:"),
        (lambda: stream.map_batches(wrong), "map_batches() takes a function, not 5", "map_batches(lambda batch:"),
        (lambda: stream.for_each_batch(wrong), "for_each_batch() takes a function, not 5", "for_each_batch(print)"),
        (lambda: stream.key_by("item").reduce(wrong), "reduce() takes a function, not 5", "reduce(lambda"),
        (lambda: stream.window(size), "window() takes a window, not '10s'", 'write tumbling("10s")'),
        (lambda: stream.key_by("item").window(wrong), "window() takes a window, not 5", 'tumbling("10s")'),
        (lambda: stream.window(function), "not the function tumbling", 'tumbling("10s")'),
        (lambda: stream.join(stream, on="item", window=size), "not '10s'", 'window=tumbling("10s")'),
        (lambda: stream.key_by(wrong), "key_by() takes column names and expressions, not 5", 'key_by("item")'),
        (lambda: stream.key_by(names), "one by one, not ['item', 'price']", "key_by(*[...])"),
        (lambda: stream.select(wrong), "select() takes column names and expressions, not 5", 'select("item")'),
        (lambda: stream.join(wrong), "join() takes streams, not 5", 'join(other, on="item")'),
        (lambda: stream.union(wrong), "union() takes streams, not 5", "union(other)"),
        (lambda: stream.union(grouped), "not a grouped stream without agg()", "union(other)"),
    ]
    for attempt, given, write in wrongs:
        with pytest.raises(ps.PlanError) as error:
            attempt()
        here(error, given, write, "test_stream_errors.py:")


@pytest.mark.parametrize("value", ["high", 1.5, True, None])
def test_a_priority_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ps.OptionError) as error:
        orders().collect().with_priority(value)
    here(error, f"not {value!r}", "with_priority(1)")


@pytest.mark.parametrize("value", ["x", True, None, -0.1, float("nan")])
def test_a_minimum_accuracy_is_a_number(value: Any) -> None:
    with pytest.raises(ps.OptionError) as error:
        orders().collect().with_min_accuracy(value)
    here(error, f"not {value!r}", "with_min_accuracy(0.9)")


def test_every_refused_operator_is_placed_once() -> None:
    job = ps.Job()
    left = orders(job)
    updating = left.key_by("item").agg(n=ps.count())
    written_above = col("prise") > 3
    wrongs: list[Attempt] = [
        lambda: orders(time=None).window(ps.tumbling("1s")).agg(n=ps.count()),
        lambda: updating.write_parquet("result.parquet"),
        lambda: left.union(left.drop("price")),
        lambda: left.join(updating, on="item", window=ps.tumbling("1s")),
        lambda: left.interval_join(updating, on="item", between=("0s", "5s")),
        lambda: updating.key_by("item").deduplicate(),
        lambda: updating.event_time("item"),
        lambda: left.join(left),
        lambda: left.select(),
        lambda: left.map(lambda a, b: {}),
        lambda: left.filter(written_above),
        lambda: left.select(x=col("item") + 1),
        lambda: left.agg(total=ps.sum_("item")),
    ]
    for wrong in wrongs:
        with pytest.raises(ps.PlanError) as error:
            wrong()
        assert str(error.value).count("test_stream_errors.py:") == 1, error.value
        assert error.value.__cause__ is None


def test_an_aggregate_names_the_input_it_does_not_take() -> None:
    with pytest.raises(ps.ExpressionError) as error:
        orders().agg(total=ps.sum_("item"))
    here(error, "'agg-1': sum of 'item' (string) is not defined; it takes integers", "cast the input first")
