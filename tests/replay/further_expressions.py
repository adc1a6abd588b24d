"""Random expressions over types and functions that DuckDB's oracle leaves out; called by the tests of Spark's SQL."""

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.model.expression_functions import coalesce, concat, when
from penstock.model.expressions import Expr, col, lit
from tests.engine.expressions.test_compiler_properties import PARTS, SIGNS, compare

UTC = datetime.UTC
MORE = pa.schema(
    [
        ("u8", pa.uint8()),
        ("u32", pa.uint32()),
        ("u64", pa.uint64()),
        ("i16", pa.int16()),
        ("i64", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("fine", pa.decimal128(9, 6)),
        ("many", pa.decimal128(18, 4)),
        ("s", pa.timestamp("s")),
        ("ms", pa.timestamp("ms", "UTC")),
        ("us", pa.timestamp("us", "UTC")),
        ("there", pa.timestamp("us", "Europe/Berlin")),
        ("day", pa.date32()),
        ("span", pa.duration("us")),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("made", pa.struct([("a", pa.int64()), ("b c", pa.string())])),
    ]
)
NUMBERS = [
    "12",
    "-7",
    "+5",
    "007",
    "1.5",
    "1.",
    ".5",
    "-1e3",
    "1E400",
    "nan",
    "-Inf",
    "infinity",
    " 1",
    "1 ",
    "1_0",
    "",
]
NUMBERS += [
    "1f",
    "0x10",
    "128",
    "-129",
    "255",
    "256",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
]
WORDS = ["true", "FALSE", "1", "0", "t", "yes", "tRuE "]
TIMES = ["2024-02-29", "2024-02-30", "2024-2-3", "2024-01-01 10", "2024-01-01T10:05", "2024-01-01 10:05:06"]
TIMES += ["2024-01-01 10:05:06.1", "2024-01-01 10:05:06.123456", "2024-01-01 10:05:06.1234567", "2024-01-01 24:00:00"]
TIMES += [
    "2024-01-01 10Z",
    "2024-01-01 10:05+01:30",
    "2024-01-01 10:05:06.5-1300",
    "2024-01-01Z",
    "24-01-01",
    "now",
    "epoch",
]
TIMES += ["1969-12-31 23:59:59.999999", "2024-01-01 10:05:06 UTC", " 2024-01-01", "2024-01-01 10:", "+2024-01-01"]
LINES = [
    "a\nb",
    "\n",
    "a\r\nb",
    "ab\n",
    "a\u2028b",
    "\x0b",
    "é1",
    "_a",
    "a b",
    "KK",
    "\u212a",
    "]",
    "{2}",
    "aaa",
    "$",
    "${a}",
    "\\",
    "'",
]
SECONDS = st.integers(-3_000_000_000, 6_000_000_000)
INSTANTS = st.builds(
    lambda s, us: datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(seconds=s, microseconds=us),
    SECONDS,
    st.sampled_from([0, 0, 1, 999_999, 500_000]),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "u8": st.integers(0, 255),
    "u32": st.sampled_from([0, 1, 255, 256, 2**32 - 1]),
    "u64": st.sampled_from([0, 1, 255, 2**32, 2**63 - 1, 2**63, 2**64 - 1]),
    "i16": st.sampled_from([-(2**15), -129, -1, 0, 1, 50, 127, 128, 149, 2**15 - 1]),
    "i64": st.sampled_from(
        [
            -(2**63),
            -(2**63) + 1,
            -(2**31) - 1,
            -50,
            -1,
            0,
            1,
            49,
            2**31,
            2**53 + 1,
            2**63 - 1,
            4_611_686_018_427_387_905,
        ]
    ),
    "x": st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, 0.285, 1.005, 2.5, -2.5, 1e300, -1e308, 1e16, 2.0**63, -(2.0**63), 127.9, -0.5]
    )
    | st.floats(),
    "y": st.sampled_from(
        [math.nan, math.inf, -math.inf, 0.0, 1.0, -1.0, 2.0, 0.5, 1e-320, 255.5, -128.5, 4294967295.9]
    ),
    "fine": st.decimals(-999, 999, places=6, allow_nan=False) | st.just(Decimal("0.000001")),
    "many": st.decimals(-(10**13), 10**13, places=4, allow_nan=False),
    "s": SECONDS.map(lambda s: datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=s)),
    "ms": INSTANTS.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    "us": INSTANTS,
    # Arrow's calendar of zones ends in 2037, and knows no odd seconds of local time.
    "there": INSTANTS.map(lambda at: at.replace(year=1970 + at.year % 60, day=min(at.day, 28))),
    "day": SECONDS.map(lambda s: (datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=s)).date()),
    "span": st.integers(-(10**13), 10**13).map(lambda us: datetime.timedelta(microseconds=us)),
    "text": st.sampled_from([*NUMBERS, *WORDS, *TIMES, *LINES]),
    "raw": st.sampled_from([b"", b"a", "é".encode(), b"\xff", b"\xc3", b"\x00"]),
    "made": st.fixed_dictionaries({"a": st.none() | st.integers(-5, 5), "b c": st.none() | st.text("ab", max_size=2)}),
}
ROW = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


