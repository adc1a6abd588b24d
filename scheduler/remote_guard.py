"""Detection of backlogs that a faltering remote service causes, against which more threads would not help.

`sage` calls the guard named by its parameter (docs/design/papers/sage.md 3). Arrays are ticks x applications, the
oldest first; NaN: not measured.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools
from penstock.scheduler.observations import ApplicationMetrics

LAGS = (0, 1, 2, 3)
THRESHOLD = 0.7
SLOWER_FACTOR, FEWER_FACTOR = 1.2, 0.8
USUAL_QUANTILE = 0.9
"""The quantile of a service's usual latency: it is slower only in the rest of the time."""
LOADED_FACTOR = 1.05
"""The ratio of input to its former rate above which a service that stays slow does not explain a backlog alone."""


def explained_by_service(
    backlog: NDArray[np.float64],
    latency_ms: NDArray[np.float64],
    calls: NDArray[np.float64],
    answers: NDArray[np.float64],
    ticks: int,
) -> Bools:
    """Return the applications whose growth of backlog in the last two windows coincides with a slower service.

    r(backlog growth, latency) >= 0.7, or r(backlog growth, answers) <= -0.7, at a lag of 0 to 3 ticks, over two windows
    of ``ticks`` each; **and** in the last one latency was 1.2 times, or answers per call 0.8 times, their median before
    both (trouble that began a window ago is half of two).
    Correlation alone blocks 41% of independent noise. Applications without a service are never explained. Missing
    readings are skipped; where more than half of a service's are missing, growth counts as explained.
    """
    span = min(2 * ticks, backlog.shape[0] - 1)
    if span < 3:
        return np.zeros(backlog.shape[1], np.bool_)
    growth = np.diff(backlog, axis=0)[-span:]
    follows = _follows(growth, latency_ms, 1.0) | _follows(growth, answers, -1.0)
    per_call = _per_call(answers, calls)
    slower = _mean(latency_ms[-ticks:]) >= SLOWER_FACTOR * _median_before(latency_ms, span)
    fewer = _mean(per_call[-ticks:]) <= FEWER_FACTOR * _median_before(per_call, span)
    parts = (slice(-ticks, None), slice(-span, None), slice(None, -span))
    is_seen = ~np.isnan(backlog)
    unknown = [_sparse(values, is_seen, part) for values in (latency_ms, per_call) for part in parts]
    return np.asarray(follows & (slower | fewer) | np.logical_or.reduce(unknown), np.bool_)


def service_faltered(
    backlog: NDArray[np.float64],
    latency_ms: NDArray[np.float64],
    calls: NDArray[np.float64],
    answers: NDArray[np.float64],
    ticks: int,
) -> Bools:
    """Return the applications whose service was unusually slow while rows piled up.

    sum(w L) / sum(w) >= 1.2 median(L), and >= p90(L);  w: growth of the backlog in a tick of the last window

    L: latency, median and p90 of what was before the window; or answers per call as much fewer. A backlog of
    minutes does not show in a correlation over two windows. False where the history is shorter than 1.5 windows.
    """
    if len(backlog) < 1.5 * ticks:
        return np.zeros(backlog.shape[1], np.bool_)
    growth = np.nan_to_num(np.maximum(np.diff(backlog[-ticks - 1 :], axis=0), 0.0))
    per_call = _per_call(answers, calls)
    slower, fewer = _weighted(latency_ms[-len(growth) :], growth), _weighted(per_call[-len(growth) :], growth)
    is_slower = (slower >= SLOWER_FACTOR * _quantile(latency_ms[:-ticks], 0.5)) & (
        slower >= _quantile(latency_ms[:-ticks], USUAL_QUANTILE)
    )
    is_fewer = (fewer <= FEWER_FACTOR * _quantile(per_call[:-ticks], 0.5)) & (
        fewer <= _quantile(per_call[:-ticks], 1 - USUAL_QUANTILE)
    )
    return np.asarray(is_slower | is_fewer, np.bool_)


def service_baseline(history: ApplicationMetrics, ticks: int) -> NDArray[np.float64]:
    """Return by application (column) latency and answers per call before the last two windows, and the input rate.

    The input is in rows/s, of the last window. This is what `sage` remembers when the guard begins to block.
    """
    span = min(2 * ticks, history.backlog.shape[0] - 1)
    per_call = _per_call(history.answers, history.calls)
    return np.stack(
        [_median_before(history.latency_ms, span), _median_before(per_call, span), _mean(history.appended[-ticks:])]
    )


