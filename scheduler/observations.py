"""Metrics that Sage keeps of every application, tick by tick, in sliding windows (Sage, 4). Called by `sage`.

A window is an array over ticks and applications; NaN: not measured. Nothing is changed in place, so an older history
stays as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats, Ints, Names
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.shed_rows import shed_shares

Window = NDArray[np.float64]
"""Ticks x applications, the oldest first."""


@dataclass(frozen=True, slots=True, eq=False)
class ApplicationMetrics:
    """One figure per application or, in a `MetricHistory`, a `Window` of them; NaN: not measured.

    Allocations: ``heap``, ``memory`` in bytes, ``cores``, ``threads``. Use: ``heap_used``, ``heap_committed``,
    ``resident`` in bytes, ``cpu`` and ``busy_threads`` as a mean number, ``gc`` as a share of the CPU that was used, or
    of one core's time if that is more, ``throttled`` of the threads' time, ``kills``, ``disk_io`` in bytes/s,
    ``backlog`` in rows waiting in the sources' logs, ``consumed`` (read and not shed) and ``appended`` in rows/s;
    ``shed``: the largest share that shedders drop before a task. Remote services:
    ``latency_ms`` (the worst one's mean), ``calls`` and ``answers`` (those without an error) a second. ``settled_s``
    has passed since an action or a restart (infinite where unknown).
    """

    heap: Floats
    memory: Floats
    cores: Floats
    threads: Floats
    heap_used: Floats
    heap_committed: Floats
    resident: Floats
    cpu: Floats
    busy_threads: Floats
    gc: Floats
    throttled: Floats
    kills: Floats
    disk_io: Floats
    backlog: Floats
    consumed: Floats
    appended: Floats
    shed: Floats
    latency_ms: Floats
    calls: Floats
    answers: Floats
    settled_s: Floats


METRICS = tuple(field.name for field in fields(ApplicationMetrics))
SPARSE = frozenset({"latency_ms", "calls", "answers"})
"""Figures of services, which are missing where nobody calls one."""


def application_metrics(snapshot: ClusterSnapshot) -> ApplicationMetrics:
    """Return the figures of a snapshot by application."""
    applications, count, window_s = snapshot.applications, len(snapshot.applications), snapshot.window_s
    instances = snapshot.instances
    by_instance = snapshot.tasks.application[instances.task]
    by_partition = by_instance[snapshot.partitions.instance]

    def own(column: Floats | None, per: float = 1.0) -> Floats:
        return np.full(count, np.nan) if column is None else column / per

    def added(column: Floats | None, rows: Ints, per: float) -> Floats:
        if column is None:
            return np.full(count, np.nan)
        return np.bincount(rows, column, count) / per

    worked = _sum(instances.busy_ns, instances.remote_wait_ns, instances.core_wait_ns)
    behind = _difference(snapshot.partitions.end_offset, snapshot.partitions.position)
    settled_s = np.full(count, np.inf)
    if instances.settled_s is not None:
        np.fmin.at(settled_s, by_instance, instances.settled_s)
    share, shed = shed_shares(snapshot), np.zeros(count)
    np.maximum.at(shed, snapshot.tasks.application, share)
    consumed = snapshot.partitions.consumed
    kept = None if consumed is None else consumed * (1.0 - share[instances.task[snapshot.partitions.instance]])
    working = added(worked, by_instance, window_s * 1e9)
    services = snapshot.services
    latency = np.full(count, np.nan)
    if services.latency_ms is not None:
        np.fmax.at(latency, services.application, services.latency_ms)
    return ApplicationMetrics(
        heap=own(applications.heap_bytes),
        memory=own(applications.memory_bytes),
        cores=own(applications.cores),
        threads=own(applications.threads),
        heap_used=own(applications.heap_used_bytes),
        heap_committed=own(applications.heap_committed_bytes),
        resident=own(applications.resident_bytes),
        cpu=own(applications.cpu_ns, window_s * 1e9),
        busy_threads=_first_known(own(applications.working_ns, window_s * 1e9), working),
        gc=own(applications.gc_ns) / np.maximum(own(applications.cpu_ns), window_s * 1e9),
        throttled=own(applications.throttled_ns, window_s * 1e9) / own(applications.threads),
        kills=own(applications.out_of_memory_kills),
        disk_io=own(applications.disk_io_bytes, window_s),
        backlog=added(behind, by_partition, 1.0),
        consumed=added(kept, by_partition, window_s),
        appended=added(snapshot.partitions.appended, by_partition, window_s),
        shed=shed,
        latency_ms=latency,
        calls=added(services.calls, services.application, window_s),
        answers=added(_difference(services.calls, services.errors), services.application, window_s),
        settled_s=settled_s,
    )


@dataclass(frozen=True, slots=True, eq=False)
class MetricHistory:
    """The last ticks of all applications: ``time_s`` of each; ``first_s``: when an application first appeared."""

    names: Names
    time_s: Floats
    first_s: Floats
    windows: ApplicationMetrics

    @classmethod
    def empty(cls) -> Self:
        """Return the history before the first tick."""
        none = np.empty((0, 0))
        return cls((), np.empty(0), np.empty(0), ApplicationMetrics(*[none] * len(METRICS)))

    def with_snapshot(self, snapshot: ClusterSnapshot, keep_s: float) -> "MetricHistory":
        """Return the history with one more snapshot, without ticks older than ``keep_s``; applications come and go.

        A single figure that is missing between two that were measured is the one before it, and no kill: what was
        counted meanwhile is in the next. So a report that is late does not keep rules that need a whole window from
        being tried; they are not tried while the last figure is missing.
        """
        names = snapshot.applications.name
        places = {name: place for place, name in enumerate(self.names)}
        old = np.array([places.get(name, -1) for name in names], np.int64)
        first_s = np.where(old >= 0, self.first_s[old] if len(self.names) else np.nan, snapshot.time_s)
        is_recent = self.time_s > snapshot.time_s - keep_s
        latest = application_metrics(snapshot)
        windows = {
            name: _bridged(name, _with_latest(getattr(self.windows, name), is_recent, old, getattr(latest, name)))
            for name in METRICS
        }
        return MetricHistory(
            names, np.append(self.time_s[is_recent], snapshot.time_s), first_s, ApplicationMetrics(**windows)
        )

    def fed_s(self, window_s: float) -> Floats:
        """Return how long ago the first rows came by application, 0 if none has; windows are ``window_s`` long."""
        has_rows = self.windows.appended > 0
        since_s = self.time_s[-1] - self.time_s[has_rows.argmax(axis=0)] + window_s
        return np.where(has_rows.any(axis=0), since_s, 0.0)

    def last(self, seconds: float) -> ApplicationMetrics:
        """Return the ticks of the last ``seconds``."""
        first = int(np.searchsorted(self.time_s, self.time_s[-1] - seconds, side="right"))
        return replace(self.windows, **{name: getattr(self.windows, name)[first:] for name in METRICS})


def complete_figures(window: ApplicationMetrics, names: Sequence[str]) -> tuple[Bools, tuple[str, ...]]:
    """Return which applications have all of these figures in a window, and which figures no application has."""
    holes = {name: np.isnan(getattr(window, name)) for name in names}
    unmeasured = tuple(name for name, hole in holes.items() if hole.all())
    is_complete = ~np.logical_or.reduce([hole.any(axis=0) for hole in holes.values()])
    return np.asarray(is_complete, np.bool_), unmeasured


def _with_latest(window: Window, is_recent: Bools, old_places: NDArray[np.int64], latest: Floats) -> Window:
    past = np.full((int(is_recent.sum()), len(old_places)), np.nan)
    if window.size:
        past[:, old_places >= 0] = window[is_recent][:, old_places[old_places >= 0]]
    return np.vstack([past, latest[np.newaxis]])


def _bridged(name: str, window: Window) -> Window:
    """Return a window, which is nobody else's yet, with the last figure but one where it alone is missing."""
    if name in SPARSE or len(window) < 3:
        return window
    before, missing, last = np.isnan(window[-3:])
    window[-2] = np.where(missing & ~before & ~last, 0.0 if name == "kills" else window[-3], window[-2])
    return window


def _first_known(figure: Floats, other: Floats) -> Floats:
    return np.where(np.isnan(figure), other, figure)


def _sum(*columns: Floats | None) -> Floats | None:
    total: Floats | None = None
    for column in columns:
        if column is None:
            return None
        total = column if total is None else total + column
    return total


def _difference(more: Floats | None, less: Floats | None) -> Floats | None:
    return None if more is None or less is None else np.maximum(more - less, 0.0)
