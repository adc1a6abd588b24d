"""What a curve of ages and rates says of a move, or of a stop and start, beside the time before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.cluster.ages import FIRST_MS, MOVED, OTHERS, SLOT_NS, STEPS, Counts, quantile_ms
from penstock.benchmarks.cluster.move_chart import Span

RATE_SLOTS = 100
"""Rates are means over so many tenths of a second."""

CURVE_SLOTS = 5
"""A point of the curve is of so many."""

NEAR_S = 5.0
"""So long before a span and behind it rates have to do with it, too."""

AGES_S = FIRST_MS * 10 ** ((np.arange(STEPS) + 0.5) / 10) / 1e3
"""The ages that are counted by step, in seconds."""

Points = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Curve:
    """The ages of all rows by the time at which they came, in ``seconds`` since they came at a rate, ascending."""

    seconds: NDArray[np.float64]
    counts: Counts

    def within(self, from_s: float, until_s: float) -> Counts:
        """Return what came in a span of time."""
        return self.counts[(self.seconds >= from_s) & (self.seconds < until_s)]

    def due(self, spans: Sequence[Span]) -> Counts:
        """Return how many rows that were due in spans of time came at which age, whenever that was."""
        due_s = self.seconds[:, np.newaxis] - AGES_S
        of_them = np.zeros(due_s.shape, bool)
        for span in spans:
            of_them |= (due_s >= span.from_s) & (due_s < span.until_s)
        rows: Counts = (self.counts * of_them[:, np.newaxis]).sum(axis=0)
        return rows


def line(curve: Curve, span: Span, before: Span, alike: Sequence[Span]) -> dict[str, float | str]:
    """Return the figures of a span: rates and ages by those of the time before.

    ``others_rate`` is the rate of rows of other keys in it, by that of the time before. ``others_least`` is the least
    such rate over 10 s that have to do with it, ``least_before`` the same of the time before, and ``least_by_least``
    the one by the other. ``others_p99`` and ``all_p99`` are 99th percentiles of the ages of rows that were due in it,
    by those of the time before, ``p99_ms`` and ``p99_before_ms`` those of all; ``p99_by_alike`` is that of other keys
    by those that were due in spans before that are ``alike``: as long behind a checkpoint.
    """
    then, now = curve.within(before.from_s, before.until_s), curve.within(span.from_s, span.until_s)
    near = curve.within(span.from_s - NEAR_S, span.until_s + NEAR_S)
    rate_then = max(_others(then).sum() / max(len(then), 1), 1e-9)
    least, least_then = (float(_means(_others(rows)).min() / rate_then) for rows in (near, then))
    due_now, due_then, due_alike = curve.due([span]), curve.due([before]), curve.due(alike)
    return {
        "way": span.name,
        "took_s": span.until_s - span.from_s,
        "others_rate": float(_others(now).sum() / max(len(now), 1) / rate_then),
        "others_least": least,
        "least_before": least_then,
        "least_by_least": least / max(least_then, 1e-9),
        "others_p99": _p99_ms(due_now[OTHERS]) / (_p99_ms(due_then[OTHERS]) or 1.0),
        "p99_by_alike": _p99_ms(due_now[OTHERS]) / (_p99_ms(due_alike[OTHERS]) or 1.0),
        "all_p99": _p99_ms(due_now.sum(axis=0)) / (_p99_ms(due_then.sum(axis=0)) or 1.0),
        "p99_ms": _p99_ms(due_now.sum(axis=0)),
        "p99_before_ms": _p99_ms(due_then.sum(axis=0)),
        "p50_before_ms": quantile_ms(due_then.sum(axis=0), 0.5) or 0.0,
    }


def ages(curve: Curve) -> Points:
    """Return the lines of quantiles of ages, in milliseconds."""
    lines: Points = {"p50": [], "p99": []}
    for place in range(0, len(curve.seconds), CURVE_SLOTS):
        rows = curve.counts[place : place + CURVE_SLOTS].sum(axis=(0, 1))
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            age_ms = quantile_ms(rows, share)
            if age_ms is not None:
                lines[name].append((float(curve.seconds[place]), age_ms))
    return lines


def rates(curve: Curve) -> Points:
    """Return the lines of rates, in rows a second."""
    lines: Points = {}
    for name, which in (("keys that stay", OTHERS), ("keys that move", MOVED)):
        means = _means(curve.counts[:, which].sum(axis=1)) * 1e9 / SLOT_NS
        behind = len(curve.seconds) - len(means)
        places = range(0, len(means), CURVE_SLOTS)
        lines[name] = [(float(curve.seconds[place + behind]), float(means[place])) for place in places]
    return lines


def _others(counts: Counts) -> NDArray[np.int64]:
    rows: NDArray[np.int64] = counts[:, OTHERS].sum(axis=1)
    return rows


def _means(rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return means over `RATE_SLOTS`, or over all if there are fewer."""
    window = min(RATE_SLOTS, len(rows))
    return np.convolve(rows, np.ones(window) / window, "valid")


def _p99_ms(counts: NDArray[np.int64]) -> float:
    return quantile_ms(counts, 0.99) or 0.0
