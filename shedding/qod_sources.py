"""The input rate of each source, from a snapshot: the denominator of equation 4 where there is no task above.

By end offsets or by lag maxima (`source_rates`), else by the rate that was set for the task. `qod_figures` calls it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.plan import NoChange, not_measured
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.task_levels import Indexes
from penstock.shedding.group_sums import most, total_with_means
from penstock.shedding.instance_identity import NOBODY, InstanceNames, names_of
from penstock.shedding.source_rates import offered_by_end_offsets, offered_by_lag_maxima, planned_offer

SourceRates = Literal["end offsets", "lag maxima"]


@dataclass(frozen=True, slots=True, eq=False)
class LagMaxima:
    """The lag maxima of the instances that read logs, rows, as they were at `time_s`."""

    who: InstanceNames
    time_s: float
    lag_max: Floats


NO_LAGS = LagMaxima(NOBODY, 0.0, np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class OfferedRates:
    """Rows/s offered, by task and by instance of the snapshot; NaN for those that are not sources."""

    task: Floats
    instance: Floats


def lag_maxima(snapshot: ClusterSnapshot) -> LagMaxima:
    """Return the lag maxima of this snapshot, for the next cycle to compare with."""
    partitions = snapshot.partitions
    if partitions.lag_max is None or not len(partitions):
        return NO_LAGS
    holders, index = np.unique(partitions.instance.astype(np.intp), return_inverse=True)
    is_measured = ~np.isnan(partitions.lag_max)
    largest = most(partitions.lag_max[is_measured], index[is_measured], len(holders))
    measured = np.where(np.isinf(largest), np.nan, largest)
    return LagMaxima(names_of(snapshot, holders), snapshot.time_s, measured)


def offered_to_sources(
    snapshot: ClusterSnapshot, is_source: Bools, rates: SourceRates, drain_s: float | None, before: LagMaxima
) -> OfferedRates | NoChange:
    """Return the input rates of sources, plus their backlog spread over `drain_s`, or the missing figure."""
    tasks = snapshot.instances.task.astype(np.intp)
    holders, index = np.unique(snapshot.partitions.instance.astype(np.intp), return_inverse=True)
    rate = _by_holder(snapshot, index, len(holders), rates, drain_s, before)
    if isinstance(rate, NoChange):
        return rate
    by_task = total_with_means(rate, tasks[holders], len(is_source))
    by_instance = np.where(is_source & ~np.isnan(by_task), 0.0, np.nan)[tasks]
    by_instance[holders] = rate
    if snapshot.tasks.target_rate is not None:
        by_task = np.where(np.isnan(by_task), snapshot.tasks.target_rate, by_task)
    has_instances = np.bincount(tasks[snapshot.instances.is_running], minlength=len(is_source)) > 0
    unknown = np.flatnonzero(is_source & has_instances & np.isnan(by_task))
    if len(unknown):
        return not_measured(f"what source {snapshot.tasks.name[unknown[0]]!r} is offered")
    return OfferedRates(by_task, by_instance)


def _by_holder(
    snapshot: ClusterSnapshot, index: Indexes, count: int, rates: SourceRates, drain_s: float | None, before: LagMaxima
) -> Floats | NoChange:
    """Return rows/s by instance that reads a log; `index` is its place, by partition."""
    partitions = snapshot.partitions
    if not count:
        return np.zeros(0)
    if rates == "end offsets":
        if partitions.appended is None:
            return not_measured("partitions.appended")
        rate = offered_by_end_offsets(partitions.appended, index, count, snapshot.window_s)
        if drain_s is None:
            return rate
        if partitions.end_offset is None or partitions.position is None:
            return not_measured("partitions.end_offset, partitions.position")
        return planned_offer(rate, total_with_means(partitions.end_offset - partitions.position, index, count), drain_s)
    if partitions.lag_max is None or partitions.consumed is None:
        return not_measured("partitions.lag_max, partitions.consumed")
    maxima = lag_maxima(snapshot)
    lag_before = np.full(count, np.nan)
    if maxima.time_s > before.time_s:
        at = maxima.who.places_in(before.who)
        lag_before[at >= 0] = before.lag_max[at[at >= 0]]
    partition_count = np.bincount(index, minlength=count).astype(np.float64)
    consumed = total_with_means(partitions.consumed, index, count) / snapshot.window_s
    elapsed_s = max(maxima.time_s - before.time_s, snapshot.window_s)
    rate = offered_by_lag_maxima(maxima.lag_max, lag_before, consumed, partition_count, elapsed_s)
    return rate if drain_s is None else planned_offer(rate, maxima.lag_max * partition_count, drain_s)
