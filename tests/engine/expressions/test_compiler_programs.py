"""Compiled expressions over batches: predicates, projections, shared work, encoded text, rows that fail alone."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.expressions.compiler import (
    compile_expression,
    compile_predicate,
    compile_projection,
    evaluate_isolating,
)
from penstock.engine.expressions.program import Program
from penstock.model.errors import ExpressionError
from penstock.model.expression_functions import when
from penstock.model.expression_types import resolve
from penstock.model.expressions import col, lit

A, S = col("a"), col("s")


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_predicates_must_be_conditions() -> None:
    rows = batch(a=[1, None, 3])
    assert compile_predicate(A > 1, rows.schema, "hot")(rows).to_pylist() == [False, None, True]
    assert compile_predicate(lit(None), rows.schema, "hot")(rows).to_pylist() == [None] * 3
    with pytest.raises(ExpressionError, match=r"^Operator 'hot' at .* needs a condition, .* but a \+ 1 is int64\.$"):
        compile_predicate(A + 1, rows.schema, "hot")


def test_projections_share_and_keep_fields() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("s", pa.string())])
    rows = pa.RecordBatch.from_arrays([pa.array([5, 50, 500]), pa.array(["x", "y", "z"])], schema=schema)
    price = A * Decimal("0.5")
    projection = compile_projection(
        [("id", A), ("price", price), ("s", S)], schema, "test", where=(price > 3) & (price < 99)
    )
    assert projection.schema == pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("price", pa.decimal128(21, 1)), ("s", pa.string())]
    )
    assert projection(rows).to_pylist() == [{"id": 50, "price": Decimal("25.0"), "s": "y"}]
    nothing = compile_projection([("s", S), ("one", lit(1))], schema, "test", where=A > 999)(rows)
    assert nothing.num_rows == 0
    everything = compile_projection([("s", S), ("one", lit(1))], schema, "test", where=A > 0)(rows)
    assert everything.to_pylist() == [{"s": letter, "one": 1} for letter in "xyz"]


def test_equal_subexpressions_are_computed_once() -> None:
    schema = pa.schema([("price", pa.int64()), ("url", pa.string())])
    scaled = Decimal("0.908") * col("price")
    outputs = [resolve(expression, schema, "test") for expression in (scaled, scaled + 1)]
    program = Program(outputs, "test", resolve((scaled > 1) & (scaled < 5), schema, "test"))
    operations = [step.source.op for step in [*program._filter_steps, *program._steps]]
    assert sorted(operations) == ["add", "and", "gt", "lt", "mul"]
    parts = [resolve(col("url").str.split_part("/", index), schema, "test") for index in (4, 5, 6)]
    assert len(Program(parts, "test")._steps) == 4


def test_text_with_a_dictionary_is_not_decoded_for_text_functions() -> None:
    values = ["Apple/a", "Baidu/b", None, "Apple/a"] * 40
    plain = batch(s=values, a=list(range(160)))
    coded = plain.set_column(0, "s", plain.column(0).dictionary_encode())
    low = S.str.lower()
    columns = [
        ("low", low),
        ("part", S.str.split_part("/", 2)),
        ("first", low.str.substring(1, 1)),
        ("case", when(low == "apple/a").then("0").otherwise(S.str.regexp_extract("/(.)", 1))),
        ("none", S.str.regexp_extract("/(.)", 1).is_null()),
        ("s", S),
    ]
    where = low.is_in(["apple/a", "baidu/b"]) | S.str.split_part("/", 1).is_null()
    for condition in (None, where, where & (A > 5)):
        projection = compile_projection(columns, plain.schema, "test", condition)
        expected = projection(plain)
        for _ in range(2):
            assert projection(coded).equals(expected)
        assert expected.schema.field("s").type == pa.string()


def test_repeated_text_is_remembered_between_batches() -> None:
    schema = pa.schema([("s", pa.string())])
    compiled = compile_expression(S.str.regexp_extract("k=([0-9]+)", 1), schema, "test")
    for start in (0, 50, 100):
        texts = [None if index % 7 == 0 else f"k={index % 60 + start}" for index in range(300)]
        expected = [None if text is None else text[2:] for text in texts]
        assert compiled(batch(s=texts)).to_pylist() == expected
    distinct = [f"k={index}" for index in range(5_000)]
    for _ in range(3):
        assert compiled(batch(s=distinct)).to_pylist() == [text[2:] for text in distinct]


def test_bad_rows_are_found_and_the_others_computed() -> None:
    texts = [str(index) for index in range(1_000)]
    texts[17] = texts[18] = "bad"
    texts[999] = "99999999999999999999"
    rows = batch(s=texts)
    calls = 0
    compiled = compile_expression(S.cast(int), rows.schema, "parse")

    def counted(part: pa.RecordBatch) -> pa.Array:
        nonlocal calls
        calls += 1
        return compiled(part)

    isolated = evaluate_isolating(counted, rows)
    assert [index for index, _ in isolated.errors] == [17, 18, 999]
    assert isolated.errors[0][1].startswith(f"Operator 'parse' at {__file__}:")
    assert isolated.errors[0][1].endswith("cannot compute CAST(s AS BIGINT): 'bad' does not fit in int64.")
    assert isolated.result is not None
    assert isolated.result.to_pylist() == [int(texts[index]) for index in isolated.good.to_pylist()]
    assert len(isolated.good) == 997
    assert calls < 60


def test_isolating_when_all_or_no_rows_fail() -> None:
    rows = batch(s=["x", "y"])
    compiled = compile_expression(S.cast(int), rows.schema, "parse")
    isolated = evaluate_isolating(compiled, rows)
    assert isolated.result is None
    assert len(isolated.good) == 0
    assert [index for index, _ in isolated.errors] == [0, 1]
    fine = evaluate_isolating(compiled, batch(s=["1"]))
    assert (fine.result.to_pylist(), fine.good.to_pylist(), fine.errors) == ([1], [0], [])
    single = evaluate_isolating(compiled, batch(s=["x"]))
    assert (single.result, len(single.errors)) == (None, 1)
    with pytest.raises(ZeroDivisionError):
        evaluate_isolating(lambda _: 1 // 0, rows)
