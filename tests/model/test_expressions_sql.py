"""SQL text as expressions, and expressions as DuckDB's SQL."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.model.errors import ExpressionError
from penstock.model.expression_functions import concat, hash_, nullif, when
from penstock.model.expressions import Expr, col, lit
from penstock.model.sql_reader import sql
from tests.duckdb_sql import to_sql

A, TS = col("a"), col("ts")
SAME: list[tuple[str, Expr]] = [
    ("price * 0.908", col("price") * Decimal("0.908")),
    ("price * 0.908e0", col("price") * 0.908),
    ("a // 2 % 3", A // 2 % 3),
    ("a IS NOT NULL AND NOT (a = 1 OR a <> -2)", A.is_not_null() & ~((A == 1) | (A != -2))),
    ("a NOT IN (1, NULL)", ~A.is_in([1, None])),
    ("a BETWEEN 1 AND 2", A.between(1, 2)),
    ("a IS DISTINCT FROM 1", ~A.is_not_distinct_from(1)),
    ("CASE WHEN a > 1 THEN 'x' ELSE 'y' END", when(A > 1).then("x").otherwise("y")),
    ("nullif(a, 0)", nullif(A, 0)),
    ("a::bigint", A.cast(int)),
    ("TRY_CAST(a AS DECIMAL(10, 2))", A.try_cast("decimal(10, 2)")),
    ("person.address.city", col("person")["address"]["city"]),
    ("person['city']", col("person").struct.field("city")),
    ("a || '-'", concat(A, "-")),
    ("a NOT LIKE 'x%'", ~A.str.like("x%")),
    ("regexp_extract(a, '(x)', 1)", A.str.regexp_extract("(x)", 1)),
    ("substring(a, 2, 3)", A.str.substring(2, 3)),
    ("trim(BOTH '/' FROM a)", A.str.trim("/")),
    ("split_part(a, '/', 2)", A.str.split_part("/", 2)),
    ("count_char(a, 'c')", A.str.count_char("c")),
    ("extract(hour FROM ts)", TS.dt.hour()),
    ("date_trunc('minute', ts)", TS.dt.truncate("minute")),
    ("strftime(ts, '%Y')", TS.dt.format("%Y")),
    ("epoch_ms(ts)", TS.dt.epoch_ms()),
    ("isodow(ts)", TS.dt.day_of_week()),
    ("DATE '2024-01-02'", lit(datetime.date(2024, 1, 2))),
    ("hash(a, ts)", hash_("a", "ts")),
]


@pytest.mark.parametrize(("text", "expression"), SAME, ids=[text for text, _ in SAME])
def test_sql_builds_the_same_expression(text: str, expression: Expr) -> None:
    assert sql(text).same_as(expression)


def test_sql_alias_and_interval() -> None:
    assert sql("a + 1 AS b").name == "b"
    assert str(sql("ts + INTERVAL '1 hour'")) == "ts + INTERVAL '1' HOUR"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("price +", "does not parse at its character 7."),
        ("count(*)", "uses COUNT(*), which is not part of expressions."),
        ("a IN (SELECT 1)", "uses a IN (SELECT 1), which is not part of expressions."),
        ("frobnicate(a)", "calls frobnicate, which is not a function of expressions."),
        ("a[1]", "uses a[1], and only fields of structs are read with []."),
        ("a::json", "casts to JSON, which is no type of a column."),
        ("extract(century FROM ts)", "extracts century, and there are year, month, day, hour, minute, second, isodow."),
    ],
)
def test_sql_errors_are_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        sql(text)
    line = test_sql_errors_are_one_sentence.__code__.co_firstlineno + 14
    assert str(caught.value) == f"The SQL expression {text!r} at {__file__}:{line} {reason}"


def test_to_sql_wraps_what_duckdb_means_differently() -> None:
    schema = pa.schema([("i", pa.int32()), ("d", pa.float64()), ("s", pa.string())])
    assert to_sql(col("i") / 2, schema=schema) == (
        "(CAST(\"i\" AS DOUBLE) / NULLIF(CAST(CAST('2' AS BIGINT) AS DOUBLE), 0))"
    )
    assert to_sql(col("i") + col("i"), schema=schema) == '(CAST("i" AS BIGINT) + CAST("i" AS BIGINT))'
    assert to_sql(col("d").cast(int), schema=schema) == 'CAST(trunc("d") AS BIGINT)'
    assert to_sql(col("s").str.split_part("/", 2)) == "string_split(\"s\", '/')[2]"
    assert to_sql(col("s").str.regexp_extract("(a)", 1)) == (
        "CASE WHEN regexp_matches(\"s\", '(a)') THEN regexp_extract(\"s\", '(a)', 1) END"
    )


def test_to_sql_refuses_what_it_cannot_write() -> None:
    with pytest.raises(ExpressionError, match="the hash is Penstock's own"):
        to_sql(hash_("a"))
    with pytest.raises(ExpressionError, match="'spark' is not a dialect"):
        to_sql(col("a"), "spark")
