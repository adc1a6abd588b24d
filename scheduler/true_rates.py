"""Figures of every task from a snapshot: true rates, busy shares, outputs by edge (DS2, section 3.1).

Several instances share a core, so busy time alone never shows saturation: shares include the wait for the core, true
rates do not. Read by `ds2`, `autoscaler`, `justin` and `memory_choice`.
"""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Bools, Floats
from penstock.model.snapshot import ClusterSnapshot

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class TaskRates:
    """Columns by task; NaN: not measured, or no row arrived.

    ``parallelism``: instances. ``rate_in``: rows a second. ``true_rate``: rows in a useful second, of all instances.
    ``busy_share``: (busy + core wait) / wall in [0, 1], mean of the instances; ``output_wait_share`` alike.
    ``is_running``: all its instances do. ``settled_s`` since the last action that touched one; infinite if unknown.
    """

    parallelism: Floats
    rate_in: Floats
    true_rate: Floats
    busy_share: Floats
    output_wait_share: Floats
    is_running: Bools
    settled_s: Floats


def task_rates(snapshot: ClusterSnapshot) -> TaskRates:
    """Return the figures of every task."""
    instances, tasks = snapshot.instances, len(snapshot.tasks)
    task = instances.task
    parallelism = np.bincount(task, minlength=tasks).astype(np.float64)
    records_in = or_nan(instances.records_in, len(task))
    core_wait_ns = or_nan(instances.core_wait_ns, len(task))
    busy_ns = or_nan(instances.busy_ns, len(task))
    settled_s = np.full(tasks, np.inf)
    if instances.settled_s is not None:
        np.fmin.at(settled_s, task, instances.settled_s)
    wall_ns = parallelism * snapshot.window_s * NS_PER_S
    with np.errstate(divide="ignore", invalid="ignore"):
        return TaskRates(
            parallelism=parallelism,
            rate_in=sum_by(task, records_in, tasks) / snapshot.window_s,
            true_rate=_true_rate(task, records_in, busy_ns + or_nan(instances.remote_wait_ns, len(task)), parallelism),
            busy_share=sum_by(task, busy_ns + core_wait_ns, tasks) / wall_ns,
            output_wait_share=sum_by(task, or_nan(instances.output_wait_ns, len(task)), tasks) / wall_ns,
            is_running=(sum_by(task, instances.is_running.astype(np.float64), tasks) == parallelism)
            & (parallelism > 0),
            settled_s=settled_s,
        )


def _true_rate(task: np.ndarray, records_in: Floats, useful_ns: Floats, parallelism: Floats) -> Floats:
    """Return the true processing rate of every task (DS2, eqs 1 and 3).

    lp_i = sum over k of records_in_k / W_u,k
      records_in_k   rows that instance k took, >= 0
      W_u,k          its useful time (s): processing, (de)serialising and remote calls, no waits for input, room or core
    An instance without input has no rate of its own; it counts as the mean of the others.
    """
    is_active = ~(records_in == 0)
    rate = np.where(useful_ns > 0, records_in / useful_ns * NS_PER_S, np.nan)
    total = sum_by(task, np.where(is_active, rate, 0.0), len(parallelism))
    return total * (parallelism / sum_by(task, is_active.astype(np.float64), len(parallelism)))


def output_ratios(snapshot: ClusterSnapshot, rate_in: Floats) -> Floats:
    """Return, for every edge, the rows sent into it (before its shedders) per row that its producer took.

    NaN: not measured, or the producer took nothing.
    """
    edges, outputs = snapshot.edges, snapshot.outputs
    sent = sum_by(outputs.edge, or_nan(outputs.records_out, len(outputs)), len(edges)) / snapshot.window_s
    sent[np.bincount(outputs.edge, minlength=len(edges)) == 0] = np.nan
    taken = rate_in[edges.producer]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(taken > 0, sent / taken, np.nan)


def source_targets(snapshot: ClusterSnapshot) -> Floats:
    """Return the rate (rows/s) that every source must read; NaN for other tasks and where it is unknown.

    An external target takes precedence over the log's input rate; rates after shedders are never used.
    """
    tasks, partitions = snapshot.tasks, snapshot.partitions
    reader = snapshot.instances.task[partitions.instance]
    appended = sum_by(reader, or_nan(partitions.appended, len(partitions)), len(tasks)) / snapshot.window_s
    appended[np.bincount(reader, minlength=len(tasks)) == 0] = np.nan
    external = or_nan(tasks.target_rate, len(tasks))
    return np.where(tasks.is_source, np.where(np.isnan(external), appended, external), np.nan)


def or_nan(column: Floats | None, rows: int) -> Floats:
    """Return a column, or one of NaN if it was not measured."""
    return np.full(rows, np.nan) if column is None else column


def sum_by(group: np.ndarray, values: Floats, groups: int) -> Floats:
    """Return the sum of the values of every group; NaN if one of them is."""
    return np.asarray(np.bincount(group, weights=values, minlength=groups), np.float64)


def any_by(group: np.ndarray, flags: Bools, groups: int) -> Bools:
    """Return whether any row of every group is flagged."""
    flagged = np.zeros(groups, np.bool_)
    flagged[group[flags]] = True
    return flagged
