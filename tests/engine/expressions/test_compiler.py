"""Compiled expressions: meaning in every corner, laziness, sharing, and rows that fail alone."""

# ruff: noqa: SIM300  (columns are written as constants here, and comparisons in the order they are tested)

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.expressions.compiler import compile_expression
from penstock.model.errors import BadRecordError, NumericOverflowError
from penstock.model.expression_functions import coalesce, concat, hash_, nullif, when
from penstock.model.expressions import Expr, col, lit
from penstock.model.sql_reader import sql

A, B, X, S, T = col("a"), col("b"), col("x"), col("s"), col("t")
MAX, MIN = 2**63 - 1, -(2**63)
NAN, INF = math.nan, math.inf


def batch(**columns: Any) -> pa.RecordBatch:
    arrays = [values if isinstance(values, pa.Array) else pa.array(values) for values in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def evaluate(expression: Expr, **columns: Any) -> list[Any]:
    rows = batch(**columns)
    result = compile_expression(expression, rows.schema, "test")(rows)
    assert isinstance(result, pa.Array)
    result.validate(full=True)
    return result.to_pylist()


def test_division() -> None:
    a, b = [7, -7, 7, -7, 5, None, MIN], [2, 2, -2, -2, 0, 1, 3]
    assert evaluate(A // B, a=a, b=b) == [3, -3, -3, 3, None, None, -(-MIN // 3)]
    assert evaluate(A % B, a=a, b=b) == [1, -1, 1, -1, None, None, -(-MIN % 3)]
    assert evaluate(A / B, a=a[:6], b=b[:6]) == [3.5, -3.5, -3.5, 3.5, None, None]
    assert evaluate(A % 123 == 0, a=[0, 123, -123, 124, None, MIN]) == [True, True, True, False, None, False]
    assert evaluate(A // 0, a=[1]) == evaluate(A % 0, a=[1]) == evaluate(A / 0.0, a=[1]) == [None]
    assert evaluate(X % 2, x=[5.5, -5.5, INF])[:2] == [1.5, -1.5]
    assert evaluate(X // 2, x=[5.5, -5.5]) == [2.0, -2.0]


@pytest.mark.parametrize(
    "expression",
    [A + 1, A * 2, A - (-1), -(A - MAX - 2), (A + MIN - 1).abs(), (-A - 1) // -1, A.round(-3)],
    ids=str,
)
def test_integer_overflow_is_an_error(expression: Expr) -> None:
    with pytest.raises(NumericOverflowError, match=r"^Operator 'test' at .*: overflow\.$"):
        evaluate(expression, a=[1, MAX, None])


def test_integers_of_any_width_compute_in_64_bits() -> None:
    small = pa.array([127, -128, None], pa.int8())
    assert evaluate(A + A, a=small) == [254, -256, None]
    assert evaluate(-A, a=pa.array([-128], pa.int8())) == [128]
    assert evaluate(A > 1000, a=small) == [False, False, None]
    huge = pa.array([2**64 - 1, 5], pa.uint64())
    assert evaluate(A > B, a=huge, b=[-1, 6]) == [True, False]
    assert evaluate(A > -1, a=huge) == [True, True]


def test_nothing_equals_null_and_filters_see_unknown() -> None:
    truth = [True, False, None]
    a = [left for left in truth for _ in truth]
    b = truth * 3
    assert evaluate(A & B, a=a, b=b) == [True, False, None, False, False, False, None, False, None]
    assert evaluate(A | B, a=a, b=b) == [True, True, True, True, False, None, True, None, None]
    assert evaluate(~A, a=truth) == [False, True, None]
    assert evaluate(A == B, a=[1, None], b=[None, None]) == [None, None]
    assert evaluate(A.is_not_distinct_from(B), a=[1, None, 1, 2], b=[None, None, 1, 3]) == [False, True, True, False]
    assert evaluate(A.is_in([1, None]), a=[1, 2, None]) == [True, None, None]
    assert evaluate(A.is_in([1, 3]), a=[1, 2, None]) == [True, False, None]
    assert evaluate(S.is_in(["x", None]), s=["x", "y", None]) == [True, None, None]


def test_nan_equals_itself_and_is_greatest() -> None:
    x = [NAN, NAN, INF, 1.0, 0.0]
    y = [NAN, INF, NAN, NAN, -0.0]
    assert evaluate(X == col("y"), x=x, y=y) == [True, False, False, False, True]
    assert evaluate(X != col("y"), x=x, y=y) == [False, True, True, True, False]
    assert evaluate(X > col("y"), x=x, y=y) == [False, True, False, False, False]
    assert evaluate(X <= col("y"), x=x, y=y) == [True, False, True, True, True]
    assert evaluate(X > 5, x=[NAN, 1.0, None]) == [True, False, None]
    assert evaluate(lit(NAN) >= X, x=[NAN, INF]) == [True, True]
    assert evaluate(X.is_in([NAN, 0.0]), x=[NAN, -0.0, 1.0]) == [True, True, False]
    assert evaluate(nullif(X, NAN), x=[NAN, 1.0]) == [None, 1.0]


def test_decimals_are_exact() -> None:
    price = [1, -1, 10**15, MAX, MIN, None]
    factor = Decimal("0.908")
    exact = [None if value is None else value * factor for value in price]
    assert evaluate(A * factor, a=price) == evaluate(factor * A, a=price) == exact
    fee = pa.array([Decimal("1.25"), Decimal("-1.25"), None], pa.decimal128(5, 2))
    assert evaluate(A + 1, a=fee) == [Decimal("2.25"), Decimal("-0.25"), None]
    assert evaluate(A.round(1), a=fee) == [Decimal("1.3"), Decimal("-1.3"), None]
    assert evaluate(A // Decimal("0.5"), a=fee) == [2, -2, None]
    assert evaluate(A % Decimal("0.5"), a=fee) == [Decimal("0.25"), Decimal("-0.25"), None]
    assert evaluate(A > Decimal("1.2"), a=fee) == [True, False, None]
    wide = pa.array([Decimal(10) ** 30, Decimal(-(10**30)), Decimal(5)], pa.decimal128(38, 0))
    assert evaluate(A > 5, a=wide) == [True, False, False]
    assert evaluate(A.cast("decimal(5, 1)"), a=[Decimal("1.25"), Decimal("-1.25")]) == [Decimal("1.3"), Decimal("-1.3")]
    with pytest.raises(BadRecordError, match="does not fit in decimal"):
        evaluate(A.cast("decimal(2, 1)"), a=[Decimal("10.00")])


def test_casts_truncate_or_fail_and_try_cast_is_null() -> None:
    x = [1.9, -1.9, NAN, 1e19, float(MAX), None]
    assert evaluate(X.try_cast(int), x=x) == [1, -1, None, None, None, None]
    assert evaluate(A.try_cast("tinyint"), a=[127, 128, -128, None]) == [127, None, -128, None]
    texts = ["1", "+5", "-07", "1.5", " 1", "", "0x1", str(MAX), str(MIN), str(MAX + 1), "é", None]
    wanted = [1, 5, -7, None, None, None, None, MAX, MIN, None, None, None]
    assert evaluate(S.try_cast(int), s=texts) == wanted
    assert evaluate(S.try_cast(float), s=["1.5", "1e3", "nix", "-inf", None]) == [1.5, 1000.0, None, -INF, None]
    assert evaluate(S.try_cast(bool), s=["true", "0", "yes", None]) == [True, False, None, None]
    dates = ["2024-02-29", "2023-02-29", "2024-13-01", "today", None]
    assert evaluate(S.try_cast("date"), s=dates) == [datetime.date(2024, 2, 29), None, None, None, None]
    assert evaluate(S.try_cast("decimal(4, 1)"), s=["1.25", "-1.25", "1000", "x"]) == [
        Decimal("1.3"),
        Decimal("-1.3"),
        None,
        None,
    ]
    moments = ["2024-01-01", "2024-01-01 10:00:00.5", "2024-01-01T10:00:00+02:00", "24:00"]
    assert evaluate(S.try_cast("timestamp"), s=moments) == [
        datetime.datetime(2024, 1, 1),
        datetime.datetime(2024, 1, 1, 10, 0, 0, 500_000),
        datetime.datetime(2024, 1, 1, 8),
        None,
    ]
    for expression, columns in ((X.cast(int), {"x": [NAN]}), (S.cast(int), {"s": ["abc"]})):
        with pytest.raises(BadRecordError, match="does not fit in int64"):
            evaluate(expression, **columns)
    assert evaluate(A.cast(str), a=[5, None]) == ["5", None]
    assert evaluate(A.cast("timestamp_ms"), a=[1_500]) == [datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000)]


def test_text_counts_code_points_from_one() -> None:
    s = ["né😀x", "abc", "", None]
    assert evaluate(S.str.length(), s=s) == [4, 3, 0, None]
    assert evaluate(S.str.substring(2, 2), s=s) == ["é😀", "bc", "", None]
    assert evaluate(S.str.substring(-2), s=s) == ["😀x", "bc", "", None]
    for start, size, wanted in ((2, 5, "bc"), (5, 2, ""), (-2, 1, "b"), (-5, 3, "a"), (1, 0, "")):
        assert evaluate(S.str.substring(start, size), s=["abc"]) == [wanted]
        assert evaluate(S.str.substring(start, size), s=["abc", "é"])[0] == wanted
    assert evaluate(S.str.upper(), s=s) == ["NÉ😀X", "ABC", "", None]
    assert evaluate(S.str.count_char("é"), s=s) == [1, 0, 0, None]
    assert evaluate(S.str.count_char("c"), s=["cc" * 20 + "d", "c", None]) == [40, 1, None]


def test_parts_are_counted_from_one_and_missing_ones_are_null() -> None:
    s = ["a/b/c", "/b", "a", "", "a//c", None]
    parts = [evaluate(S.str.split_part("/", index), s=s) for index in (1, 2, 3, 4)]
    assert parts == [
        ["a", "", "a", "", "a", None],
        ["b", "b", None, None, "", None],
        ["c", None, None, None, "c", None],
        [None] * 6,
    ]
    assert evaluate(S.str.split_part("aa", 2), s=["xaaay", "aaaa", "xa"]) == ["ay", "", None]
    assert evaluate(S.str.split_part("é", 2), s=["aébéc", "b"]) == ["b", None]


def test_regular_expressions() -> None:
    pattern = "(&|^)channel_id=([^&]*)"
    s = ["x&channel_id=7&y", "channel_id=", "nothing", None]
    assert evaluate(S.str.regexp_extract(pattern, 2), s=s) == ["7", "", None, None]
    assert evaluate(S.str.regexp_extract(pattern), s=s) == ["&channel_id=7", "channel_id=", None, None]
    assert evaluate(S.str.regexp_matches(pattern), s=s) == [True, True, False, None]
    assert evaluate(S.str.regexp_extract(r"[(](\(?)(?P<x>a)(?i:B)", 2), s=["(ab"]) == ["a"]


def test_like() -> None:
    s = ["abc", "a\nc", "a%", "", None]
    assert evaluate(S.str.like("a%"), s=s) == [True, True, True, False, None]
    assert evaluate(S.str.like("a_c"), s=s) == [True, True, False, False, None]
    assert evaluate(S.str.like("%"), s=s) == [True, True, True, True, None]
    assert evaluate(S.str.like(""), s=s) == [False, False, False, True, None]
    assert evaluate(S.str.like("a\\%"), s=["a\\%", "a%"]) == [True, False]


def test_other_text_functions() -> None:
    s = [" /a b/ ", "", None]
    assert evaluate(S.str.trim(), s=s) == ["/a b/", "", None]
    assert evaluate(S.str.trim(" /"), s=s) == ["a b", "", None]
    assert evaluate(S.str.strip(), s=["\t x\n"]) == ["x"]
    assert evaluate(S.str.replace("a", "é"), s=["banana", "x"]) == ["bénéné", "x"]
    assert evaluate(concat(S, "-", S), s=["a", None]) == ["a-a", None]
    assert evaluate(S.str.contains("bc"), s=["abcd", "ab", "bb" * 9 + "c", None]) == [True, False, True, None]
    assert evaluate(S == "a" * 9, s=["a" * 9, "a" * 8 + "b", "a"]) == [True, False, False]


def test_time_functions() -> None:
    moments = [datetime.datetime(2024, 2, 29, 23, 59, 58, 123_456), datetime.datetime(1969, 12, 31, 23, 0, 0, 1), None]
    for unit in ("us", "ns", "ms", "s"):
        t = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
        assert evaluate(T.dt.hour(), t=t) == [23, 23, None]
        assert evaluate(T.dt.minute(), t=t) == [59, 0, None]
        assert evaluate(T.dt.second(), t=t)[0] == 58
        assert evaluate(T.dt.day_of_week(), t=t) == [4, 3, None]
        assert evaluate(T.dt.day_of_year(), t=t) == [60, 365, None]
        assert evaluate(T.dt.date(), t=t) == [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), None]
        assert evaluate(T.dt.format("%Y-%m-%d %H:%M"), t=t) == ["2024-02-29 23:59", "1969-12-31 23:00", None]
        start = evaluate(T.dt.truncate("15m").cast("timestamp"), t=t)
        assert start == [datetime.datetime(2024, 2, 29, 23, 45), datetime.datetime(1969, 12, 31, 23), None]
    t = pa.array(moments, pa.timestamp("us"))
    assert evaluate(T.dt.millisecond(), t=t) == [123, 0, None]
    assert evaluate(T.dt.format("%j|%y|%S.%f|%%"), t=t) == ["060|24|58.123456|%", "365|69|00.000001|%", None]
    assert evaluate(T.dt.truncate("week"), t=t)[0] == datetime.datetime(2024, 2, 26)
    assert evaluate(T.dt.truncate("month"), t=t)[0] == datetime.datetime(2024, 2, 1)
    assert evaluate(T.dt.epoch_ms(), t=pa.array([-1, 1], pa.timestamp("us"))) == [-1, 0]
    assert evaluate(T + datetime.timedelta(seconds=1), t=t)[1] == datetime.datetime(1969, 12, 31, 23, 0, 1, 1)
    assert evaluate(T - T, t=t) == [datetime.timedelta(0), datetime.timedelta(0), None]
    far = pa.array([253_402_300_800], pa.timestamp("s"))
    assert evaluate(T.dt.format("%Y-%m-%d"), t=far) == ["10000-01-01"]


def test_parts_of_a_zoned_time_are_local() -> None:
    t = pa.array([0], pa.timestamp("ms", "Europe/Paris"))
    assert evaluate(T.dt.hour(), t=t) == [1]
    assert evaluate(T.dt.format("%H:%M"), t=t) == ["01:00"]
    assert evaluate(T.dt.truncate("1d").dt.epoch_ms(), t=t) == [-3_600_000]
    assert evaluate(T == datetime.datetime(1970, 1, 1), t=t) == [True]


def test_a_branch_not_taken_never_fails() -> None:
    safe = when(S.str.regexp_matches("^[0-9]+$")).then(S.cast(int)).otherwise(-1)
    assert evaluate(safe, s=["12", "x", None, "7"]) == [12, -1, -1, 7]
    assert evaluate(safe + safe, s=["12", "x"]) == [24, -2]
    assert evaluate(coalesce(S.try_cast(int), concat(S, "1").cast(int)), s=["5", "-"]) == [5, -1]
    assert evaluate(when(A < 5).then(A * MAX).otherwise(A), a=[1, 6, None]) == [MAX, 6, None]
    ordered = when(S == "x").then(0).when(S.cast(int) > 5).then(1).otherwise(2)
    assert evaluate(ordered, s=["x", "9", "1"]) == [0, 1, 2]
    with pytest.raises(BadRecordError):
        evaluate(safe, s=["12", "99999999999999999999"])
    constant = when(A > 0).then(lit(MAX) + 1).otherwise(0)
    assert evaluate(constant, a=[-1, 0]) == [0, 0]
    with pytest.raises(NumericOverflowError):
        evaluate(constant, a=[1])


def test_cases() -> None:
    grade = when(A > 90).then("A").when(A > 80).then("B").otherwise("C")
    assert evaluate(grade, a=[95, 85, 0, None]) == ["A", "B", "C", "C"]
    assert evaluate(when(A > 90).then("A"), a=[95, 0]) == ["A", None]
    assert evaluate(
        when(A > 1).then(S).when(A > 0).then("one").otherwise(B), a=[2, 1, 0], s=["x"] * 3, b=["y"] * 3
    ) == [
        "x",
        "one",
        "y",
    ]
    assert evaluate(when(A > 1).then(X).otherwise(None), a=[2, 1], x=[0.5, 0.5]) == [0.5, None]
    assert evaluate(when(lit(True)).then(A).otherwise(B), a=[1], b=[2]) == [1]
    assert evaluate(when(A.is_null()).then(B).otherwise(A), a=[None, 1], b=[[1], [2]][0] * 2) == [1, 1]
    assert evaluate(sql("CASE a WHEN 1 THEN 'x' WHEN 2 THEN 'y' END"), a=[1, 2, 3]) == ["x", "y", None]


def test_structs() -> None:
    p = pa.array([{"name": "Ann", "age": 5}, {"name": None, "age": 6}, None])
    assert evaluate(col("p")["name"].str.lower(), p=p) == ["ann", None, None]
    assert evaluate(col("p").struct.field("age") + 1, p=p) == [6, 7, None]
    assert evaluate(when(col("p")["age"] > 5).then(col("p")).otherwise(None), p=p) == [
        None,
        {"name": None, "age": 6},
        None,
    ]


def test_constants_fill_every_row() -> None:
    for value in (1, 0.5, "x", None, True, Decimal("1.5"), datetime.date(2024, 1, 1), b"x"):
        assert evaluate(lit(value), a=[1, 2, 3]) == [value] * 3
    assert evaluate(lit("a").str.upper() == "A", a=[1]) == [True]
    assert evaluate(lit(None) + A, a=[1]) == [None]


def test_hash_is_the_key_hash_of_the_logical_value() -> None:
    wide = evaluate(hash_("a"), a=[1, 2, None])
    assert wide == evaluate(hash_("a"), a=pa.array([1, 2, None], pa.int8()))
    assert len(set(wide)) == 3
    assert evaluate(hash_("s", "a"), s=["x"], a=[1]) != evaluate(hash_("a", "s"), s=["x"], a=[1])
    assert evaluate(hash_("a", lit(None)), a=[1]) != wide[:1]


def test_no_rows_give_an_array_of_the_type() -> None:
    rows = batch(a=pa.array([], pa.int64()), s=pa.array([], pa.string()))
    for expression in (A + 1, S.cast(int), lit("x"), A * Decimal("0.5"), S.str.lower(), S.str.split_part("/", 2)):
        result = compile_expression(expression, rows.schema, "test")(rows)
        assert len(result) == 0
        assert result.type == compile_expression(expression, rows.schema, "test").type