def columns(*names: str) -> st.SearchStrategy[Expr]:
    return st.sampled_from(names).map(col)


INTEGERS = columns("u8", "u32", "u64", "i16", "i64")
ANY_NUMBER = columns("u8", "u32", "u64", "i16", "i64", "x", "y", "fine", "many")
# As seconds they are times that Spark has too.
SMALL = columns("u8", "u32", "i16", "x", "y", "fine", "many")
REALS = columns("x", "y", "fine", "many", "i64")
ANY_TIME = columns("s", "ms", "us", "there", "day")
ZONED = columns("ms", "us", "there")
NAIVE = columns("s", "day")
WIDTHS = ["tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint"]
TARGETS = [
    *WIDTHS,
    "float",
    "double",
    "decimal(5, 1)",
    "decimal(38, 10)",
    "boolean",
    "date",
    "timestamp",
    "timestamptz",
]
TARGETS += [pa.timestamp("ms"), pa.timestamp("s", "UTC"), "varchar", "blob"]
PATTERNS = [
    "^a$",
    "a.b",
    "(?s)a.b",
    "(?m)^b$",
    "(?m)^",
    "(?i)k+",
    r"\bb\b",
    r"\B",
    r"\s",
    r"[\s\]]",
    r"[^\S\n]",
    "[[:^alpha:]]",
]
PATTERNS += [
    "[]a]+",
    "{2}",
    "a{2,}",
    "a{,2}",
    r"\Q${a}\E",
    r"\x{e9}\d",
    r"[&&a]",
    "[a-]",
    r"[\w-]",
    "(?i:A)b",
    "(?P<n_1>a)(b)?",
    r"\01",
    r"\v",
]
PATTERNS += [
    "a|",
    "(|a)*",
    "(a*)+",
    "[^a]$",
    r"\\",
    "'",
    r"\pL",
    "(?U)a+",
    "a??",
    "(a)|(b)",
    "[[:punct:]]",
    r"[^\d\D]",
    "(?-s).",
    r"\z",
]
DURATIONS = st.sampled_from([datetime.timedelta(hours=-25), datetime.timedelta(microseconds=1), datetime.timedelta(0)])
BASES = st.one_of(
    st.builds(lambda a, b: a + b, INTEGERS, INTEGERS),
    st.builds(lambda a, b: a - b, INTEGERS, INTEGERS),
    st.builds(lambda a, b: a * b, INTEGERS, INTEGERS),
    st.builds(lambda a, b: a // b, REALS, REALS),
    st.builds(lambda a, b: a % b, REALS, REALS),
    st.builds(lambda a, b: a // b, INTEGERS, INTEGERS | st.sampled_from([-1, 0, 7]).map(lit)),
    st.builds(lambda a, b: a % b, INTEGERS, INTEGERS | st.sampled_from([-1, 0, 7]).map(lit)),
    st.builds(lambda a, b: a / b, ANY_NUMBER, ANY_NUMBER),
    st.builds(lambda a: -a, ANY_NUMBER | columns("span")),
    st.builds(
        lambda a, n: a.call(n), ANY_NUMBER, st.sampled_from(["abs", "sign", "floor", "ceil", "sqrt", "exp", "ln"])
    ),
    st.builds(
        lambda a, d: a.round(d), columns("u8", "i16", "i64", "x", "y"), st.sampled_from([-18, -2, -1, 1, 2, 10, 38])
    ),
    st.builds(lambda a, d: a.round(d), ANY_NUMBER, st.sampled_from([-2, -1, 0, 1, 2, 10, 38])),
    st.builds(lambda a, b: a.power(b), REALS, REALS),
    st.builds(lambda a, kind: a.cast(kind), SMALL | ANY_TIME | columns("text", "raw"), st.sampled_from(TARGETS)),
    st.builds(lambda a, kind: a.try_cast(kind), SMALL | ANY_TIME | columns("text"), st.sampled_from(TARGETS)),
    st.builds(lambda a, kind: a.cast(kind), ANY_NUMBER, st.sampled_from(WIDTHS)),
    st.builds(lambda a, kind: a.try_cast(kind), columns("text"), st.sampled_from(TARGETS)),
    st.builds(lambda a: a.cast(float), REALS),
    st.builds(lambda a: a.cast(str), ANY_TIME | columns("fine", "many", "raw", "u64")),
    st.builds(
        lambda a, kind: a.cast(kind),
        columns("u8", "i16"),
        st.sampled_from(["timestamp_s", "timestamp_ms", "timestamptz"]),
    ),
    st.builds(lambda t, part: t.call(part), ANY_TIME, st.sampled_from([*PARTS, "epoch_us", "epoch_ms", "date"])),
    st.builds(
        lambda t, unit: t.dt.truncate(unit),
        ANY_TIME,
        st.sampled_from(["1500us", "1s", "7s", "1d", "week", "month", "quarter", "year", "36h", "3us", "1ms"]),
    ),
    st.builds(
        lambda t, form: t.dt.format(form), ANY_TIME, st.sampled_from(["%Y'%m''%%", "%T.%f", "%d %j %y", "at $ %H:%M"])
    ),
    st.builds(lambda a, d: a + d, ANY_TIME, DURATIONS | columns("span")),
    st.builds(lambda a, d: a - d, ANY_TIME | columns("span"), DURATIONS | columns("span")),
    st.builds(lambda d, a: d + a, columns("span"), ANY_TIME),
    st.builds(lambda a, b: a - b, ANY_TIME, ANY_TIME),
    st.builds(compare, ANY_NUMBER, ANY_NUMBER, SIGNS),
    st.builds(compare, ANY_TIME, ANY_TIME, SIGNS),
    st.builds(compare, columns("span"), DURATIONS.map(lit), SIGNS),
    st.builds(compare, columns("raw"), st.sampled_from([b"", b"\xc3"]).map(lit), SIGNS),
    st.builds(lambda t: t == "2024-01-01", ANY_TIME),
    st.builds(lambda a: a.is_in([b"a", None]), columns("raw")),
    st.builds(lambda a: a.is_in([datetime.date(2024, 2, 29), datetime.date(1970, 1, 1)]), columns("day")),
    st.builds(lambda p: col("text").str.regexp_matches(p), st.sampled_from(PATTERNS)),
    st.builds(lambda p: col("text").str.regexp_extract(p), st.sampled_from(PATTERNS)),
    st.builds(
        lambda p: col("text").str.like(p),
        st.sampled_from(["%\n%", "_", "%!%", "!_", "a_b", "\\", "%'%", "${a}", "%.%"]),
    ),
    st.builds(lambda f: col("text").call(f), st.sampled_from(["upper", "lower", "length"])),
    st.builds(lambda p: col("text").str.split_part(p, 2), st.sampled_from([".", "\n", "$", "a", "\\E"])),
    st.builds(lambda c: col("text").str.count_char(c), st.sampled_from([".", "\n", "$", "1", "\\"])),
    st.builds(lambda c: col("text").str.trim(c), st.sampled_from([" ", "\n", "'a", "$", "]1"])),
    st.builds(lambda n: col("made")[n], st.sampled_from(["a", "b c"])),
)
WHOLE = st.one_of(
    BASES,
    BASES,
    st.builds(lambda c, a: when(c.is_null()).then(None).otherwise(a), BASES, BASES),
    st.builds(
        lambda c, a, b: when(c > 0).then(a).otherwise(b), INTEGERS, columns("i64"), INTEGERS.map(lambda a: a + 1)
    ),
    st.builds(lambda a, b: coalesce(a, b), INTEGERS.map(lambda a: a * 1000), INTEGERS.map(lambda a: a * 3)),
    st.builds(lambda a: a.fill_null(0) * 2**62, INTEGERS),
    st.builds(lambda a: concat(a.cast(str), "$", "\\'"), INTEGERS),
)
