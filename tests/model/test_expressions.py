"""Expressions as values: building, naming, comparing, rewriting."""

import copy
import pickle
from decimal import Decimal

import pytest

from penstock.model.errors import ExpressionError
from penstock.model.expression_functions import coalesce, concat, hash_, nullif, when
from penstock.model.expressions import (
    Expr,
    col,
    column_name,
    columns_of,
    conjuncts,
    lit,
    substitute,
    to_expr,
    to_expr_column,
)
from penstock.model.sql_reader import sql


def test_expressions_read_as_sql() -> None:
    assert str(col("price") * Decimal("0.908") + 1) == "(price * 0.908) + 1"
    assert str(2 - col("my column")) == '2 - "my column"'
    assert str(~(col("a") == "x") & col("b").is_null()) == "(NOT (a = 'x')) AND (b IS NULL)"
    assert str(when(col("a") > 1).then("x").otherwise(None)) == "CASE WHEN a > 1 THEN 'x' ELSE NULL END"
    assert str(col("url").str.split_part("/", 3)) == "split_part(url, '/', 3)"
    assert str(coalesce(col("a"), 0)) == "COALESCE(a, 0)"
    assert str(concat(col("a"), "-")) == "concat(a, '-')"
    assert str(hash_("a", col("b"))) == "hash(a, b)"
    assert str(nullif(col("a"), 0)) == "NULLIF(a, 0)"


def test_a_number_keeps_its_kind() -> None:
    assert str(lit(5)) == "5"
    assert str(lit(0.5)) == "0.5e0"
    assert str(lit(Decimal("0.50"))) == "0.50"
    assert str(lit(-1.5)) == "-1.5e0"
    assert str(lit(Decimal(7))) == "CAST(7 AS DECIMAL(1, 0))"


def test_names() -> None:
    assert col("a").name == "a"
    assert (col("a") + 1).alias("b").name == "b"
    assert col("a").alias("b").alias("c").name == "c"
    assert col("person")["city"].name == "city"
    assert (col("a") + 1).name == "a + 1"


def test_same_is_structure_not_place() -> None:
    first = col("a") + 1
    second = col("a") + 1
    assert first.same_as(second)
    assert first.place != second.place
    assert hash(first) == hash(second)
    assert not first.same_as(col("A") + 1)
    assert not first.same_as(col("a") + 1.0)
    assert not lit("x").same_as(col("x"))
    assert sql("((a + 1))").same_as(first)


def test_an_expression_is_immutable_when_used_in_others() -> None:
    base = col("a") + 1
    combined = base * base
    assert str(base) == "a + 1"
    assert str(combined) == "(a + 1) * (a + 1)"


def test_the_place_is_the_users_line() -> None:
    expression = col("a") + 1
    file, line = expression.place.rsplit(":", 1)
    assert file == __file__
    assert line == str(test_the_place_is_the_users_line.__code__.co_firstlineno + 1)


def test_columns_of() -> None:
    assert columns_of((col("a") + col("b")) * col("a")) == {"a", "b"}
    assert columns_of(lit(1)) == set()
    assert columns_of(sql("person.city = 'x'")) == {"person"}


def test_column_name_is_given_for_plain_columns_only() -> None:
    assert column_name(col("a").alias("b")) == "a"
    assert column_name(col("a") + 0) is None
    assert column_name(col("a")["b"]) is None


def test_substitute_looks_through_a_projection() -> None:
    below = {"total": (col("price") + col("fee")).alias("total"), "x": col("y")}
    expression = substitute((col("total") * 2 > col("x")) & col("z"), below)
    assert expression.same_as(((col("price") + col("fee")) * 2 > col("y")) & col("z"))
    assert substitute(col("total"), below).same_as(col("price") + col("fee"))
    assert substitute(col("x"), {"x": col("x") + 1}).same_as(col("x") + 1)


def test_conjuncts() -> None:
    a, b, c = col("a") > 1, col("b").is_null(), col("c") | col("d")
    parts = conjuncts(a & (b & c))
    assert [str(part) for part in parts] == [str(a), str(b), str(c)]
    assert [str(part) for part in conjuncts(a)] == [str(a)]


def test_text_is_a_value_or_a_column() -> None:
    assert to_expr("a").same_as(lit("a"))
    assert to_expr_column("a").same_as(col("a"))
    assert to_expr_column(5).same_as(lit(5))


def test_truth_values_are_refused() -> None:
    with pytest.raises(ExpressionError, match=r"combine conditions with & \| ~ in place of and, or, not"):
        bool(col("a") == 1)
    with pytest.raises(ExpressionError, match="no truth value"):
        assert 1 < col("a") < 3
    with pytest.raises(TypeError, match=r"use \.is_in"):
        assert 1 in col("a")


def test_none_is_refused_in_operators() -> None:
    with pytest.raises(ExpressionError, match=r"^The expression a at .*test_expressions\.py:\d+ is combined with None"):
        _ = col("a") == None  # noqa: E711


def test_values_without_sql_counterpart_are_refused() -> None:
    with pytest.raises(ExpressionError, match=r"^\[1\] at .*test_expressions\.py:\d+ cannot stand in an expression"):
        lit([1])  # type: ignore[arg-type]
    with pytest.raises(ExpressionError, match=r"does not fit in 64 bits: write a Decimal\.$"):
        lit(2**63)
    with pytest.raises(ExpressionError, match="is not a type to cast to"):
        col("a").cast("money")


def test_expressions_travel() -> None:
    for expression in (when(col("a") > 1).then("x"), col("a").str.lower() == "b"):
        for other in (pickle.loads(pickle.dumps(expression)), copy.deepcopy(expression)):
            assert isinstance(other, Expr)
            assert other.same_as(expression)
            assert other.place == expression.place
