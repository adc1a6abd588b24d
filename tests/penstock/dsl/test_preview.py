"""The first rows of a stream, whatever the stream is."""

from collections.abc import Iterator
from typing import Any

import pytest

import penstock as ps
from penstock import col
from tests.penstock.front_door import ORDERS, orders


def test_the_first_rows_of_a_stream_leave_its_sinks_alone() -> None:
    stream = orders().filter(col("price") > 2)
    result = stream.collect()
    assert stream.preview(2).rows() == [ORDERS[0], ORDERS[1]]
    with pytest.raises(ps.PlanError, match="run the job first"):
        result.table()


def test_an_endless_stream_is_read_no_further_than_needed() -> None:
    given = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal given
        while True:
            given += 1
            yield {"n": given}

    stream = ps.read_iterable(endless(), schema={"n": "int64"}, job=ps.Job())
    assert [row["n"] for row in stream.preview(5).rows()] == [1, 2, 3, 4, 5]


def test_it_says_whether_there_is_more() -> None:
    assert "3 rows, more may follow" in repr(orders().preview(3))
    assert "6 rows, all there are" in repr(orders().preview())
    assert "1 row, more may follow" in repr(orders().preview(1))


def test_an_updating_stream_is_shown_as_it_stands() -> None:
    found = orders().key_by("item").agg(n=ps.count()).preview()
    assert sorted(found.rows(), key=lambda row: str(row["item"])) == [
        {"item": None, "n": 1},
        {"item": "ink", "n": 2},
        {"item": "pen", "n": 3},
    ]
    assert "updating" in repr(found)


def test_markup_in_the_data_is_text_in_the_table() -> None:
    stream = ps.read_memory([{"a<b": "<script>", "c": None}], job=ps.Job())
    page = stream.preview()._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "a&lt;b" in page


def test_words_stand_to_the_left_of_their_column_and_figures_to_the_right() -> None:
    page = ps.read_memory([{"item": "pen", "price": 1.5}], job=ps.Job()).preview()._repr_html_()
    assert page.count("text-align:left") == page.count("text-align:right") == 2
    assert "<td style='text-align:left;white-space:nowrap'>pen</td>" in page


def test_a_notebook_gets_the_text_and_no_output_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = repr(orders().preview())
    assert "pen" in text and "\x1b" not in text


def test_a_silent_stream_is_given_up_on() -> None:
    def silent() -> Iterator[None]:
        while True:
            yield None

    stream = ps.read_iterable(silent(), schema={"n": "int64"}, job=ps.Job())
    found = stream.preview(timeout="50ms")
    assert len(found) == 0
    assert "0 rows, more may follow" in repr(found)


def test_arrow_libraries_take_it() -> None:
    import polars

    assert polars.DataFrame(orders().preview(2)).height == 2


def test_no_rows_are_no_preview() -> None:
    with pytest.raises(ps.OptionError, match="rows"):
        orders().preview(0)
