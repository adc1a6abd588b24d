"""Snapshots of windows that follow each other as one of the whole time, as who looks more seldom would have seen it.

Pure. Counts and times of windows add up, means are those over time, those of rows and accesses over these, and the rest
is as it was at the end.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Floats
from penstock.model.snapshot import GROUPS, ClusterSnapshot, InstanceColumns, ReuseColumns

_SUMS: Mapping[str, frozenset[str]] = {
    "applications": frozenset(
        {"gc_ns", "gc_count", "throttled_ns", "cpu_ns", "out_of_memory_kills", "disk_io_bytes", "working_ns"}
    ),
    "machines": frozenset(
        {"out_of_memory_kills", "network_data_bytes", "network_heartbeat_bytes", "network_checkpoint_bytes",
         "network_other_bytes"}
    ),
    "instances": frozenset(
        {"records_in", "busy_ns", "remote_wait_ns", "core_wait_ns", "input_wait_ns", "output_wait_ns", "cpu_ns",
         "steps", "cache_hits", "cache_misses", "flush_stall_ns"}
    ),
    "outputs": frozenset({"records_out", "dropped"}),
    "inputs": frozenset({"offered"}),
    "partitions": frozenset({"appended", "consumed"}),
    "buckets": frozenset({"records_in"}),
    "services": frozenset({"calls", "errors", "retries"}),
}  # fmt: skip
_MEANS: Mapping[str, frozenset[str]] = {
    "machines": frozenset({"cpu_percent", "rest_percent"}),
}
_OF_ROWS = ("get_p90_ms", "put_ms", "emit_latency_ms")
"""Figures of instances that are of the rows which were worked on; a window without any has none."""

_PEAKS: Mapping[str, frozenset[str]] = {
    "applications": frozenset({"heap_used_bytes"}),
    "partitions": frozenset({"lag_max"}),
}
_PASSING = frozenset({"reuse", "buffers", "affinities", "refusals"})

Merge = Callable[[NDArray[Any]], NDArray[Any]]


def joined(snapshots: Sequence[ClusterSnapshot]) -> ClusterSnapshot:
    """Return one snapshot of the windows of all, which follow each other; the number is that of the last.

    Those before a change of what the rows are, as of instances that came, are left out.

    Raises:
        ValueError: there is none.
    """
    if not snapshots:
        raise ValueError("there is no window")
    last = snapshots[-1]
    alike: list[ClusterSnapshot] = []
    for snapshot in reversed(snapshots):
        if _rows(snapshot) != _rows(last):
            break
        alike.insert(0, snapshot)
    seconds = np.array([snapshot.window_s for snapshot in alike])
    groups = {name: _joined_group(name, [getattr(each, name) for each in alike], seconds) for name in GROUPS}
    instances = [each.instances for each in alike]
    of_rows = {column: _mean_over(instances, column, "records_in") for column in _OF_ROWS}
    groups["instances"] = replace(
        groups["instances"], get_ms=_get_ms(instances), latency_ms=_latency_ms(instances), **of_rows
    )
    services = [each.services for each in alike]
    groups["services"] = replace(groups["services"], latency_ms=_mean_over(services, "latency_ms", "calls"))
    return replace(last, window_s=float(seconds.sum()), **groups)


def _joined_group(name: str, groups: Sequence[Any], seconds: NDArray[np.float64]) -> Any:
    if name == "reuse":
        return _reuse(groups)
    weights = seconds / seconds.sum()
    merges: Iterable[tuple[frozenset[str], Merge]] = (
        (_SUMS.get(name, frozenset()), lambda rows: rows.sum(0)),
        (_MEANS.get(name, frozenset()), lambda rows: weights @ rows),
        (_PEAKS.get(name, frozenset()), lambda rows: rows.max(0)),
    )
    columns = {column: _column(groups, column, merge) for names, merge in merges for column in names}
    return replace(groups[-1], **columns)


def _get_ms(windows: Sequence[InstanceColumns]) -> Floats | None:
    """Return the mean time of an access over all accesses; NaN: it is not known of some, or there was none."""
    hits, misses = _stacked(windows, "cache_hits"), _stacked(windows, "cache_misses")
    return None if hits is None or misses is None else _mean(windows, "get_ms", hits + misses)


def _mean_over(windows: Sequence[Any], column: str, counted: str) -> Floats | None:
    """Return the mean of a figure over all that another one counts; NaN: it is not known of some, or there was none."""
    counts = _stacked(windows, counted)
    return None if counts is None else _mean(windows, column, counts)


def _latency_ms(windows: Sequence[InstanceColumns]) -> Floats | None:
    """Return how long a row waits and is worked on, over the rows that came; where more wait, how long those have."""
    rows, queued = _stacked(windows, "records_in"), _stacked(windows, "queue_rows")
    if rows is None:
        return None
    waiting = np.zeros_like(rows) if queued is None else np.nan_to_num(queued)
    counts = np.fmax(rows, waiting)
    mean = _mean(windows, "latency_ms", counts)
    if mean is None:
        return None
    of = np.fmax(rows.sum(axis=0), waiting[-1])
    latency_ms: Floats = np.divide(mean * counts.sum(axis=0), of, np.full(len(of), np.nan), where=of > 0)
    return latency_ms


def _mean(windows: Sequence[Any], column: str, counts: Floats) -> Floats | None:
    """Return the means of a figure, which counts so often in each window; None: it was measured in none."""
    measured = [getattr(each, column) for each in windows]
    if all(values is None for values in measured):
        return None
    values = np.stack(
        [np.full(len(each), np.nan) if own is None else own for each, own in zip(windows, measured, strict=True)]
    )
    total = counts.sum(axis=0)
    mean = np.full(total.shape, np.nan)
    # A figure that counts for nothing need not be known.
    np.divide(np.where(counts == 0, 0.0, counts * values).sum(axis=0), total, mean, where=total > 0)
    return mean


def _stacked(groups: Sequence[Any], column: str) -> NDArray[Any] | None:
    """Return a column of all windows, None: it was not measured in one of them."""
    values = [getattr(group, column) for group in groups]
    return None if any(value is None for value in values) else np.stack(values)


def _column(groups: Sequence[Any], column: str, merge: Merge) -> NDArray[Any] | None:
    """Return a column of the whole time; None, or NaN in a row: it was not measured in one of the windows."""
    stacked = _stacked(groups, column)
    return None if stacked is None else merge(stacked)


def _reuse(groups: Sequence[ReuseColumns]) -> ReuseColumns:
    """Return the sampled accesses of all windows."""
    measured = [group for group in groups if group.distance_bytes is not None and group.accesses is not None]
    if not measured:
        return groups[-1]
    return ReuseColumns(
        np.concatenate([group.task for group in measured]),
        np.concatenate([group.distance_bytes for group in measured if group.distance_bytes is not None]),
        np.concatenate([group.accesses for group in measured if group.accesses is not None]),
    )


def _rows(snapshot: ClusterSnapshot) -> list[list[Any]]:
    """Return what the rows of a snapshot are, of the groups whose rows are there for long."""
    groups = [getattr(snapshot, name) for name in GROUPS if name not in _PASSING]
    return [
        np.asarray(getattr(group, field.name)).tolist()
        for group in groups
        for field in fields(group)
        # What may not be measured is no part of what a row is.
        if field.default is not None
    ]
