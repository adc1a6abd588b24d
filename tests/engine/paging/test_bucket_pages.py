"""Buckets as pages: what comes back is what was stored, or an error."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.paging.bucket_pages import (
    PAGE_BYTES,
    append_image,
    drop_bucket,
    headers,
    read_bucket,
    write_image,
)
from penstock.engine.paging.key_ranges import RING, Span
from penstock.engine.paging.part_files import encode_part
from penstock.model.errors import StateCorruptionError
from penstock.state.stores.page_store import PageStore
from penstock.state.tables.image import StoreDump
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


def part_of(rows: int) -> StoreDump:
    """Return a part of incompressible rows, 8 bytes each."""
    values = np.random.default_rng(rows).integers(0, 1 << 60, rows)
    tables = [pa.record_batch({"x": values}), pa.record_batch({"x": values[:3]})]
    return StoreDump({"table": tables, "log": [pa.record_batch({"y": ["a"]})]})


def image(part: StoreDump) -> pa.Buffer | None:
    return encode_part(part) if part.batches else None


def open_pages() -> PageStore:
    return Shelves().open(8 << 20)


@given(notes_drawn, st.sampled_from([None, 0, 10, 8_000, 30_000]), st.sampled_from([None, 0, 30_000]))
def test_a_bucket_comes_back(notes: dict[str, Any], rows: int | None, before: int | None) -> None:
    pages, span = open_pages(), Span(5, 9)
    lengths: tuple[int, ...] = ()
    if before is not None:
        lengths = write_image(pages, span, image(part_of(before)), {"old": 1})
        lengths = append_image(pages, span, image(part_of(before)), {"old": 2}, lengths)
    part = None if rows is None else part_of(rows)
    lengths = write_image(pages, span, None if part is None else image(part), notes, lengths)
    found = read_bucket(pages, 5)
    assert found.notes == notes
    assert {name: type(value) for name, value in found.notes.items()} == {k: type(v) for k, v in notes.items()}
    assert (found.part is None) == (part is None)
    if part is not None:
        assert found.part == part
    (header,) = headers(pages)
    assert (header.span, header.segments, header.image_bytes) == (span, lengths, sum(lengths))
    drop_bucket(pages, 5)
    assert not list(headers(pages)) and not list(pages.scan(b"", b"\xff" * 10))


@given(st.lists(st.sampled_from([None, 0, 10, 8_000, 30_000]), min_size=1, max_size=4))
def test_what_is_appended_comes_back_behind_the_rest(rows: list[int | None]) -> None:
    pages, span = open_pages(), Span(5, 9)
    lengths = write_image(pages, span, image(part_of(5)), {})
    batches = {name: list(found) for name, found in part_of(5).batches.items()}
    for number, count in enumerate(rows):
        part = StoreDump({}) if count is None else part_of(count)
        lengths = append_image(pages, span, image(part), {"number": number}, lengths)
        for name, found in part.batches.items():
            batches[name].extend(found)
    found = read_bucket(pages, 5)
    assert (found.part, found.notes) == (StoreDump(batches), {"number": len(rows) - 1})
    (header,) = headers(pages)
    assert header.segments == lengths
    assert len(lengths) == 1 + sum(count is not None for count in rows)


def test_buckets_are_found_in_order_with_gaps_between_them() -> None:
    pages = open_pages()
    spans = [Span(1 << 31, RING), Span(0, 7), Span(7, 8), Span(100, 1 << 30)]
    for span in spans:
        write_image(pages, span, image(part_of(20_000)), {"low": span.low})
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
    lengths = write_image(pages, Span(5, 9), image(part_of(10_000)), {"note": "x" * 20})
    (*_, last) = append_image(pages, Span(5, 9), image(part_of(10_000)), {"note": "x" * 20}, lengths)
    assert min(last, *lengths) > PAGE_BYTES
    stored = list(pages.scan(b"", b"\xff" * 10))
    harm(pages, *stored[number])
    with pytest.raises(StateCorruptionError):
        read_bucket(pages, 5)


def test_a_bucket_that_is_not_there_is_an_error() -> None:
    with pytest.raises(StateCorruptionError, match="position 5 is not in its page store"):
        read_bucket(open_pages(), 5)
