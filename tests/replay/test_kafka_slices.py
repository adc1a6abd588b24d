"""Slices have every row of their ranges once, and none that is not in them: against rows counted one by one."""

from collections.abc import Iterable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock.replay.kafka_slices import OffsetRange, RowPosition, Slice, cut, offset_range, ranges_between, split

ROWS = 3
"""How many rows a message has."""

Row = tuple[str, int, int, int]

places = st.builds(RowPosition, st.integers(0, 40), st.integers(0, ROWS - 1))


@st.composite
def offset_ranges(draw: st.DrawFn, topic: str = "t", partition: int = 0) -> OffsetRange:
    start, stop = sorted([draw(places), draw(places)])
    return OffsetRange(topic, partition, start, stop)


def rows_of(item: OffsetRange) -> list[Row]:
    return [
        (item.topic, item.partition, offset, row)
        for offset in range(item.start.offset, item.stop.offset + 1)
        for row in range(ROWS)
        if item.start <= RowPosition(offset, row) < item.stop
    ]


def rows_read(pieces: Iterable[Slice]) -> list[Row]:
    found: list[Row] = []
    for piece in pieces:
        rows = [
            (piece.topic, piece.partition, offset, row)
            for offset in range(piece.start, piece.stop)
            for row in range(ROWS)
        ][piece.skip :]
        found += rows if piece.most is None else rows[: piece.most]
    return found


@given(st.lists(offset_ranges(), max_size=1), offset_ranges(partition=1), st.integers(1, 50), st.integers(1, 9))
def test_slices_have_every_row_once(
    some: list[OffsetRange], other: OffsetRange, most_offsets: int, slices: int
) -> None:
    ranges = [*some, other]
    pieces = cut(ranges, most_offsets, slices, fewest=2)
    assert sorted(rows_read(pieces)) == sorted(row for item in ranges for row in rows_of(item))
    assert all(piece.start < piece.stop for piece in pieces)
    assert all(piece.stop - piece.start <= most_offsets for piece in pieces)


@given(offset_ranges(), st.lists(st.integers(0, 41), max_size=8, unique=True))
def test_a_range_is_split_without_gap_or_overlap(item: OffsetRange, edges: list[int]) -> None:
    ordered = sorted(edges)
    kept = list(zip(ordered[::2], ordered[1::2], strict=False))
    inside, outside = split(item, kept)
    archived = {row for start, stop in kept for row in rows_of(offset_range("t", 0, start, stop))}
    assert [row for part in inside for row in rows_of(part)] == [row for row in rows_of(item) if row in archived]
    assert [row for part in outside for row in rows_of(part)] == [row for row in rows_of(item) if row not in archived]
    assert all(part.start < part.stop for part in (*inside, *outside))


def test_a_partition_is_cut_for_several_cores_but_not_into_crumbs() -> None:
    assert len(cut([offset_range("t", 0, 0, 1_000_000)])) == 8
    assert len(cut([offset_range("t", 0, 0, 100_000)])) == 2
    assert len(cut([offset_range("t", 0, 0, 10)])) == 1
    assert max(piece.stop - piece.start for piece in cut([offset_range("t", 0, 0, 100_000_000)])) == 500_000
    assert cut([]) == []


def test_partitions_take_turns() -> None:
    pieces = cut([offset_range("t", 0, 0, 40), offset_range("t", 1, 0, 20)], 10, 1, 10)
    assert [(piece.partition, piece.start) for piece in pieces] == [(0, 0), (1, 0), (0, 10), (1, 10), (0, 20), (0, 30)]


def test_ranges_are_those_of_partitions_that_have_an_end() -> None:
    starts = {("t", 0): RowPosition(5), ("t", 1): RowPosition(0), ("t", 2): RowPosition(7)}
    stops = {("t", 1): RowPosition(3, 1), ("t", 0): RowPosition(9), ("t", 2): RowPosition(7)}
    assert ranges_between(starts, stops) == [
        offset_range("t", 0, 5, 9),
        OffsetRange("t", 1, RowPosition(0), RowPosition(3, 1)),
    ]


@pytest.mark.parametrize(("stop", "offsets"), [(RowPosition(9), 4), (RowPosition(9, 2), 5)])
def test_a_range_counts_a_message_that_is_only_begun(stop: RowPosition, offsets: int) -> None:
    item = OffsetRange("t", 3, RowPosition(5), stop)
    assert (item.offsets, item.name, str(item)) == (offsets, "t/3", "t/3 from offset 5 up to 9")
