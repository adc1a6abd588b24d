"""What a curve of ages and rates says of a move, or of a stop and start, beside the time before it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.cluster.ages import MOVED, OTHERS, SLOT_NS, Counts, quantile_ms
from penstock.benchmarks.cluster.move_chart import Span

RATE_SLOTS = 100
"""Rates are means over so many tenths of a second."""

CURVE_SLOTS = 5
"""A point of the curve is of so many."""

NEAR_S = 5.0
"""So long before a span and behind it rates have to do with it, too."""

Points = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Curve:
    """The ages of all rows by the time at which they came, in ``seconds`` since they came at a rate, ascending."""

    seconds: NDArray[np.float64]
    counts: Counts

    def within(self, from_s: float, until_s: float) -> Counts:
        """Return what came in a span of time."""
        return self.counts[(self.seconds >= from_s) & (self.seconds < until_s)]


def line(curve: Curve, span: Span, before: Span) -> dict[str, float | str]:
    """Return the figures of a span: rates and ages by those of the time before.

    ``others_rate`` is the least rate of rows of other keys over 10 s that have to do with it, ``least_before`` the same
    of the time before; ``others_p99`` and ``all_p99`` are 99th percentiles of ages.
    """
    then, now = (
        curve.within(before.from_s, before.until_s),
        curve.within(span.from_s, max(span.until_s, span.from_s + 1)),
    )
    near = curve.within(span.from_s - NEAR_S, span.until_s + NEAR_S)
    rate_then = max(_others(then).sum() / max(len(then), 1), 1e-9)
    others = _p99_ms(now[:, OTHERS].sum(axis=0)), _p99_ms(then[:, OTHERS].sum(axis=0))
    everybody = _p99_ms(now.sum(axis=(0, 1))), _p99_ms(then.sum(axis=(0, 1)))
    return {
        "way": span.name,
        "took_s": span.until_s - span.from_s,
        "others_rate": float(_means(_others(near)).min() / rate_then),
        "least_before": float(_means(_others(then)).min() / rate_then),
        "others_p99": others[0] / (others[1] or 1.0),
        "all_p99": everybody[0] / (everybody[1] or 1.0),
        "p50_before_ms": quantile_ms(then.sum(axis=(0, 1)), 0.5) or 0.0,
        "p99_before_ms": everybody[1],
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
