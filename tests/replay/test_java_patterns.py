"""Patterns of RE2 match the same in Spark as in our stream: random ones, and those that both write alike."""

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.model.expressions import Expr, col
from penstock.model.regular_expressions import complaint
from penstock.replay.java_patterns import ForeignPatternError, to_java
from tests.replay.spark_answers import check, drawn, in_spark

SCHEMA = pa.schema([("text", pa.string())])
ALPHABET = "ab1_ \n\r\t\x0b\u2028éK\u212aſ😀].-^$\\{}|,'"
TEXTS = st.text(st.sampled_from(ALPHABET), max_size=6)
PIECES = [
    *"ab1_ .^$]}-,'é😀{",
    "\\n",
    "\\.",
    "\\\\",
    "\\d",
    "\\D",
    "\\s",
    "\\S",
    "\\w",
    "\\W",
    "\\b",
    "\\A",
    "\\z",
    "\\v",
]
PIECES += [
    "[ab]",
    "[^a]",
    "[]a]",
    "[^]\\n]",
    "[a-]",
    "[-1]",
    "[\\w.]",
    "[^\\s1]",
    "[[:alpha:]_]",
    "[^[:space:]]",
    "[&&a]",
    "[[]",
    "[\\]^]",
]
PIECES += ["(", ")", "(?:", "(?P<x_1>", "(?i)", "(?i:", "(?s)", "(?s:", "(?m)", "(?-s:", "(?im)", "|", "|"]
PIECES += [
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{1,2}",
    "{0,}",
    "{,2}",
    "{2",
    "\\x61",
    "\\x{1F600}",
    "\\141",
    "\\Qa.|\\E",
]
PATTERNS = (
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join).filter(lambda text: complaint(text) is None)
)


def test_random_patterns_match_the_same(spark: SparkSession) -> None:
    texts = [*drawn(TEXTS, 150), "a\n", "\n", "a\nb", "é1", "kK\u212a"]
    patterns = list(dict.fromkeys(drawn(PATTERNS, 150)))
    expressions = [expression for text in patterns for expression in _uses(text)]
    assert check(in_spark(spark, pa.table([texts], SCHEMA)), SCHEMA, expressions) > 150


def _uses(pattern: str) -> list[Expr]:
    text = col("text").str
    groups = 1 if "(" in pattern.replace("(?", "") else 0
    return [text.regexp_matches(pattern), text.regexp_extract(pattern, groups)]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?U)a", r"\(\?U\)"),
        (r"\pL", "version of Unicode"),
        ("(?i)é", "version of Unicode"),
        ("(a|b*){2}", "match nothing"),
        ("(?:ab)+c", "without end"),
        ("(a){2,}", "without end"),
        (r"a\B", "bytes"),
        ("a(?i)+", "before flags"),
    ],
)
def test_what_is_not_sure_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ForeignPatternError, match=why):
        to_java(pattern)
