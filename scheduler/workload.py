"""The work that arrives at an application, independent of its resources, and the causes of waiting rows (Sage, 3).

The cost of a row is measured and the input is known from the logs, so neither a short resource nor a draining backlog
hides the demand. Called by the rules of cores and threads.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.scheduler.observations import ApplicationMetrics, Window
from penstock.scheduler.rule_window import RuleWindow, least_capacity
from penstock.scheduler.sizing_rule import RuleLimits

WARM_S = 60.0
"""The time after its start in which an application processes rows more slowly."""


SHED = 0.05
"""More than this share of the rows being shed is a need for capacity."""


def late_samples(window: RuleWindow, limits: RuleLimits) -> NDArray[np.bool_]:
    """Return the samples in which more rows waited than the latency bound allows, except just after an action.

    So would rows that were shed, if they were not. False where the backlog is unknown, or is attributed to a remote
    service.
    """
    samples, bound = window.samples, limits.idle_backlog_s * window.usual_rate
    is_late = ((samples.backlog > bound) | (samples.shed > SHED)) & (samples.settled_s >= limits.settle_s)
    return np.asarray(is_late & ~window.explained, np.bool_)


def core_starved_samples(window: ApplicationMetrics, limits: RuleLimits) -> NDArray[np.bool_]:
    """Return the samples in which threads with rows to process had no core."""
    return np.asarray(window.throttled > limits.throttled, np.bool_)


def cores_needed(window: RuleWindow, limits: RuleLimits, margin: float) -> Floats:
    """Return the fewest cores that keep the latency bound with the margin of extra work and the planned heap.

    Never less than the largest mean over ``settle_s``, plus the margin.
    """
    samples = window.samples
    work = _arriving_work(
        window, samples.cpu + _extra_garbage_cores(window), np.ones_like(samples.cpu, np.bool_), limits
    )
    allowed = limits.idle_backlog_s * _work_of_usual_second(window, work)
    lasting = least_capacity(work, window.sample_s, np.zeros(work.shape[1]), limits.settle_s)
    return np.maximum(least_capacity(work * (1 + margin), window.sample_s, allowed), lasting * (1 + margin))


def cores_to_catch_up(window: RuleWindow, limits: RuleLimits) -> Floats:
    """Return the extra cores that drain the present backlog in time."""
    samples = window.samples
    work = _arriving_work(window, samples.cpu, np.ones_like(samples.cpu, np.bool_), limits)
    return _waiting_work(window, work) / limits.catch_up_s


def threads_needed(window: RuleWindow, limits: RuleLimits, catch_up_s: float = inf) -> Floats:
    """Return the fewest threads that suffice, given enough cores; NaN: unknown.

    They are whole, with partitions dealt out: N = ceil(P / floor(P / n)), where n threads of equal load are needed. The
    fullest thread then reads ceil(P / N) of P partitions, which is at most P / n.
    """
    samples = window.samples
    work = _arriving_work(
        window, samples.busy_threads + _extra_garbage_cores(window), ~core_starved_samples(samples, limits), limits
    )
    allowed = limits.idle_backlog_s * _work_of_usual_second(window, work)
    least = least_capacity(work * (1 + limits.margin), window.sample_s, allowed)
    of_equal_load = np.maximum(least + _waiting_work(window, work) / catch_up_s, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        even = np.ceil(window.partitions / np.floor(window.partitions / of_equal_load))
    return np.asarray(np.where(np.isfinite(even), even, np.ceil(of_equal_load)), np.float64)


def _extra_garbage_cores(window: RuleWindow) -> Window:
    """Return the extra cores that garbage collection would have taken with the planned heap.

    G (H - L) / (H' - L) - G;  G: cores that collected, L: live heap, H: the heap then, H': the heap to come
    """
    samples = window.samples
    garbage = samples.gc * np.maximum(samples.cpu, 1.0)
    free = np.maximum(samples.heap - samples.heap_used, 0.0)
    free_later = np.maximum(window.heap - samples.heap_used, 0.02 * samples.heap_used + 1.0)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.where(samples.heap == window.heap, 0.0, garbage * (free / free_later - 1)))


def _arriving_work(window: RuleWindow, used: Window, counts: NDArray[np.bool_], limits: RuleLimits) -> Window:
    """Return the arriving work per second by sample: input rows times the cost of a row.

    Where a sample does not count, or an application has just restarted, a row has the mean cost. For one that reads no
    log, or received no row, it is the work done.
    """
    samples = window.samples
    counts = counts & (samples.settled_s >= min(WARM_S, limits.settle_s)) & (samples.consumed > 0)
    rows = np.where(counts, samples.consumed, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        row_work = np.where(counts, used / samples.consumed, np.nan)
        usual = np.where(counts, used, 0.0).sum(axis=0) / rows.sum(axis=0)
    arriving = samples.appended * np.where(counts, row_work, usual)
    return np.asarray(np.where(np.isnan(window.partitions) | _is_idle(samples), used, arriving), np.float64)


def _waiting_work(window: RuleWindow, work: Window) -> Floats:
    """Return the work of the rows that are waiting."""
    samples = window.samples
    with np.errstate(invalid="ignore", divide="ignore"):
        row_work = work.mean(axis=0) / samples.appended.mean(axis=0)
        return np.asarray(
            np.where(_has_input_rate(window) & (samples.backlog[-1] > 0), samples.backlog[-1] * row_work, 0.0),
            np.float64,
        )


def _work_of_usual_second(window: RuleWindow, work: Window) -> Floats:
    """Return the work of one second of usual input."""
    with np.errstate(invalid="ignore", divide="ignore"):
        work_s = work.mean(axis=0) * window.usual_rate / window.samples.appended.mean(axis=0)
    return np.asarray(np.where(_has_input_rate(window), work_s, 0.0), np.float64)


def _has_input_rate(window: RuleWindow) -> Bools:
    """Return where rows arrived from a log, so that there is an input rate."""
    return np.asarray(~np.isnan(window.partitions) & ~_is_idle(window.samples), np.bool_)


def _is_idle(window: ApplicationMetrics) -> Bools:
    """Return where no row arrived and none was read."""
    return np.asarray((window.appended == 0).all(axis=0) & (window.consumed == 0).all(axis=0), np.bool_)


def has_late_rows(window: RuleWindow, limits: RuleLimits) -> Bools:
    """Return where any sample has late rows (`late_samples`)."""
    return np.asarray(late_samples(window, limits).any(axis=0), np.bool_)
