"""Random expressions over random rows mean the same on Arrow and on DuckDB (docs/design/expressions.md 2)."""

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from penstock.engine.expressions.compiler import compile_expression, compile_projection, evaluate_isolating
from penstock.model.errors import ExpressionError
from penstock.model.expression_functions import coalesce, concat, nullif, when
from penstock.model.expression_types import infer_type
from penstock.model.expressions import Expr, col, lit
from tests.duckdb_sql import to_sql

SCHEMA = pa.schema(
    [
        ("i8", pa.int8()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("u64", pa.uint64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("dec", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(17, 5)),
        ("text", pa.string()),
        ("path", pa.string()),
        ("flag", pa.bool_()),
        ("ms", pa.timestamp("ms")),
        ("us", pa.timestamp("us")),
        ("day", pa.date32()),
    ]
)
SECONDS = st.integers(-2_000_000_000, 6_000_000_000)
MICROS = st.builds(lambda s, u: s * 1_000_000 + u, SECONDS, st.sampled_from([0, 0, 500_000, 1, 999_999, 123_456]))
EPOCH = datetime.datetime(1970, 1, 1)
TEXTS = st.one_of(
    st.text(st.sampled_from("abAB/&=1.é😀ß %_\\\n'"), max_size=9),
    st.sampled_from(["apple", "Apple", "12", "-7", "+5", "007", "1.5", "true", "", "channel_id=3&x", "a/b//c"]),
)
LONG_TEXTS = st.lists(TEXTS, min_size=0, max_size=5).map("/".join)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i8": st.integers(-128, 127),
    "i32": st.one_of(st.integers(-5, 5), st.sampled_from([2**31 - 1, -(2**31)])),
    "i64": st.one_of(st.integers(-1000, 1000), st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, 123, 0])),
    "u64": st.one_of(st.integers(0, 9), st.sampled_from([2**63 - 1, 2**64 - 1])),
    "f32": st.floats(width=32, allow_nan=True),
    "f64": st.one_of(
        st.sampled_from([0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, 1e300, 0.1]), st.floats(-1e6, 1e6)
    ),
    "dec": st.decimals(-99999999, 99999999, places=2, allow_nan=False),
    "wide": st.decimals(-10000, 10000, places=5, allow_nan=False),
    "text": TEXTS,
    "path": LONG_TEXTS,
    "flag": st.booleans(),
    "ms": MICROS.map(lambda us: EPOCH + datetime.timedelta(milliseconds=us // 1000)),
    "us": MICROS.map(lambda us: EPOCH + datetime.timedelta(microseconds=us)),
    "day": SECONDS.map(lambda s: (EPOCH + datetime.timedelta(seconds=s)).date()),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.integers(1, 12))
    arrays = []
    for field in SCHEMA:
        values = draw(st.lists(st.none() | VALUES[field.name], min_size=rows, max_size=rows))
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def pick(*builders: Any) -> st.SearchStrategy[Expr]:
    return st.one_of(*builders)


def columns(*names: str) -> st.SearchStrategy[Expr]:
    return st.sampled_from(names).map(col)


def wholes(depth: int) -> st.SearchStrategy[Expr]:
    leaves = pick(
        columns("i8", "i32", "i64", "i64", "u64"),
        columns("i32", "i64"),
        st.sampled_from([-3, 0, 2, 123, 2**40]).map(lit),
    )
    if not depth:
        return leaves
    below = wholes(depth - 1)
    words, times = texts(depth - 1), instants(depth - 1)
    return pick(
        st.builds(lambda a, b: a + b, below, below),
        st.builds(lambda a, b: a - b, below, below),
        st.builds(lambda a, b: a * b, below, below),
        st.builds(lambda a, b: a // b, below, below),
        st.builds(lambda a, b: a % b, below, below),
        st.builds(lambda a: -a, below),
        st.builds(lambda a: a.abs(), below),
        st.builds(lambda a: a.sign(), below | floats(depth - 1)),
        st.builds(lambda a, n: a.round(n), below, st.sampled_from([-3, -1, 0, 2])),
        st.builds(lambda a: a.cast(int), below | floats(depth - 1) | decimals(depth - 1)),
        st.builds(lambda a: a.try_cast("tinyint"), below | floats(depth - 1) | decimals(depth - 1)),
        st.builds(lambda a: a.try_cast(int), words),
        st.builds(lambda a: a.cast(int), conditions(depth - 1)),
        st.builds(lambda a: a.str.length(), words),
        st.builds(lambda a, c: a.str.count_char(c), words, st.sampled_from("a/é")),
        st.builds(lambda t, part: t.call(part), times, st.sampled_from(PARTS)),
        st.builds(lambda t: t.dt.epoch_us(), times),
        st.builds(lambda t: t.dt.epoch_ms(), times),
        choices(below, depth),
    )


PARTS = ["year", "month", "day", "hour", "minute", "second", "millisecond", "isodow", "dayofyear"]


def floats(depth: int) -> st.SearchStrategy[Expr]:
    leaves = pick(columns("f32", "f64"), columns("f64"), st.sampled_from([0.5, -1.0, 0.0, math.nan, math.inf]).map(lit))
    if not depth:
        return leaves
    below, numbers = floats(depth - 1), pick(floats(depth - 1), wholes(depth - 1), decimals(depth - 1))
    return pick(
        st.builds(lambda a, b: a + b, below, numbers),
        st.builds(lambda a, b: a * b, numbers, below),
        st.builds(lambda a, b: a / b, numbers, numbers),
        st.builds(lambda a, b: a // b, below, numbers),
        st.builds(lambda a, b: a % b, below, numbers),
        st.builds(lambda a: -a, below),
        st.builds(lambda a: a.abs(), below),
        st.builds(lambda a: a.floor(), below),
        st.builds(lambda a: a.ceil(), below),
        st.builds(lambda a: a.round(), below),
        st.builds(lambda a: a.sqrt(), numbers),
        st.builds(lambda a: a.cast(float), numbers),
        choices(below, depth),
    )


def decimals(depth: int) -> st.SearchStrategy[Expr]:
    leaves = pick(
        columns("dec", "wide"),
        columns("dec", "wide"),
        st.sampled_from(["0.908", "-1.5", "7", "0.00"]).map(lambda d: lit(Decimal(d))),
    )
    if not depth:
        return leaves
    below, small = decimals(depth - 1), pick(columns("dec", "wide", "i8", "i32"), st.integers(-9, 9).map(lit))
    return pick(
        st.builds(lambda a, b: a + b, below, small),
        st.builds(lambda a, b: a - b, below, small),
        st.builds(lambda a, b: a * b, below, small),
        st.builds(lambda a, d: a * d, columns("i8", "i32", "i64"), st.just(lit(Decimal("0.908")))),
        st.builds(lambda a: -a, below),
        st.builds(lambda a: a.abs(), below),
        st.builds(lambda a, n: a.round(n), below, st.sampled_from([0, 1, 3])),
        st.builds(lambda a: a.floor(), below),
        st.builds(lambda a: a % lit(Decimal("0.75")), columns("dec", "wide")),
        st.builds(lambda a: a.try_cast("decimal(8, 1)"), below | wholes(depth - 1)),
        st.builds(lambda a: a.cast("decimal(20, 3)"), columns("dec", "wide", "i8", "i32")),
        choices(below, depth),
    )


def texts(depth: int) -> st.SearchStrategy[Expr]:
    leaves = pick(columns("text", "path"), columns("text", "path"), st.sampled_from(["", "a", "é/1"]).map(lit))
    if not depth:
        return leaves
    below = texts(depth - 1)
    return pick(
        st.builds(lambda a: a.str.lower(), below),
        st.builds(lambda a: a.str.upper(), below),
        st.builds(lambda a, s, n: a.str.substring(s, n), below, st.sampled_from([1, 2, 5, -1, -3]), st.integers(0, 4)),
        st.builds(lambda a, s: a.str.substring(s), below, st.sampled_from([1, 3, -2])),
        st.builds(
            lambda a, s, i: a.str.split_part(s, i), below, st.sampled_from(["/", "//", "é", "b/"]), st.integers(1, 4)
        ),
        st.builds(lambda a, b: concat(a, "-", b), below, below),
        st.builds(
            lambda a, p, g: a.str.regexp_extract(p, g),
            below,
            st.sampled_from(["(&|^)channel_id=([^&]*)", "(a+)(.?)", "([[:alpha:](]*)/(é|1)"]),
            st.integers(0, 2),
        ),
        st.builds(lambda a, o, n: a.str.replace(o, n), below, st.sampled_from(["a", "//"]), st.sampled_from(["", "é"])),
        st.builds(lambda a: a.str.trim(), below),
        st.builds(lambda a, c: a.str.ltrim(c), below, st.sampled_from(["a/", "é"])),
        st.builds(lambda a: a.str.rtrim("/1"), below),
        st.builds(lambda a: a.cast(str), wholes(depth - 1) | conditions(depth - 1) | columns("ms", "us", "day", "dec")),
        st.builds(
            lambda t, f: t.dt.format(f),
            instants(depth - 1),
            st.sampled_from(["%Y-%m-%d", "%H:%M", "%j %T.%f %%Y", "%d.%m.%y"]),
        ),
        choices(below, depth),
    )


def conditions(depth: int) -> st.SearchStrategy[Expr]:
    leaves = pick(columns("flag"), columns("flag"), st.booleans().map(lit))
    if not depth:
        return leaves
    below, words = conditions(depth - 1), texts(depth - 1)
    numbers = pick(wholes(depth - 1), floats(depth - 1), decimals(depth - 1))
    return pick(
        st.builds(compare, numbers, numbers, SIGNS),
        st.builds(compare, words, words, SIGNS),
        st.builds(compare, instants(depth - 1), instants(depth - 1) | columns("day"), SIGNS),
        st.builds(compare, below, below, SIGNS),
        st.builds(lambda a, b: a & b, below, below),
        st.builds(lambda a, b: a | b, below, below),
        st.builds(lambda a: ~a, below),
        st.builds(lambda a: a.is_null(), numbers | words | below),
        st.builds(lambda a: a.is_not_null(), numbers | words),
        st.builds(lambda a, b: a.is_not_distinct_from(b), numbers, numbers),
        st.builds(lambda a, b, c: a.between(b, c), numbers, numbers, numbers),
        st.builds(lambda a, v: a.is_in(v), wholes(depth - 1), st.lists(st.integers(-3, 300) | st.none(), max_size=10)),
        st.builds(lambda a, v: a.is_in(v), words, st.lists(TEXTS | st.none(), max_size=10)),
        st.builds(lambda a, v: a.is_in(v), floats(depth - 1), st.just([math.nan, 0.0])),
        st.builds(
            lambda a, p: a.str.like(p), words, st.sampled_from(["a%", "%a", "%/%", "a_", "%", "", "_%b%", "a\\%"])
        ),
        st.builds(lambda a, p: a.str.regexp_matches(p), words, st.sampled_from(["^a", "a.b", "[é-ß]$", "1+"])),
        st.builds(lambda a, p: a.str.starts_with(p), words, st.sampled_from(["", "a", "😀"])),
        st.builds(lambda a, p: a.str.ends_with(p), words, st.sampled_from(["", "a", "é"])),
        st.builds(lambda a, p: a.str.contains(p), words, st.sampled_from(["", "a", "/", "channel_id="])),
        choices(below, depth),
    )


def instants(depth: int) -> st.SearchStrategy[Expr]:
    leaves = pick(columns("ms", "us"), st.just(lit(datetime.datetime(2024, 2, 29, 23, 59, 59, 500_000))))
    if not depth:
        return leaves
    below = instants(depth - 1)
    return pick(
        st.builds(
            lambda a, u: a.dt.truncate(u),
            below,
            st.sampled_from(["1s", "minute", "15m", "hour", "day", "week", "month", "quarter", "year", "500ms"]),
        ),
        st.builds(lambda a: a.cast("timestamp"), below | columns("day")),
        st.builds(
            lambda a, d: a + d,
            below,
            st.sampled_from([datetime.timedelta(hours=1), datetime.timedelta(microseconds=-7)]),
        ),
        choices(below, depth),
    )


SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def compare(left: Expr, right: Expr, sign: str) -> Expr:
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[sign]


def choices(values: st.SearchStrategy[Expr], depth: int) -> st.SearchStrategy[Expr]:
    tests = conditions(depth - 1)
    return pick(
        st.builds(lambda c, a, b: when(c).then(a).otherwise(b), tests, values, values),
        st.builds(lambda c, a, d, b: when(c).then(a).when(d).then(b), tests, values, tests, values),
        st.builds(lambda c, a: when(c).then(a).otherwise(None), tests, values),
        st.builds(coalesce, values, values),
        st.builds(nullif, values, values),
    )


EXPRESSIONS = pick(wholes(2), floats(2), decimals(2), texts(2), conditions(2), instants(2))


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    # Threads that hand a dozen rows to each other wait long on a busy machine.
    with duckdb.connect(config={"threads": 1}) as connection:
        # It would drop failures, as in overflow * 0.
        connection.execute("PRAGMA disable_optimizer")
        yield connection


def oracle(connection: duckdb.DuckDBPyConnection, text: str, rows: pa.RecordBatch) -> list[Any]:
    connection.register("rows", pa.Table.from_batches([rows]))
    return [value for (value,) in connection.execute(f"SELECT {text} FROM rows").fetchall()]


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, int | float | Decimal):
        theirs = float(theirs)
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-9)
    if isinstance(ours, Decimal) or isinstance(theirs, Decimal):
        return ours is not None and theirs is not None and Decimal(ours) == Decimal(theirs)
    return bool(ours == theirs) and (ours is None) == (theirs is None)


@settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression=EXPRESSIONS, rows=batches())
def test_arrow_means_what_duckdb_means(
    connection: duckdb.DuckDBPyConnection, expression: Expr, rows: pa.RecordBatch
) -> None:
    try:
        kind = infer_type(expression, SCHEMA, "test")
    except ExpressionError:
        return  # Decimals that would need more than 38 digits.
    text = to_sql(expression, schema=SCHEMA)
    compiled = compile_expression(expression, SCHEMA, "test")
    isolated = evaluate_isolating(compiled, rows)
    good = rows.take(isolated.good)
    if isolated.result is not None:
        assert isolated.result.type == kind
        isolated.result.validate(full=True)
        ours = isolated.result.to_pylist()
        theirs = oracle(connection, text, good)
        pairs = [pair for pair in zip(ours, theirs, strict=True) if not same(*pair)]
        assert not pairs, (str(expression), text, pairs)
    # DuckDB stops at the first side of a connector that decides, at a divisor that is 0 in every row, and at a side
    # that a branch makes null in every row; SQL leaves the order open.
    short_circuits = expression.tree.find(exp.Connector, exp.Between, exp.In, exp.Case, exp.Null) is not None
    divisions = expression.tree.find_all(exp.Div, exp.IntDiv, exp.Mod)
    short_circuits |= any(division.expression.find(exp.Column) is None for division in divisions)
    for index, _ in [] if short_circuits else isolated.errors:
        with pytest.raises(duckdb.Error):
            value = oracle(connection, text, rows.slice(index, 1))
            pytest.fail(f"{text} gives {value}, but we raise {isolated.errors[0]}")


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression=EXPRESSIONS, other=EXPRESSIONS, where=conditions(2), rows=batches())
def test_projection_with_condition_is_filter_then_each_expression(
    expression: Expr, other: Expr, where: Expr, rows: pa.RecordBatch
) -> None:
    try:
        together = compile_projection([("a", expression), ("b", other)], SCHEMA, "test", where)
        apart = [compile_expression(part, SCHEMA, "test") for part in (where, expression, other)]
    except ExpressionError:
        return
    isolated = evaluate_isolating(apart[0], rows)
    if isolated.result is None:
        return
    kept = rows.take(isolated.good).filter(isolated.result)
    parts = [evaluate_isolating(part, kept) for part in apart[1:]]
    if isolated.errors or any(part.errors for part in parts) or not kept.num_rows:
        return
    result = together(rows)
    for column, part in zip(result.columns, parts, strict=True):
        assert identical(column, part.result)


@settings(max_examples=100, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression=EXPRESSIONS, rows=batches(), order=st.randoms(use_true_random=False))
def test_layout_and_repetition_of_rows_change_nothing(expression: Expr, rows: pa.RecordBatch, order: Any) -> None:
    try:
        compiled = compile_expression(expression, SCHEMA, "test")
    except ExpressionError:
        return
    isolated = evaluate_isolating(compiled, rows)
    if isolated.result is None:
        return
    good, expected = rows.take(isolated.good), isolated.result
    indices = pa.array([order.randrange(good.num_rows) for _ in range(150)])
    many, wanted = good.take(indices), expected.take(indices)
    assert identical(compiled(many), wanted)
    assert identical(compiled(many.slice(13, 90)), wanted.slice(13, 90))
    coded = many.set_column(8, "text", many.column("text").dictionary_encode())
    coded = coded.set_column(9, "path", many.column("path").cast(pa.large_string()))
    assert identical(compiled(coded), wanted)
    assert identical(compiled(coded.slice(7)), wanted.slice(7))


def identical(left: pa.Array, right: pa.Array) -> bool:
    left.validate(full=True)
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return left.type == right.type and all(same(*pair) for pair in pairs)
