"""Whether a backlog grows because a remote service falters; more threads would not help then.

`sage` asks the guard that it was given by name (docs/design/papers/sage.md 3). Arrays are ticks x applications, the
oldest first; NaN: not measured.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools
from penstock.scheduler.observations import Observed

LAGS = (0, 1, 2, 3)
THRESHOLD = 0.7
SLOWER, FEWER = 1.2, 0.8
USUAL = 0.9
"""Part of the time in which a service is no slower than it is now and then."""
LOADED = 1.05
"""Input over what it was before, above which a service that is slow still does not explain a backlog alone."""


def explained_by_service(
    backlog: NDArray[np.float64],
    latency_ms: NDArray[np.float64],
    calls: NDArray[np.float64],
    answers: NDArray[np.float64],
    ticks: int,
) -> Bools:
    """Return for which applications the last two windows' growth of backlog goes with a slower service.

    r(backlog growth, latency) >= 0.7, or r(backlog growth, answers) <= -0.7, at a lag of 0 to 3 ticks, over two windows
    of ``ticks`` each; **and** in the last one latency was 1.2 times, or answers per call 0.8 times, their median before
    both (trouble that began a window ago is half of two).
    Correlation alone blocks 41% of independent noise. Applications without a service are never explained. Of readings
    those count that are there; where more than half of a service's are missing, nobody can tell, and growth counts as
    explained.
    """
    span = min(2 * ticks, backlog.shape[0] - 1)
    if span < 3:
        return np.zeros(backlog.shape[1], np.bool_)
    growth = np.diff(backlog, axis=0)[-span:]
    follows = _follows(growth, latency_ms, 1.0) | _follows(growth, answers, -1.0)
    each = _per_call(answers, calls)
    slower = _mean(latency_ms[-ticks:]) >= SLOWER * _before(latency_ms, span)
    fewer = _mean(each[-ticks:]) <= FEWER * _before(each, span)
    parts = (slice(-ticks, None), slice(-span, None), slice(None, -span))
    seen = ~np.isnan(backlog)
    unknown = [_sparse(values, seen, part) for values in (latency_ms, each) for part in parts]
    return np.asarray(follows & (slower | fewer) | np.logical_or.reduce(unknown), np.bool_)


def faltered(
    backlog: NDArray[np.float64],
    latency_ms: NDArray[np.float64],
    calls: NDArray[np.float64],
    answers: NDArray[np.float64],
    ticks: int,
) -> Bools:
    """Return for which applications the service was slower than it ever is for long, as rows piled up.

    sum(w L) / sum(w) >= 1.2 median(L), and >= p90(L);  w: growth of the backlog in a tick of the last window

    L: latency, median and p90 of what was before the window; or answers per call as much fewer. A backlog within
    minutes says nothing about a correlation over two windows. Not where less than half a window was before.
    """
    if len(backlog) < 1.5 * ticks:
        return np.zeros(backlog.shape[1], np.bool_)
    grew = np.nan_to_num(np.maximum(np.diff(backlog[-ticks - 1 :], axis=0), 0.0))
    each = _per_call(answers, calls)
    slower, fewer = _weighted(latency_ms[-len(grew) :], grew), _weighted(each[-len(grew) :], grew)
    is_slower = (slower >= SLOWER * _quantile(latency_ms[:-ticks], 0.5)) & (
        slower >= _quantile(latency_ms[:-ticks], USUAL)
    )
    is_fewer = (fewer <= FEWER * _quantile(each[:-ticks], 0.5)) & (fewer <= _quantile(each[:-ticks], 1 - USUAL))
    return np.asarray(is_slower | is_fewer, np.bool_)


def normal(history: Observed, ticks: int) -> NDArray[np.float64]:
    """Return by application (column) the latency and the answers per call before the last two windows, and the input.

    The input is in rows/s, of the last window. This is what `sage` remembers when the guard begins to block.
    """
    span = min(2 * ticks, history.backlog.shape[0] - 1)
    each = _per_call(history.answers, history.calls)
    return np.stack([_before(history.latency_ms, span), _before(each, span), _mean(history.appended[-ticks:])])


def stays_slow(history: Observed, ticks: int, before: NDArray[np.float64]) -> Bools:
    """Return for which applications the service of the last window is slower than what was `normal`, for no more input.

    A service that stays slow is no longer slower than two windows ago, and nothing correlates with what is constant.
    """
    latency_ms, each, appended = before
    slower = _mean(history.latency_ms[-ticks:]) >= SLOWER * latency_ms
    fewer = _mean(_per_call(history.answers[-ticks:], history.calls[-ticks:])) <= FEWER * each
    return np.asarray((slower | fewer) & (_mean(history.appended[-ticks:]) <= LOADED * appended), np.bool_)


def correlated(backlog: NDArray[np.float64], latency_ms: NDArray[np.float64], ticks: int) -> Bools:
    """Return the literal rule of the paper: the detrended backlog of a window correlates with the latency."""
    values = backlog[-ticks:]
    trend = np.linspace(-1.0, 1.0, len(values))[:, np.newaxis]
    slope = (values * trend).sum(axis=0) / (trend**2).sum()
    return _follows(values - values.mean(axis=0) - slope * trend, latency_ms, 1.0)


def _follows(growth: NDArray[np.float64], cause: NDArray[np.float64], sign: float) -> Bools:
    found = np.zeros(growth.shape[1], np.bool_)
    length = len(growth)
    for lag in LAGS:
        end = len(cause) - lag
        if end < length:
            break
        found |= sign * _correlation(growth, cause[end - length : end]) >= THRESHOLD
    return found


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Pearson's r by column over the pairs that are there.

    0 where one of both is constant, or fewer than 3 pairs are there, or than half of those whose x is.
    """
    both = ~np.isnan(x) & ~np.isnan(y)
    pairs = both.sum(axis=0)
    dx, dy = (np.where(both, values - _mean(np.where(both, values, np.nan)), 0.0) for values in (x, y))
    spread = np.sqrt((dx**2).sum(axis=0) * (dy**2).sum(axis=0))
    spread *= (pairs >= 3) & (2 * pairs >= (~np.isnan(x)).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (dx * dy).sum(axis=0) / spread
    return np.nan_to_num(np.where(spread > 0, r, 0.0), nan=0.0)


def _per_call(answers: NDArray[np.float64], calls: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(answers / calls, np.float64)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean by column of what is there; NaN, which no comparison meets, if nothing is."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=0) / (~np.isnan(values)).sum(axis=0), np.float64)


def _before(values: NDArray[np.float64], span: int) -> NDArray[np.float64]:
    """Return the median of what is there before the last ``span`` ticks; NaN if nothing is."""
    return _quantile(values[:-span], 0.5)


def _quantile(values: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return by column a quantile of what is there; NaN if nothing is."""
    found = np.full(values.shape[1], np.nan)
    there = ~np.isnan(values).all(axis=0)
    if there.any():
        found[there] = np.nanquantile(values[:, there], share, axis=0)
    return found


def _weighted(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by column the weighted mean of what is there; NaN if nothing is."""
    weights = np.where(np.isnan(values), 0.0, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((np.nan_to_num(values) * weights).sum(axis=0) / weights.sum(axis=0), np.float64)


def _sparse(values: NDArray[np.float64], seen: Bools, part: slice) -> Bools:
    """Tell where a part of the ticks lacks readings of a service: most of those in which its application was seen."""
    called = ~np.isnan(values).all(axis=0)
    there = (~np.isnan(values) & seen)[part].sum(axis=0)
    return np.asarray(called & (2 * there < seen[part].sum(axis=0)), np.bool_)


def no_guard(history: Observed, ticks: int) -> Bools:
    """Return that nothing is put down to a service."""
    return np.zeros(history.backlog.shape[1], np.bool_)


def growth_guard(history: Observed, ticks: int) -> Bools:
    """Return for which applications `explained_by_service` or `faltered` puts a backlog down to a service."""
    figures = history.backlog, history.latency_ms, history.calls, history.answers, ticks
    return explained_by_service(*figures) | faltered(*figures)


def correlation_guard(history: Observed, ticks: int) -> Bools:
    """Return for which applications the paper's rule as it stands, `correlated`, does."""
    return correlated(history.backlog, history.latency_ms, ticks)


GUARDS: Mapping[str, Callable[[Observed, int], Bools]] = {
    "growth": growth_guard,
    "correlation": correlation_guard,
    "none": no_guard,
}
"""By name: whether the last ``ticks`` of a backlog are put down to a remote service."""

REMEMBERS = frozenset({"growth"})
"""Guards that go on blocking while a service `stays_slow`."""
