"""Ranges of positions against the key group of every position near their ends."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.paging.key_ranges import (
    RING,
    WHOLE,
    Span,
    bytes_of_groups,
    cut_by_groups,
    owned_spans,
    span_of_groups,
)
from penstock.model.key_groups import assign, key_groups_at, reassign

groups = st.integers(1, 300) | st.sampled_from([128, 1000, 32_768, 65_535])


def around(*bounds: int) -> np.ndarray:
    near = {bound + step for bound in bounds for step in (-1, 0, 1)}
    return np.array(sorted(position for position in near if 0 <= position < RING), np.uint32)


@given(groups, st.data())
def test_a_span_of_groups_holds_what_key_groups_say(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, count - 1))
    end = data.draw(st.integers(first + 1, count))
    span = span_of_groups(first, end, count)
    positions = np.concatenate([around(span.low, span.high), np.array(data.draw(positions_drawn), np.uint32)])
    found = key_groups_at(positions, count)
    assert (span.holds(positions) == ((found >= first) & (found < end))).all()


positions_drawn = st.lists(st.integers(0, RING - 1), max_size=20)


@given(groups, st.data())
def test_owned_spans_are_disjoint_and_cover_all(count: int, data: st.DataObject) -> None:
    owners = data.draw(st.integers(1, min(count, 7)))
    table = assign(count, owners)
    for _ in range(data.draw(st.integers(0, 3))):
        after = data.draw(st.integers(1, min(count, 7)))
        table, owners = reassign(table, after), after
    spans = {owner: owned_spans(table, owner) for owner in range(owners)}
    everything = sorted(span for mine in spans.values() for span in mine)
    assert [span.low for span in everything] == [0, *(span.high for span in everything[:-1])]
    assert everything[-1].high == RING
    positions = around(*(span.low for span in everything))
    for owner, mine in spans.items():
        held = np.any([span.holds(positions) for span in mine], axis=0)
        assert (held == (table[key_groups_at(positions, count)] == owner)).all()


@given(groups, st.integers(0, RING - 1), st.integers(2, RING), st.integers(2, 70))
def test_a_cut_is_between_key_groups_where_a_span_has_several(count: int, low: int, size: int, pieces: int) -> None:
    span = Span(min(low, RING - 2), min(low + size, RING))
    cut = cut_by_groups(span, pieces, count)
    assert 2 <= len(cut) <= pieces
    assert cut[0].low == span.low and cut[-1].high == span.high
    assert all(one.high == other.low for one, other in pairwise(cut))
    for piece in cut[1:]:
        group = piece.low * count >> 32
        whole = span_of_groups(group, group + 1, count)
        assert piece.low == whole.low or whole.low <= span.low or whole.high >= span.high


@pytest.mark.parametrize("pieces", [2, 4, 16])
def test_pieces_of_whole_key_groups_are_whole_key_groups(pieces: int) -> None:
    span = span_of_groups(32, 96, 128)
    wanted = [span_of_groups(first, first + 64 // pieces, 128) for first in range(32, 96, 64 // pieces)]
    assert cut_by_groups(span, pieces, 128) == wanted


@given(st.integers(0, RING - 1), st.integers(1, RING), st.integers(1, 70))
def test_pieces_cover_what_was_cut(low: int, size: int, pieces: int) -> None:
    span = Span(low, min(low + size, RING))
    cut = span.cut(pieces)
    assert 1 <= len(cut) <= pieces
    assert cut[0].low == span.low and cut[-1].high == span.high
    assert all(one.high == other.low for one, other in pairwise(cut))
    sizes = [piece.high - piece.low for piece in cut]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (WHOLE, Span(3, 5), Span(3, 5)),
        (Span(0, 5), Span(5, 9), None),
        (Span(0, 6), Span(5, 9), Span(5, 6)),
        (Span(7, 9), Span(0, 2), None),
    ],
)
def test_what_two_spans_have_in_common(one: Span, other: Span, both: Span | None) -> None:
    assert one & other == both
    assert other & one == both


@given(st.sets(st.integers(0, 40), max_size=12), st.integers(0, 40), st.integers(1, 40))
def test_what_is_left_between_others(bounds: set[int], low: int, size: int) -> None:
    ordered = sorted(bounds)
    others = [Span(one, other) for one, other in zip(ordered[::2], ordered[1::2], strict=False)]
    span = Span(low, low + size)
    left = [place for piece in span.without(others) for place in range(piece.low, piece.high)]
    assert left == [place for place in range(low, low + size) if not any(o.low <= place < o.high for o in others)]


def test_bytes_of_ranges_are_those_of_their_key_groups() -> None:
    quarter = RING // 4
    spans = [Span(0, quarter), Span(quarter, quarter + quarter // 2), Span(3 * quarter, RING)]
    # A range of a group, half of one, and one that nobody has; of two groups a range lies evenly in both.
    assert bytes_of_groups(spans, [400, 100, 60], 4).tolist() == [400.0, 100.0, 0.0, 60.0]
    assert bytes_of_groups(spans, [400, 100, 60], 8).tolist() == [200.0, 200.0, 100.0, 0.0, 0.0, 0.0, 30.0, 30.0]
    assert bytes_of_groups(spans, [400, 100, 60], 2).tolist() == [500.0, 60.0]
    assert bytes_of_groups([], [], 3).tolist() == [0.0, 0.0, 0.0]
    odd = bytes_of_groups([Span(0, RING)], [700], 7)
    assert odd.tolist() == pytest.approx([100.0] * 7)
