"""Buckets as pages: what comes back is what was stored, or an error."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.paging.bucket_pages import PAGE_BYTES, drop_bucket, headers, read_bucket, write_bucket
from penstock.engine.paging.ring import RING, Span
from penstock.model.errors import StateCorruptionError
from penstock.state.image import Part
from penstock.state.page_store import PageStore
from tests.engine.paging.shelves import Shelves

notes_drawn = st.dictionaries(
    st.text(max_size=5),
    st.one_of(
        st.none(),
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.floats(allow_nan=False),
        st.text(max_size=5),
        st.binary(max_size=5),
    ),
    max_size=5,
)


def part_of(rows: int) -> Part:
    """Return a part of incompressible rows, 8 bytes each."""
    values = np.random.default_rng(rows).integers(0, 1 << 60, rows)
    tables = [pa.record_batch({"x": values}), pa.record_batch({"x": values[:3]})]
    return Part({"table": tables, "log": [pa.record_batch({"y": ["a"]})]})


def open_pages() -> PageStore:
    return Shelves().open(8 << 20)


@given(notes_drawn, st.sampled_from([None, 0, 10, 8_000, 30_000]), st.sampled_from([None, 0, 30_000]))
def test_a_bucket_comes_back(notes: dict[str, Any], rows: int | None, before: int | None) -> None:
    pages, span = open_pages(), Span(5, 9)
    size = 0
    if before is not None:
        size = write_bucket(pages, span, part_of(before), {"old": 1})
    part = None if rows is None else part_of(rows)
    size = write_bucket(pages, span, part, notes, size)
    found = read_bucket(pages, 5)
    assert found.notes == notes
    assert {name: type(value) for name, value in found.notes.items()} == {k: type(v) for k, v in notes.items()}
    assert (found.part is None) == (part is None)
    if part is not None:
        assert found.part == part
    (header,) = headers(pages)
    assert (header.span, header.image_bytes) == (span, size)
    drop_bucket(pages, 5)
    assert not list(headers(pages)) and not list(pages.scan(b"", b"\xff" * 10))


def test_buckets_are_found_in_order_with_gaps_between_them() -> None:
    pages = open_pages()
    spans = [Span(1 << 31, RING), Span(0, 7), Span(7, 8), Span(100, 1 << 30)]
    for span in spans:
        write_bucket(pages, span, part_of(20_000), {"low": span.low})
    assert [header.span for header in headers(pages)] == sorted(spans)
    drop_bucket(pages, 7)
    assert [header.low for header in headers(pages)] == [0, 100, 1 << 31]
    assert read_bucket(pages, 0).notes == {"low": 0}


def cut_short(pages: PageStore, key: bytes, page: bytes) -> None:
    pages.put_many([(key, page[:-1])])


def lose(pages: PageStore, key: bytes, page: bytes) -> None:
    pages.delete_range(key, key + b"\0")


def scramble(pages: PageStore, key: bytes, page: bytes) -> None:
    pages.put_many([(key, bytes(len(page)))])


@pytest.mark.parametrize(
    ("harm", "number"),
    # Values of rows may be anything; there the page store has checksums.
    [*((harm, number) for harm in (cut_short, lose) for number in (0, 1, 2, -1)), (scramble, 0), (scramble, 1)],
)
def test_what_is_not_whole_is_an_error(harm: Callable[..., None], number: int) -> None:
    pages = open_pages()
    size = write_bucket(pages, Span(5, 9), part_of(20_000), {"note": "x" * 20})
    assert size > 2 * PAGE_BYTES
    stored = list(pages.scan(b"", b"\xff" * 10))
    harm(pages, *stored[number])
    with pytest.raises(StateCorruptionError):
        read_bucket(pages, 5)


def test_a_bucket_that_is_not_there_is_an_error() -> None:
    with pytest.raises(StateCorruptionError, match="position 5 is not in its page store"):
        read_bucket(open_pages(), 5)
