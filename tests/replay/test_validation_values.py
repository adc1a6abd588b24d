"""A validation's values and `validation.json`: the schema as it is promised, and back again."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from penstock.model.errors import BugError, UserError
from penstock.replay import window_counts
from penstock.replay.grades import AggregateGrade, GradedRow, QueryGrade
from penstock.replay.validation_json import to_json
from penstock.replay.validation_result import (
    ComparisonStatus,
    DifferenceKind,
    Example,
    JsonValue,
    QueryValidation,
    SourceRange,
    Validation,
    WindowResult,
)
from tests.replay.validation_reading import from_json

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

WINDOW = WindowResult(
    window_start=START,
    window_end=START + timedelta(seconds=10),
    rows_exact=10,
    rows_stream=9,
    missing=2,
    extra=1,
    different=3,
)
QUERY = QueryValidation(
    query="hot",
    mode="append",
    keys=("auction", "at"),
    rows_exact=10,
    rows_stream=9,
    missing=2,
    extra=1,
    different=3,
    windows=(WINDOW,),
    examples=(Example(DifferenceKind.DIFFERENT, {"auction": 7}, {"auction": 7, "n": 1}, {"auction": 7, "n": 2}),),
)
SOURCE = SourceRange("bids", "bids", {0: 5, 10: 0, 2: 7}, {0: 9, 10: 4, 2: 7}, 8)
VALIDATION = Validation("job", START, "0.1.0", "4.3.0", (SOURCE,), (QUERY,))

ACCURACY = {"rows_expected": None, "rows_used": None, "promised_accuracy": 1.0, "true_accuracy": None}
ROWS = {"rows_exact": 10, "rows_stream": 9, "missing": 2, "extra": 1, "different": 3}


def test_the_file_has_the_schema_that_is_promised() -> None:
    estimate = dict.fromkeys(("mean_error", "biased"))
    shed = {"estimated": 0, "vanished": 0, "emerged": 0}
    intervals = {"intervals": 0, "intervals_covered": 0}
    times = {"window_start": "2026-03-02T09:00:00+00:00", "window_end": "2026-03-02T09:00:10+00:00"}
    assert json.loads(to_json(VALIDATION)) == {
        "version": 1,
        "job": "job",
        "created": "2026-03-02T09:00:00+00:00",
        "penstock": "0.1.0",
        "spark": "4.3.0",
        "kept": None,
        "status": "differs",
        "sources": [
            {
                "source": "bids",
                "topic": "bids",
                "from": {"0": 5, "2": 7, "10": 0},
                "to": {"0": 9, "2": 7, "10": 4},
                "rows": 8,
                "offsets_left_out": None,
            }
        ],
        "queries": [
            {
                "query": "hot",
                "mode": "append",
                "keys": ["auction", "at"],
                "status": "differs",
                "why": None,
                **ROWS,
                "same": 5,
                **shed,
                **ACCURACY,
                "biased": None,
                "queued": None,
                "grade": None,
                "windows": [times | ROWS | shed | ACCURACY | intervals | estimate],
                "windows_left_out": 0,
                "examples": [
                    {
                        "status": "different",
                        "key": {"auction": 7},
                        "stream": {"auction": 7, "n": 1},
                        "exact": {"auction": 7, "n": 2},
                    }
                ],
                "open": 0,
                "notes": [],
                "correction": None,
            }
        ],
    }


def test_it_comes_back_as_it_was() -> None:
    shed = replace(
        WINDOW,
        window_start=datetime(2026, 3, 2),
        window_end=None,
        rows_expected=50,
        rows_used=45,
        promised_accuracy=0.8,
        biased=True,
    )
    skipped = QueryValidation(
        query="later", mode="upsert", why="its clock", windows_left_out=4, open=3, notes=("a note",)
    )
    row = GradedRow(
        key={"shop": "s1"},
        window_start=START,
        window_end=None,
        aggregate="n",
        promised_accuracy=0.5,
        vanished=True,
        **dict.fromkeys(
            ("rows_expected", "rows_used", "true_accuracy", "accuracy", "exact", "estimate", "low", "high")
        ),
        **dict.fromkeys(("certified", "covered", "biased")),
    )
    grade = QueryGrade(
        aggregates=(AggregateGrade(aggregate="n", rows=4, intervals=4, covered=3),), drawn=(row,), files="f"
    )
    graded = replace(QUERY, windows=(WINDOW, shed), estimated=1, grade=grade)
    whole = replace(VALIDATION, queries=(graded, skipped), sources=(SourceRange("x"),))
    assert from_json(to_json(whole), "f") == whole
    assert from_json(to_json(VALIDATION).encode(), "f") == VALIDATION


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner), max_leaves=6)


@given(values)
def test_every_value_stays_as_it_is(value: JsonValue) -> None:
    example = Example(DifferenceKind.EXTRA, {}, {"value": value}, None)
    whole = replace(VALIDATION, queries=(replace(QUERY, examples=(example,)),))
    assert from_json(to_json(whole), "f") == whole


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "holds no validation"),
        ("no json", "holds no validation"),
        ('{"version": 1}', "holds no validation .KeyError"),
        (to_json(VALIDATION).replace('"version": 1', '"version": 2'), "of version 2.* reads 1"),
        (to_json(VALIDATION).replace('"missing": 2', '"missing": 4'), "do not leave the same rows"),
    ],
)
def test_what_is_no_validation_is_refused(text: str, why: str) -> None:
    with pytest.raises(UserError, match=f"here.json.*{why}"):
        from_json(text, "here.json")


def test_counts_have_to_add_up() -> None:
    with pytest.raises(BugError, match="query 'q': 10 exact rows of which 1 are missing and 10 stream rows"):
        QueryValidation(query="q", mode="append", rows_exact=10, rows_stream=10, missing=1)
    with pytest.raises(BugError, match="the 11 that are different"):
        QueryValidation(query="q", mode="append", rows_exact=10, rows_stream=10, different=11)


def test_status() -> None:
    same = QueryValidation(query="q", mode="append", rows_exact=1, rows_stream=1)
    skipped = QueryValidation(query="q", mode="append", why="so")
    statuses = [(query.status, query.same) for query in (QUERY, same, skipped)]
    assert statuses == [(ComparisonStatus.DIFFERS, 5), (ComparisonStatus.SAME, 1), (ComparisonStatus.NOT_COMPARED, 0)]

    shed = replace(same, grade=QueryGrade())
    window = replace(WINDOW, missing=0, extra=0, different=0, rows_expected=1_000, rows_used=400, promised_accuracy=0.5)
    short = replace(shed, windows=(window,))
    assert [(query.status, query.status.passes) for query in (shed, short, QUERY)] == [
        (ComparisonStatus.ESTIMATED, True),
        (ComparisonStatus.BELOW_MINIMUM, False),
        (ComparisonStatus.DIFFERS, False),
    ]

    def status(*queries: QueryValidation) -> ComparisonStatus:
        return replace(VALIDATION, queries=queries).status

    assert status(same, QUERY, skipped) is ComparisonStatus.DIFFERS
    assert status(same, short, shed) is ComparisonStatus.BELOW_MINIMUM
    assert status(same, shed, skipped) is ComparisonStatus.ESTIMATED
    assert status(same, skipped) is ComparisonStatus.SAME
    assert status(skipped) is status() is ComparisonStatus.NOT_COMPARED


def test_accuracy() -> None:
    assert WINDOW.true_accuracy is None
    assert not WINDOW.short
    known = replace(WINDOW, rows_expected=50, rows_used=45, promised_accuracy=0.9)
    assert known.true_accuracy == 0.9
    assert not known.short
    assert replace(known, rows_used=44).short
    assert replace(known, rows_expected=0, rows_used=0).true_accuracy is None


def test_windows_that_differ_are_listed_first_and_all_in_order_of_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_counts, "MOST_WINDOWS", 4)
    columns = window_counts.SUMMED
    kinds = ", ".join(["`$start` TIMESTAMP_NTZ", "`$end` TIMESTAMP_NTZ", *(f"{name} BIGINT" for name in columns)])
    starts = [None if minute is None else datetime(2026, 3, 2, 9, minute) for minute in (5, 1, 4, None, 2, 3)]
    zeros = (0,) * (len(columns) - 5)
    rows = [
        (start, start, 1, 1, 0, 0, int(differs), *zeros)
        for start, differs in zip(starts, (1, 0, 1, 0, 0, 1), strict=True)
    ]
    counts = spark.createDataFrame(rows, kinds)
    listed, left_out = window_counts.window_results(counts, 0.9, counted=False, graded=False)
    assert left_out == 2
    assert [window.window_start for window in listed] == [
        None,
        *(datetime(2026, 3, 2, 9, minute) for minute in (3, 4, 5)),
    ]
    assert [window.differs for window in listed] == [False, True, True, True]
