"""Types of expressions, and the sentences that name what does not fit."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.model.errors import ExpressionError
from penstock.model.expression_functions import coalesce, concat, hash_, when
from penstock.model.expression_types import infer_type
from penstock.model.expressions import Expr, col, lit
from penstock.model.sql_reader import sql

SCHEMA = pa.schema(
    [
        ("auction", pa.int64()),
        ("price", pa.int64()),
        ("small", pa.int32()),
        ("ratio", pa.float64()),
        ("single", pa.float32()),
        ("fee", pa.decimal128(10, 2)),
        ("huge", pa.decimal128(38, 0)),
        ("channel", pa.large_string()),
        ("url", pa.dictionary(pa.int32(), pa.string())),
        ("open", pa.bool_()),
        ("ms", pa.timestamp("ms")),
        ("utc", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("person", pa.struct([("name", pa.string()), ("age", pa.int16())])),
    ]
)
HOUR = datetime.timedelta(hours=1)
I64, F64, TEXT, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()

TYPES: list[tuple[Expr, pa.DataType]] = [
    (col("channel"), TEXT),
    (col("url"), TEXT),
    (col("price") * Decimal("0.908"), pa.decimal128(23, 3)),
    (sql("price * 0.908"), pa.decimal128(23, 3)),
    (col("price") * 0.908, F64),
    (col("small") + col("small"), I64),
    (col("single") * 2, F64),
    (col("price") / 2, F64),
    (col("price") // 2, I64),
    (col("ratio") // 2, F64),
    (col("fee") + 1, pa.decimal128(11, 2)),
    (col("fee") + col("price"), pa.decimal128(22, 2)),
    (col("fee") * col("small"), pa.decimal128(21, 2)),
    (col("fee") * 0.5, F64),
    (col("fee") // 3, I64),
    (col("fee") % Decimal("0.5"), pa.decimal128(2, 2)),
    (col("fee").round(1), pa.decimal128(10, 1)),
    (col("fee").floor(), pa.decimal128(9, 0)),
    (-col("small"), I64),
    (col("small").abs(), I64),
    (col("price").sqrt(), F64),
    (col("small") == col("price"), BOOL),
    (col("ms") >= datetime.datetime(2024, 1, 1), BOOL),
    (col("ms") >= "2024-01-01", BOOL),
    (col("utc") >= col("ms"), BOOL),
    (col("day") < col("ms"), BOOL),
    (col("ms") + HOUR, pa.timestamp("ms")),
    (col("ms") + datetime.timedelta(microseconds=1), pa.timestamp("us")),
    (col("utc") - HOUR, pa.timestamp("us", "UTC")),
    (col("ms") - col("utc"), pa.duration("us")),
    (col("ms").dt.hour(), I64),
    (col("ms").dt.date(), pa.date32()),
    (col("ms").dt.truncate("1m"), pa.timestamp("ms")),
    (col("day").dt.truncate("1h"), pa.timestamp("us")),
    (col("day").dt.format("%Y"), TEXT),
    (col("channel").str.length(), I64),
    (col("channel").str.like("x%"), BOOL),
    (col("channel").cast("decimal(8, 3)"), pa.decimal128(8, 3)),
    (col("price").try_cast("smallint"), pa.int16()),
    (when(col("open")).then(1).otherwise(col("small")), pa.int32()),
    (when(col("open")).then(2**40).otherwise(col("small")), I64),
    (when(col("open")).then("x"), TEXT),
    (coalesce(col("small"), 0), pa.int32()),
    (col("small").fill_null(0.5), F64),
    (coalesce(col("fee"), col("price")), pa.decimal128(21, 2)),
    (coalesce(col("single"), col("ratio")), F64),
    (lit(None), pa.null()),
    (lit(None) + col("price"), I64),
    (col("person")["age"], pa.int16()),
    (hash_("price", "channel"), I64),
    (col("channel").is_in([]), BOOL),
]


@pytest.mark.parametrize(("expression", "kind"), TYPES, ids=[str(expression) for expression, _ in TYPES])
def test_types(expression: Expr, kind: pa.DataType) -> None:
    assert infer_type(expression, SCHEMA, "hot") == kind


ERRORS: list[tuple[Any, str]] = [
    (lambda: col("pric") + 1, "uses the unknown column 'pric': did you mean 'price'?"),
    (
        lambda: col("bidder") + 1,
        "uses the unknown column 'bidder': there are auction, price, small, ratio, single, fee, huge, channel, url, "
        "open, ms, utc, day, person.",
    ),
    (lambda: col("channel") == 5, "cannot compare string 'channel' with int64 5: cast one of them."),
    (lambda: col("ms") > "soon", "cannot compare timestamp[ms] 'ms' with string 'soon': cast one of them."),
    (
        lambda: col("channel") + "x",
        "cannot add string 'x' to string 'channel': join texts with .str.concat(...).",
    ),
    (
        lambda: col("ms") - 1,
        "cannot subtract int64 1 from timestamp[ms] 'ms': give the interval as a datetime.timedelta.",
    ),
    (
        lambda: col("open") * 2,
        "cannot multiply bool 'open' by int64 2: cast text to a number, or compare truth values first.",
    ),
    (lambda: ~col("price"), "needs a condition but has int64 'price': compare it with something."),
    (
        lambda: col("huge") * col("price"),
        "cannot multiply decimal128(38, 0) 'huge' by int64 'price': the result would need 58 digits and a decimal has "
        "38: cast to fewer digits or to double first.",
    ),
    (lambda: col("price").str.lower(), "cannot take lower of int64 'price': it needs text."),
    (lambda: col("price").dt.hour(), "cannot take hour of int64 'price': it needs a date or timestamp."),
    (lambda: concat(col("channel"), 1), "cannot take concat of int64 1: it needs text."),
    (
        lambda: col("channel").str.substring(0),
        "cannot call substring: the start counts from 1, or from -1 at the end, not 0.",
    ),
    (lambda: col("channel").str.split_part("", 1), "cannot call split_part: the separator must not be empty."),
    (
        lambda: col("channel").str.regexp_matches("(a"),
        "cannot call regexp_matches: the pattern '(a' is no regular expression: missing ): (a.",
    ),
    (
        lambda: col("channel").str.regexp_extract("(a)", 2),
        "cannot call regexp_extract: pattern '(a)': there is no group 2.",
    ),
    (
        lambda: col("channel").str.count_char("ab"),
        "cannot call count_char: the character must be one character, not 'ab'.",
    ),
    (
        lambda: col("channel").call("contains", col("url")),
        "calls contains with string 'url' as the part, which must be constant text.",
    ),
    (
        lambda: col("ms").dt.truncate("2 months"),
        "cannot call truncate: the unit must be a duration such as '15m', or hour, day, week, month, quarter or year, "
        "not '2 months'.",
    ),
    (
        lambda: col("ms").dt.format("%q"),
        "cannot call strftime: the format has %q, and there are %Y, %m, %d, %H, %M, %S, %f, %j, %y, %F, %T, %R and %%.",
    ),
    (
        lambda: col("ms").cast(int),
        "cannot cast timestamp[ms] 'ms' to int64: use .dt.epoch_us() or .dt.epoch_ms().",
    ),
    (
        lambda: when(col("open")).then(1).otherwise("x"),
        "cannot give both int64 1 and string 'x' in one case: cast one of them.",
    ),
    (lambda: col("person")["nam"], "uses the unknown field 'nam': did you mean 'name'?"),
    (lambda: col("price")["x"], "takes field 'x' of int64 'price', which is no struct."),
    (
        lambda: col("person") == col("person"),
        "cannot compare struct<name: string, age: int16> 'person' with struct<name: string, age: int16> 'person': "
        "compare their fields.",
    ),
    (lambda: col("price").call("flor"), "uses the unknown function 'flor': did you mean 'floor' or 'lower'?"),
]


@pytest.mark.parametrize(("build", "reason"), ERRORS, ids=[reason[:50] for _, reason in ERRORS])
def test_errors_are_one_sentence_with_operator_and_place(build: Any, reason: str) -> None:
    expression = build()
    with pytest.raises(ExpressionError) as caught:
        infer_type(expression, SCHEMA, "hot")
    message = str(caught.value)
    start = f"Operator 'hot' at {__file__}:"
    assert message.startswith(start)
    line, _, rest = message.removeprefix(start).partition(" ")
    assert rest == reason
    first = build.__code__.co_firstlineno
    assert int(line) in range(first, first + 2)


def test_the_place_is_that_of_the_part_that_is_wrong() -> None:
    wrong = col("pric") + 1
    whole = (col("auction") > 1) & (wrong > 2)
    with pytest.raises(ExpressionError) as caught:
        infer_type(whole, SCHEMA, "hot")
    assert f":{test_the_place_is_that_of_the_part_that_is_wrong.__code__.co_firstlineno + 1} " in str(caught.value)
