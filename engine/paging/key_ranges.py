"""Ranges of key positions: what instances own of the ring, and how a range is cut. Pure arithmetic over integers.

A position is the upper half of a key's hash, in [0, 2**32); key group g of n holds those with position * n >> 32 = g.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats
from penstock.state.store import Positions

RING = 1 << 32


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Positions from ``low`` up to but not including ``high``."""

    low: int
    high: int

    def __and__(self, other: "Span") -> "Span | None":
        """Return what both have, None if nothing."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Span(low, high) if low < high else None

    def holds(self, positions: Positions) -> NDArray[np.bool_]:
        """Return which positions lie in it."""
        wide = positions.astype(np.int64)
        return (wide >= self.low) & (wide < self.high)

    def cut(self, pieces: int) -> "list[Span]":
        """Return it in at most so many pieces of about the same size."""
        bounds = sorted({self.low + (self.high - self.low) * index // pieces for index in range(pieces + 1)})
        return [Span(low, high) for low, high in pairwise(bounds)]

    def without(self, others: "Sequence[Span]") -> "list[Span]":
        """Return what is left of it between some sorted, disjoint spans."""
        bounds = [self.low, *(bound for other in others for bound in (other.low, other.high)), self.high]
        pairs = [
            (max(low, self.low), min(high, self.high)) for low, high in zip(bounds[::2], bounds[1::2], strict=True)
        ]
        return [Span(low, high) for low, high in pairs if low < high]


WHOLE = Span(0, RING)


def cut_by_groups(span: Span, pieces: int, count: int) -> list[Span]:
    """Return a span in at most so many pieces of about the same size, cut between key groups where it has several.

    A piece that is several key groups, of ``count`` in all, moves as it lies.
    """
    bounds = {span.low, span.high}
    for piece in span.cut(pieces)[1:]:
        group = piece.low * count >> 32
        between = min((_start(group, count), _start(group + 1, count)), key=lambda bound: abs(bound - piece.low))
        bounds.add(between if span.low < between < span.high else piece.low)
    return [Span(low, high) for low, high in pairwise(sorted(bounds))]


def owned_spans(owners: NDArray[np.int32], instance: int) -> list[Span]:
    """Return the ranges of an instance, in order; neighbouring groups are one."""
    return [span_of_groups(first, end, len(owners)) for first, end in owned_runs(owners, instance)]


def owned_runs(owners: NDArray[np.int32], instance: int) -> list[tuple[int, int]]:
    """Return the runs of key groups that an instance owns, in order: the first of each, and the one behind it."""
    groups = np.flatnonzero(owners == instance)
    runs = np.split(groups, np.flatnonzero(np.diff(groups) != 1) + 1)
    return [(int(run[0]), int(run[-1]) + 1) for run in runs if run.size]


def span_of_groups(first: int, end: int, count: int) -> Span:
    """Return the positions of the key groups from ``first`` up to but not including ``end``, of ``count``."""
    return Span(_start(first, count), _start(end, count))


def held_by(spans: Sequence[Span], positions: Positions) -> NDArray[np.bool_]:
    """Return which positions lie in one of some sorted, disjoint spans."""
    bounds = np.array([bound for span in spans for bound in (span.low, span.high)], np.int64)
    held: NDArray[np.bool_] = np.searchsorted(bounds, positions.astype(np.int64), side="right") % 2 == 1
    return held


def lows_of(spans: Sequence[Span]) -> NDArray[np.uint32]:
    """Return where sorted, disjoint spans begin, for `numpy.searchsorted`."""
    return np.array([span.low for span in spans], np.uint32)


def bytes_of_groups(spans: Sequence[Span], sizes: Sequence[int], count: int) -> Floats:
    """Return the size of each of ``count`` key groups, where sorted, disjoint spans have these sizes, lying evenly."""
    if not spans:
        return np.zeros(count)
    bounds, below, total = list[int](), list[int](), 0
    for span, size in zip(spans, sizes, strict=True):
        bounds += (span.low, span.high)
        below += (total, total + size)
        total += size
    at = np.interp(_evenly(count), bounds, below)
    return np.asarray(at[1:] - at[:-1], np.float64)


@lru_cache(maxsize=64)
def _evenly(count: int) -> Floats:
    """Return where ``count`` key groups begin, and where the last one ends; not rounded up to whole positions."""
    return np.asarray(np.arange(count + 1) * (RING / count), np.float64)


def _start(group: int, count: int) -> int:
    """Return the first position of a key group: the least p with p * count >> 32 = group."""
    return -(-(group << 32) // count)
