"""Whether a backlog grows because a remote service falters; more threads would not help then (Sage, 4; papers.md 6.2).

`sage` asks the guard that it was given by name. Arrays are ticks x applications, the oldest first.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools
from penstock.scheduler.observations import Observed

LAGS = (0, 1, 2, 3)
THRESHOLD = 0.7
SLOWER, FEWER = 1.2, 0.8


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
    Correlation alone blocks 41% of independent noise. Applications without a service are never explained.
    """
    span = min(2 * ticks, backlog.shape[0] - 1)
    if span < 3:
        return np.zeros(backlog.shape[1], np.bool_)
    growth = np.diff(backlog, axis=0)[-span:]
    follows = _follows(growth, latency_ms, 1.0) | _follows(growth, answers, -1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = answers / calls
        slower = _mean(latency_ms[-ticks:]) >= SLOWER * _before(latency_ms, span)
        fewer = _mean(each[-ticks:]) <= FEWER * _before(each, span)
    return follows & (slower | fewer)


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
    """Return Pearson's r by column; 0 where one is constant or was not measured."""
    dx, dy = x - x.mean(axis=0), y - y.mean(axis=0)
    spread = np.sqrt((dx**2).sum(axis=0) * (dy**2).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (dx * dy).sum(axis=0) / spread
    return np.nan_to_num(np.where(spread > 0, r, 0.0), nan=0.0)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values.mean(axis=0), np.float64)


def _before(values: NDArray[np.float64], span: int) -> NDArray[np.float64]:
    """Return the median of the ticks before the last ``span``; NaN, which no comparison meets, if there are none."""
    before = values[:-span]
    return np.median(before, axis=0) if len(before) else np.full(values.shape[1], np.nan)


def no_guard(history: Observed, ticks: int) -> Bools:
    """Return that nothing is put down to a service."""
    return np.zeros(history.backlog.shape[1], np.bool_)


def growth_guard(history: Observed, ticks: int) -> Bools:
    """Return for which applications `explained_by_service` puts a backlog down to a service."""
    return explained_by_service(history.backlog, history.latency_ms, history.calls, history.answers, ticks)


def correlation_guard(history: Observed, ticks: int) -> Bools:
    """Return for which applications the paper's rule as it stands, `correlated`, does."""
    return correlated(history.backlog, history.latency_ms, ticks)


GUARDS: Mapping[str, Callable[[Observed, int], Bools]] = {
    "growth": growth_guard,
    "correlation": correlation_guard,
    "none": no_guard,
}
"""By name: whether the last ``ticks`` of a backlog are put down to a remote service."""
