"""How many rows come at once: never none, never too many for the room, and all of them in their order."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.elements import Batch
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.row_bound import Growth

NOTES = st.lists(st.tuples(st.integers(1, 40_000), st.integers(-100_000, 1 << 24)), max_size=12)
MOST, LEAST, FIRST = 32_768, 64, 4_096


def growth_of(notes: list[tuple[int, int]]) -> Growth:
    growth = Growth()
    for rows, added_bytes in notes:
        growth.note(rows, added_bytes)
    return growth


def numbered(count: int) -> Batch:
    return Batch(pa.record_batch({"x": pa.array(range(count), pa.int64())}))


@given(NOTES, st.integers(0, 1 << 30))
def test_rows_that_may_come_at_once_fit_the_room(notes: list[tuple[int, int]], room_bytes: int) -> None:
    growth = growth_of(notes)
    rows = growth.rows_within(room_bytes)
    assert LEAST <= rows <= MOST
    if not notes:
        assert rows == FIRST
    elif rows > LEAST:
        assert growth.bytes_of(rows) <= room_bytes + 1


@given(NOTES, st.integers(0, 1 << 20), st.integers(0, 1 << 20))
def test_more_room_is_never_for_fewer_rows(notes: list[tuple[int, int]], one: int, other: int) -> None:
    growth = growth_of(notes)
    few, many = sorted((one, other))
    assert growth.rows_within(few) <= growth.rows_within(many)


@given(NOTES, st.none() | st.integers(1, 1 << 28), st.integers(0, 12_000))
def test_what_is_cut_is_everything_in_order(notes: list[tuple[int, int]], budget: int | None, count: int) -> None:
    growth, left, sizes = growth_of(notes), numbered(count), []
    rest: Batch | None = left
    seen: list[int] = []
    while rest is not None:
        piece, rest = growth.cut(rest, PagingOptions(budget_bytes=budget))
        sizes.append(piece.rows.num_rows)
        seen += piece.rows.column("x").to_pylist()
    assert seen == list(range(count))
    assert max(sizes) <= max(count if budget is None else MOST * 5 // 4, LEAST)
    if len(sizes) > 1:
        assert min(sizes) >= LEAST // 4


@given(NOTES, st.integers(1, 50), st.integers(0, 100_000))
def test_what_came_last_counts_most(notes: list[tuple[int, int]], one_bytes: int, rows: int) -> None:
    growth = growth_of(notes)
    for _ in range(60):
        growth.note(16_384, 16_384 * one_bytes)
    assert abs(growth.bytes_of(rows) - rows * one_bytes) <= 1 + rows // 1_000


def test_nothing_is_known_at_first() -> None:
    assert Growth().bytes_of(1_000) == 0
    growth = growth_of([(10, -500)])
    assert growth.bytes_of(1_000) == 0
    assert growth.rows_within(0) == MOST
