"""The page of a validation: right numbers, nothing that data can break out of, nothing from outside."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.replay.grades import AggregateGrade, GradedRow, QueryGrade
from penstock.replay.report import MOST_BYTES, page, write_report
from penstock.replay.report_wording import verdict
from penstock.replay.validation_result import (
    ComparisonStatus,
    DifferenceKind,
    Example,
    QueryValidation,
    SourceRange,
    Validation,
)
from tests.replay.validations import DIFFERS, SAME, SKIPPED, a_query, a_window, validation


def parsed(found: Validation) -> ElementTree.Element:
    """Return the page as a tree, which a page that is not well-formed has not."""
    text = page(found)
    assert text.startswith("<!DOCTYPE html>\n")
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))


def words(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def rows(tree: ElementTree.Element, title: str) -> list[list[str]]:
    """Return the cells of the table with a caption."""
    (found,) = [table for table in tree.iter("table") if words(table).startswith(title)]
    return [[words(cell) for cell in row] for row in found.iter("tr")]


def test_the_numbers_are_those_of_the_validation() -> None:
    tree = parsed(validation(DIFFERS, SAME, SKIPPED))
    assert rows(tree, "Every query") == [
        ["query", "verdict", "exact rows", "missing", "extra", "different", "windows that differ", "over time"],
        ["hot", "differs", "12,066", "7", "5", "1", "2", ""],
        ["calm", "same", "1,200", "0", "0", "0", "0", ""],
        ["alerts", "not compared", "–", "–", "–", "–", "–", ""],
    ]
    tiles = [words(item) for item in tree.iter("div") if item.get("class") in ("tile", "bad")][:6]
    assert tiles == ["exact rows12,066", "stream rows12,064", "same12,058", "missing7", "extra5", "different1"]
    assert rows(tree, "Windows of hot") == [
        ["window (UTC)", "exact rows", "stream rows", "missing", "extra", "different"],
        ["2026-03-02 09:00:30 to 09:00:40", "1,003", "996", "7", "0", "1"],
        ["2026-03-02 09:01:20 to 09:01:30", "1,008", "1,013", "0", "5", "0"],
    ]
    assert rows(tree, "bids, topic bids: 8,100 rows")[1:] == [
        ["0", "1,200", "5,200", "4,000"],
        ["1", "0", "4,100", "4,100"],
    ]
    assert "Not compared: its timers are of processing time." in words(tree)


def test_differing_values_are_marked() -> None:
    tree = parsed(validation(DIFFERS))
    assert rows(tree, "Rows of hot") == [
        ["difference", "side", "id (key)", "n", "who"],
        ["different", "stream", "1", "41", "ana"],
        ["exact", "1", "42", "ana"],
        ["missing", "exact", "2", "3", "null"],
        ["extra", "stream", "3", "4", "empty"],
    ]
    assert [mark.text for mark in tree.iter("mark")] == ["41", "42"]


def test_long_values_show_where_they_part() -> None:
    one, other = {"v": "a" * 500 + "x"}, {"v": "a" * 500 + "y"}
    query = a_query([a_window(0, different=1)], examples=[Example(DifferenceKind.DIFFERENT, {}, one, other)])
    stream, exact = [mark.text or "" for mark in parsed(validation(query)).iter("mark")]
    assert stream.rstrip("…").endswith("ax")
    assert exact.rstrip("…").endswith("ay")
    assert len(stream) < 70


def test_the_chart_tells_its_numbers() -> None:
    tree = parsed(validation(DIFFERS))
    (chart,) = [svg for svg in tree.iter("svg") if svg.get("aria-labelledby")]
    titles = [title.text or "" for path in chart.iter("path") for title in path.iter("title")]
    assert len(titles) == 12
    assert titles[3] == "09:00:30\n1,003 exact rows\n996 in the stream\n7 missing\n1 different"
    assert titles[4] == "09:00:40\n1,004 exact rows\nall the same"
    texts = [text.text for text in chart.iter("text")]
    assert [text for text in texts if text in tuple(DifferenceKind)] == ["missing", "extra", "different"]
    assert "max 7" in texts
    assert "start of the window (UTC), 2 March 2026" in texts
    assert "windows start every 10 s" in words(tree)


def test_without_times_there_is_no_chart() -> None:
    timeless = replace(a_window(0, missing=1), window_start=None, window_end=None)
    tree = parsed(validation(a_query([timeless])))
    assert not [svg for svg in tree.iter("svg") if svg.get("aria-labelledby")]
    assert rows(tree, "Windows of hot")[1][0] == "no window"


def test_accuracy_is_shown_where_it_is_known() -> None:
    shed = [
        a_window(0, rows_expected=500, rows_used=450, promised_accuracy=0.9, biased=False),
        a_window(1, rows_expected=500, rows_used=400, promised_accuracy=0.9, biased=False),
        a_window(2, rows_expected=500, rows_used=449, promised_accuracy=0.9, biased=False),
    ]
    tree = parsed(validation(a_query(shed, rows_expected=1500, rows_used=1299, promised_accuracy=0.9)))
    assert "0 windows that differ, 1 below the minimum" in words(tree)
    names, line = rows(tree, "Windows of hot")
    assert names[6:] == [
        "rows expected",
        "rows used",
        "promised",
        "accuracy",
        "biased",
    ]
    assert line[6:] == ["500", "400", "90%", "80%", "no"]
    assert "86.6% of the source rows went into the answer, 90% were promised; 2 windows fell short of that." in words(
        tree
    )
    assert "accuracy" not in words(parsed(validation(DIFFERS)))


def test_data_cannot_break_out() -> None:
    evil = "<script>alert('\"&')</script>"
    row: dict[str, Any] = {evil: evil, "list": [evil]}
    query = a_query(
        [a_window(0, missing=1), a_window(1)],
        evil,
        keys=(evil,),
        examples=[Example(DifferenceKind.MISSING, {evil: evil}, None, row)],
    )
    sources = (SourceRange(evil, evil, {0: 1}, {0: 2}, 1), SourceRange(evil))
    skipped = QueryValidation(query=evil, mode=evil, why=evil)
    found = replace(validation(query, skipped, job=evil, sources=sources), penstock=evil, spark=evil)
    assert "<script" not in page(found)
    tree = parsed(found)
    assert words(tree).count(evil) > 10
    assert not [element for element in tree.iter() if any(name.startswith("on") for name in element.attrib)]


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_any_text_leaves_the_page_well_formed(text: str) -> None:
    query = a_query([a_window(0, missing=1)], text, examples=[Example(DifferenceKind.MISSING, {}, None, {text: text})])
    found = validation(query, job=text)
    page(found).encode()
    parsed(found)


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(validation(DIFFERS, SAME, SKIPPED), path)
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"https?:|//|url\(|@import|<script|<link|<img|<iframe|\bsrc=", text)
    assert "default-src 'none'" in text
    assert set(re.findall(r'href="([^"]*)"', text)) == {"#q0", "#q1", "#q2"}


def test_everything_has_a_name_for_those_who_do_not_see_it() -> None:
    tree = parsed(validation(DIFFERS, SAME, SKIPPED))
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {element.get("aria-labelledby") for element in tree.iter()} - {None} <= set(ids)
    for table in tree.iter("table"):
        assert words(table.find("caption"))  # type: ignore[arg-type]
        assert all(head.get("scope") for head in table.iter("th"))
    for svg in tree.iter("svg"):
        assert svg.get("aria-label") or svg.get("aria-labelledby") or svg.get("aria-hidden")
    for region in (element for element in tree.iter("div") if element.get("role") == "region"):
        assert region.get("aria-label")
        assert region.get("tabindex") == "0"


@pytest.mark.parametrize("queries", [1, 22])
def test_a_page_stays_small(queries: int) -> None:
    windows = [a_window(number, 10_000 + number, missing=number % 7) for number in range(10_000 // queries)]
    examples = [
        Example(DifferenceKind.DIFFERENT, {"id": number}, {f"c{i}": "x" * 500 for i in range(30)}, {"c1": None})
        for number in range(100)
    ]
    found = validation(*(a_query(windows, f"q{number}", examples=examples) for number in range(queries)))
    assert len(page(found).encode()) < MOST_BYTES
    tree = parsed(found)
    said = f"of {sum(window.differs for window in windows):,} windows are shown"
    assert words(tree).count(said) == queries
    assert words(tree).count("of 100 examples are shown") == queries
    assert len(page(validation(*[a_shed_query(1_000)] * queries)).encode()) < MOST_BYTES


def test_many_partitions_are_folded() -> None:
    ends = dict.fromkeys(range(9), 10)
    tree = parsed(validation(SAME, sources=[SourceRange("s", "t", dict.fromkeys(ends, 0), ends, None)]))
    assert "s, topic t, 9 partitions" in [words(summary) for summary in tree.iter("summary")]


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ([], "Nothing was compared."),
        ([SKIPPED], "Nothing was compared."),
        ([SAME], "The stream gave the exact answer."),
        ([SAME, SKIPPED], "The stream gave the exact answer in the query that was compared."),
        ([SAME, SAME, SKIPPED], "The stream gave the exact answer in the 2 queries that were compared."),
        ([DIFFERS], "The stream differs from the exact answer."),
        ([DIFFERS, SKIPPED], "The stream differs from the exact answer."),
        ([DIFFERS, SAME, SKIPPED], "The stream differs from the exact answer in 1 of 2 queries."),
    ],
)
def test_the_verdict(queries: list[QueryValidation], said: str) -> None:
    found = validation(*queries)
    assert verdict(found) == said
    tree = parsed(found)
    assert [words(title) for title in tree.iter("h1")] == [said]
    assert words(next(tree.iter("title"))) == f"auctions: {found.status}"


def a_shed_query(windows: int = 12) -> QueryValidation:
    drawn = [
        GradedRow(
            key={"shop": "<b>"},
            window_start=a_window(number).window_start,
            window_end=a_window(number).window_end,
            aggregate="n",
            rows_expected=100,
            rows_used=50,
            promised_accuracy=0.5,
            true_accuracy=0.5,
            accuracy=0.51,
            exact=100.0,
            estimate=90.0 + number,
            low=80.0 + number,
            high=99.5 + number,
            certified=True,
            covered=number > 0,
            biased=False,
            vanished=False,
        )
        for number in range(windows)
    ]
    grade = AggregateGrade(
        aggregate="n", rows=12, vanished=1, intervals=12, covered=11, mean_error=0.02, bias=-0.5, accuracy_error=0.01
    )
    shed = [
        a_window(
            number,
            vanished=number == 2,
            estimated=99,
            rows_expected=1_000,
            rows_used=500,
            promised_accuracy=0.5,
            intervals=1,
            intervals_covered=number > 0,
            mean_error=0.02,
        )
        for number in range(windows)
    ]
    shed = [replace(window, rows_stream=window.rows_exact - window.vanished) for window in shed]
    return a_query(
        shed,
        "shed",
        vanished=1,
        estimated=99 * windows,
        rows_expected=1_000 * windows,
        rows_used=500 * windows,
        promised_accuracy=0.5,
        grade=QueryGrade(aggregates=[grade], drawn=drawn, counted=True),
    )


def test_grades_are_a_table_and_pictures() -> None:
    tree = parsed(validation(a_shed_query()))
    assert rows(tree, "Estimates of shed") == [
        ["column", "results", "vanished", "biased", "intervals", "coverage", "mean error", "bias", "accuracy off"],
        ["n", "12", "1", "0", "12", "91.67%", "2%", "-0.50", "1%"],
    ]
    captions = [words(item) for item in tree.iter("figcaption")]
    assert captions[1:] == [
        "Mean relative error of estimates, and share of intervals with the exact value",
        "n of shop=<b>: the exact value as a line, 95% intervals as bars",
    ]
    (intervals,) = [svg for svg in tree.iter("svg") if words(svg).startswith("intervals of n in shed")]
    bars = [path for path in intervals.iter("path") if path.get("class") in ("bar", "mark")]
    assert [path.get("class") for path in bars] == ["mark", *["bar"] * 11]
    assert words(bars[0]) == "09:00:00 exact 100 estimate 90 low 80 high 99.5"
    said = words(tree)
    assert "11 of 1,200 exact rows are the same; rows were shed for the others, 1,188 of which are estimated." in said
    assert "1 result vanished: too few of its rows were kept." in said
    assert [words(title) for title in tree.iter("h1")] == ["The stream gave estimates as accurate as it had promised."]


def test_a_window_below_its_minimum_is_named() -> None:
    query = a_shed_query()
    low = replace(query.windows[3], rows_used=400)
    query = replace(query, windows=[*query.windows[:3], low, *query.windows[4:]])
    assert query.status is ComparisonStatus.BELOW_MINIMUM
    tree = parsed(validation(query, SAME))
    assert "1 window used fewer rows than chance allows at the minimum." in words(tree)
    assert [words(title) for title in tree.iter("h1")] == [
        "The stream used fewer rows than it had promised in 1 of 2 queries."
    ]
