"""The work that comes to an application, whatever it has to do it with, and when rows waited for what (Sage, 3).

What a row takes is measured, what comes is known from the logs; so a resource that is short hides nothing of what is
asked of it, and neither does a backlog that is being made up for. Called by the rules of cores and threads.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.scheduler.looks import Look, least_capacity
from penstock.scheduler.observations import Observed, Window
from penstock.scheduler.sizing_rule import Limits

WARM_S = 60.0
"""So long after it began an application does its rows slower."""


def late(seen: Look, limits: Limits) -> NDArray[np.bool_]:
    """Tell sample by sample where more rows waited than the bound of latency allows, other than just after an action.

    No where nobody knows the backlog, or where it is put down to a remote service.
    """
    own, bound = seen.samples, limits.idle_backlog_s * seen.usual_rate
    is_late = (own.backlog > bound) & (own.settled_s >= limits.settle_s)
    return np.asarray(is_late & ~seen.explained, np.bool_)


def by_cores(seen: Observed, limits: Limits) -> NDArray[np.bool_]:
    """Tell sample by sample where threads with rows to do had no core."""
    return np.asarray(seen.throttled > limits.throttled, np.bool_)


def cores_needed(seen: Look, limits: Limits, margin: float) -> Floats:
    """Return the least cores that hold the bound of latency under the margin more work, with the heap there will be.

    Never less than the mean, and the margin, of so long as cores are used up before they grow.
    """
    own = seen.samples
    work = _coming(seen, own.cpu + _more_garbage(seen), np.ones_like(own.cpu, np.bool_), limits)
    allowed = limits.idle_backlog_s * _allowed(seen, work)
    lasting = least_capacity(work, seen.sample_s, np.zeros(work.shape[1]), limits.settle_s)
    return np.maximum(least_capacity(work * (1 + margin), seen.sample_s, allowed), lasting * (1 + margin))


def cores_to_catch_up(seen: Look, limits: Limits) -> Floats:
    """Return the cores that do what waits now in time, beside what comes."""
    own = seen.samples
    work = _coming(seen, own.cpu, np.ones_like(own.cpu, np.bool_), limits)
    return _waiting(seen, work) / limits.catch_up_s


def threads_needed(seen: Look, limits: Limits, catch_up_s: float = inf) -> Floats:
    """Return the least threads that do, were there cores enough; NaN: nothing tells.

    Whole ones, with partitions shared out: N = ceil(P / floor(P / n)), n: what is needed were all threads alike. The
    fullest thread reads ceil(P / N) of P partitions, which is then no more than P / n.
    """
    own = seen.samples
    work = _coming(seen, own.busy_threads + _more_garbage(seen), ~by_cores(own, limits), limits)
    allowed = limits.idle_backlog_s * _allowed(seen, work)
    least = least_capacity(work * (1 + limits.margin), seen.sample_s, allowed)
    alike = np.maximum(least + _waiting(seen, work) / catch_up_s, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        even = np.ceil(seen.partitions / np.floor(seen.partitions / alike))
    return np.asarray(np.where(np.isfinite(even), even, np.ceil(alike)), np.float64)


def _more_garbage(seen: Look) -> Window:
    """Return the cores that collecting garbage would have taken with the heap that will be, over what it took.

    G (H - L) / (H' - L) - G;  G: cores that collected, L: live heap, H: the heap then, H': the heap to come
    """
    own = seen.samples
    garbage = own.gc * np.maximum(own.cpu, 1.0)
    free = np.maximum(own.heap - own.heap_used, 0.0)
    will_be = np.maximum(seen.heap - own.heap_used, 0.02 * own.heap_used + 1.0)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.where(own.heap == seen.heap, 0.0, garbage * (free / will_be - 1)))


def _coming(seen: Look, used: Window, counts: NDArray[np.bool_], limits: Limits) -> Window:
    """Return the work a second that comes: rows times what one takes, by sample.

    Where a sample does not count, or an application has only just begun anew, a row takes what it does in the mean. Of
    one that reads no log, or to which no row came, the work is what was done.
    """
    own = seen.samples
    counts = counts & (own.settled_s >= min(WARM_S, limits.settle_s)) & (own.consumed > 0)
    rows = np.where(counts, own.consumed, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(counts, used / own.consumed, np.nan)
        usual = np.where(counts, used, 0.0).sum(axis=0) / rows.sum(axis=0)
    coming = own.appended * np.where(counts, each, usual)
    return np.asarray(np.where(np.isnan(seen.partitions) | _is_idle(own), used, coming), np.float64)


def _waiting(seen: Look, work: Window) -> Floats:
    """Return the work of the rows that wait now."""
    own = seen.samples
    with np.errstate(invalid="ignore", divide="ignore"):
        each = work.mean(axis=0) / own.appended.mean(axis=0)
        return np.asarray(np.where(_tells(seen) & (own.backlog[-1] > 0), own.backlog[-1] * each, 0.0), np.float64)


def _allowed(seen: Look, work: Window) -> Floats:
    """Return the work of a second of usual input."""
    with np.errstate(invalid="ignore", divide="ignore"):
        allowed = work.mean(axis=0) * seen.usual_rate / seen.samples.appended.mean(axis=0)
    return np.asarray(np.where(_tells(seen), allowed, 0.0), np.float64)


def _tells(seen: Look) -> Bools:
    """Tell where rows came from a log, so that there is a rate."""
    return np.asarray(~np.isnan(seen.partitions) & ~_is_idle(seen.samples), np.bool_)


def _is_idle(seen: Observed) -> Bools:
    """Tell where no row came and none was read."""
    return np.asarray((seen.appended == 0).all(axis=0) & (seen.consumed == 0).all(axis=0), np.bool_)


def waited(seen: Look, limits: Limits) -> Bools:
    """Tell where rows were `late` at any time."""
    return np.asarray(late(seen, limits).any(axis=0), np.bool_)