def service_stays_slow(history: ApplicationMetrics, ticks: int, before: NDArray[np.float64]) -> Bools:
    """Return the applications whose service in the last window is slower than the baseline, at no more input.

    A service that stays slow is no slower than it was two windows ago, and nothing correlates with a constant.
    """
    latency_ms, per_call, appended = before
    slower = _mean(history.latency_ms[-ticks:]) >= SLOWER_FACTOR * latency_ms
    fewer = _mean(_per_call(history.answers[-ticks:], history.calls[-ticks:])) <= FEWER_FACTOR * per_call
    return np.asarray((slower | fewer) & (_mean(history.appended[-ticks:]) <= LOADED_FACTOR * appended), np.bool_)


def backlog_correlates(backlog: NDArray[np.float64], latency_ms: NDArray[np.float64], ticks: int) -> Bools:
    """Return the paper's rule as printed: the detrended backlog of a window correlates with the latency."""
    values = backlog[-ticks:]
    trend = np.linspace(-1.0, 1.0, len(values))[:, np.newaxis]
    slope = (values * trend).sum(axis=0) / (trend**2).sum()
    return _follows(values - values.mean(axis=0) - slope * trend, latency_ms, 1.0)


def _follows(growth: NDArray[np.float64], cause: NDArray[np.float64], sign: float) -> Bools:
    follows = np.zeros(growth.shape[1], np.bool_)
    length = len(growth)
    for lag in LAGS:
        end = len(cause) - lag
        if end < length:
            break
        follows |= sign * _correlation(growth, cause[end - length : end]) >= THRESHOLD
    return follows


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Pearson's r by column over the complete pairs.

    0 where one of them is constant, or where there are fewer than 3 pairs, or pairs for less than half of the x.
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
    """Return the mean by column of the measured values; NaN, which fails every comparison, if there are none."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=0) / (~np.isnan(values)).sum(axis=0), np.float64)


def _median_before(values: NDArray[np.float64], span: int) -> NDArray[np.float64]:
    """Return the median of the values measured before the last ``span`` ticks; NaN if there are none."""
    return _quantile(values[:-span], 0.5)


def _quantile(values: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return by column a quantile of the measured values; NaN if there are none."""
    quantiles = np.full(values.shape[1], np.nan)
    is_measured = ~np.isnan(values).all(axis=0)
    if is_measured.any():
        quantiles[is_measured] = np.nanquantile(values[:, is_measured], share, axis=0)
    return quantiles


def _weighted(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by column the weighted mean of the measured values; NaN if there are none."""
    weights = np.where(np.isnan(values), 0.0, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((np.nan_to_num(values) * weights).sum(axis=0) / weights.sum(axis=0), np.float64)


def _sparse(values: NDArray[np.float64], is_seen: Bools, part: slice) -> Bools:
    """Return where a service lacks readings for most of the ticks in ``part`` in which its application was measured."""
    has_service = ~np.isnan(values).all(axis=0)
    readings = (~np.isnan(values) & is_seen)[part].sum(axis=0)
    return np.asarray(has_service & (2 * readings < is_seen[part].sum(axis=0)), np.bool_)


def no_guard(history: ApplicationMetrics, ticks: int) -> Bools:
    """Return False for all applications: no backlog is attributed to a service."""
    return np.zeros(history.backlog.shape[1], np.bool_)


def growth_guard(history: ApplicationMetrics, ticks: int) -> Bools:
    """Return the applications whose backlog `explained_by_service` or `service_faltered` attributes to a service."""
    figures = history.backlog, history.latency_ms, history.calls, history.answers, ticks
    return explained_by_service(*figures) | service_faltered(*figures)


def correlation_guard(history: ApplicationMetrics, ticks: int) -> Bools:
    """Return the applications whose backlog the paper's rule, `backlog_correlates`, attributes to a service."""
    return backlog_correlates(history.backlog, history.latency_ms, ticks)


GUARDS: Mapping[str, Callable[[ApplicationMetrics, int], Bools]] = {
    "growth": growth_guard,
    "correlation": correlation_guard,
    "none": no_guard,
}
"""By name: functions that attribute the last ``ticks`` of a backlog to a remote service."""

STICKY_GUARDS = frozenset({"growth"})
"""Guards that go on blocking while a service `service_stays_slow`."""
