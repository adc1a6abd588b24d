"""What an action is expected to do, and whether it did: figures of the snapshots before and after it.

Called by `control_loop`; both go into the action log (docs/design/controllers.md 7).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from penstock.model.columns import Floats
from penstock.model.plan import ApplicationSize, Decision, RescalePlan, ShedPlan, TaskSize
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.capacity import true_capacity
from penstock.scheduler.core_needs import busiest_share, spread_share
from penstock.scheduler.true_rates import or_nan, source_targets

CAME = 0.5
"""So much of the expected change is an effect."""

LEAST_GAIN = 0.1
"""More memory is expected to raise a task's capacity by this share at least."""

FULLEST = "busiest machine"
"""The figure of an application: the part of its busy time that the machine has which has most of it."""

SAME = 0.1
"""Figures that differ by less than this share are the same evidence."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A figure of a subject ("application/task", or the application) before an action, and as it is to be after it."""

    subject: str
    figure: str
    before: float
    expected: float

    def came(self, observed: float) -> bool:
        """Return whether the figure went at least half the way; one that is not measured has not."""
        return bool(np.isfinite(observed)) and (observed - self.before) / (self.expected - self.before) >= CAME


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of change of a subject, and the evidence for it: what is offered, and what an instance can take.

    ``subject`` is an application, "application/task", or "application/task/number"; ``task`` is "application/task",
    "" of an application. ``what`` is the word of `RefusalColumns` for it.
    """

    subject: str
    task: str
    kind: str
    what: str
    offered: float
    each: float

    def is_same(self, other: "Change") -> bool:
        """Return whether it is the same change on the same evidence; figures that are not measured are alike."""
        return (self.subject, self.kind) == (other.subject, other.kind) and all(
            _alike(one, two) for one, two in ((self.offered, other.offered), (self.each, other.each))
        )


class Figures:
    """Figures of a snapshot's tasks by "application/task"."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        """Work them out once."""
        self.snapshot = snapshot
        instances, tasks = snapshot.instances, len(snapshot.tasks)
        self.names = [f"{of}/{task}" for of, task in snapshot.task_names()]
        self.row = {name: task for task, name in enumerate(self.names)}
        self.count = np.bincount(instances.task, minlength=tasks)
        self._records = or_nan(instances.records_in, len(instances))
        useful_ns = or_nan(instances.busy_ns, len(instances)) + or_nan(instances.remote_wait_ns, len(instances))
        capacity = true_capacity(self._records, useful_ns, or_nan(instances.core_wait_ns, len(instances)))
        known = np.bincount(instances.task, ~np.isnan(capacity), tasks)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.each: Floats = np.bincount(instances.task, np.nan_to_num(capacity), tasks) / known
        offered = np.nan_to_num(source_targets(snapshot))
        self.offered = np.bincount(snapshot.tasks.application, offered, len(snapshot.applications))

    def of(self, subject: str, figure: str) -> float:
        """Return a figure; NaN if the subject is not there, or was not measured."""
        if figure in ("cores", "memory"):
            return self._allocation(subject, figure)
        if figure == FULLEST:
            names = self.snapshot.applications.name
            return busiest_share(self.snapshot, names.index(subject)) if subject in names else float("nan")
        task = self.row.get(subject)
        if task is None:
            return float("nan")
        if figure == "instances":
            return float(self.count[task])
        if figure == "capacity":
            return float(self.each[task] * self.count[task])
        records = self._records[self.snapshot.instances.task == task]
        total = float(records.sum())
        return float(records.max()) / total if total > 0 else float("nan")

    def is_on(self, subject: str, machine: str) -> float:
        """Return 1 if an instance, "application/task/number", is on a machine, or all that it had.

        That is so where it takes nothing in any more, and another of its task is there.
        """
        task, _, number = subject.rpartition("/")
        of = self.snapshot.instances
        rows = np.flatnonzero((of.task == self.row.get(task, -1)) & (of.number == int(number)))
        names = self.snapshot.machines.name
        if len(rows) != 1 or machine not in names:
            return 0.0
        there = of.machine == names.index(machine)
        is_empty = self._records[rows[0]] == 0 and bool(there[of.task == of.task[rows[0]]].any())
        return float(bool(there[rows[0]]) or is_empty)

    def change(self, task: int, kind: str, what: str, number: int | None = None) -> Change:
        """Return a change of a task, or of one of its instances, with what speaks for it."""
        name, of = self.names[task], int(self.snapshot.tasks.application[task])
        subject = name if number is None else f"{name}/{number}"
        return Change(subject, name, kind, what, float(self.offered[of]), float(self.each[task]))

    def allocation(self, application: int, kind: str, what: str = "") -> Change:
        """Return a change of what an application is given; ``what`` is the first word of its kind, if not said."""
        name = self.snapshot.applications.name[application]
        return Change(name, "", kind, what or kind.partition(" ")[0], float(self.offered[application]), float("nan"))

    def _allocation(self, application: str, figure: str) -> float:
        of = self.snapshot.applications
        column = of.cores if figure == "cores" else of.memory_bytes
        if column is None or application not in of.name:
            return float("nan")
        return float(column[of.name.index(application)])


def observed(expectation: Expectation, figures: Figures) -> float:
    """Return the figure of an expectation as it is."""
    if expectation.figure.startswith("on "):
        return figures.is_on(expectation.subject, expectation.figure[3:])
    return figures.of(expectation.subject, expectation.figure)


def parts_of(decision: Decision, figures: Figures) -> dict[tuple[str, int], Change]:
    """Return the changes of a decision by where they stand in it: the name of the field, and the place there."""
    parts: dict[tuple[str, int], Change] = {}
    if isinstance(decision, RescalePlan):
        for place, size in enumerate(decision.tasks):
            kind = _kind(size, figures)
            what = "memory" if kind.endswith("memory") else "parallelism"
            parts["tasks", place] = figures.change(size.task, kind, what)
        for place, bucket in enumerate(decision.buckets):
            parts["buckets", place] = figures.change(bucket.task, "buckets", "bucket")
        for place, route in enumerate(decision.routes):
            task = int(figures.snapshot.edges.consumer[route.edge])
            parts["routes", place] = figures.change(task, "routes", "route")
        for place, given in enumerate(decision.applications):
            parts["applications", place] = figures.allocation(given.application, _allocated(given))
        for place, need in enumerate(decision.cores):
            if need.spreads and not any(_resizes(size, need.application, figures) for size in decision.tasks):
                kind = f"on {ceil(need.cores)} cores"
                parts["cores", place] = figures.allocation(need.application, kind, "task managers")
    elif isinstance(decision, ShedPlan):
        of, machines = figures.snapshot.instances, figures.snapshot.machines.name
        for place, move in enumerate(decision.moves):
            task, number = int(of.task[move.instance]), int(of.number[move.instance])
            parts["moves", place] = figures.change(task, f"to {machines[move.machine]}", "machine", number)
    return parts


def is_spread(change: Change) -> bool:
    """Return whether a change is that instances lie on so many cores."""
    return change.kind.startswith("on ") and change.kind.endswith(" cores")


def expectations(decision: Decision, figures: Figures) -> tuple[Expectation, ...]:
    """Return what is to be seen once a decision was carried out."""
    found: list[Expectation] = []
    if isinstance(decision, RescalePlan):
        for size in decision.tasks:
            found += _of_size(size, figures)
        for route in decision.routes:
            subject = figures.names[figures.snapshot.edges.consumer[route.edge]]
            found += _toward(subject, "largest share", figures, max(route.shares))
        for subject, share in _levelled(decision, figures).items():
            found += _toward(subject, "largest share", figures, share)
        for given in decision.applications:
            name = figures.snapshot.applications.name[given.application]
            if given.cores is not None:
                found += _toward(name, "cores", figures, given.cores)
            if given.memory_bytes is not None:
                found += _toward(name, "memory", figures, given.memory_bytes)
        for need in decision.cores:
            if need.spreads and not any(_resizes(size, need.application, figures) for size in decision.tasks):
                name, count = figures.snapshot.applications.name[need.application], ceil(need.cores)
                found += _toward(name, FULLEST, figures, spread_share(figures.snapshot, need.application, count))
    elif isinstance(decision, ShedPlan):
        of = figures.snapshot.instances
        for move in decision.moves:
            subject = f"{figures.names[of.task[move.instance]]}/{of.number[move.instance]}"
            found.append(Expectation(subject, f"on {figures.snapshot.machines.name[move.machine]}", 0.0, 1.0))
    return tuple(found)


def _of_size(size: TaskSize, figures: Figures) -> list[Expectation]:
    subject, before = figures.names[size.task], int(figures.count[size.task])
    found = _toward(subject, "instances", figures, size.parallelism)
    grows, more = size.parallelism / max(before, 1), _kind(size, figures) == "more memory"
    if size.parallelism > before or (more and size.parallelism == before):
        factor = grows if size.parallelism > before else 1.0 + LEAST_GAIN
        found += _toward(subject, "capacity", figures, figures.of(subject, "capacity") * factor)
    return found


def _resizes(size: TaskSize, application: int, figures: Figures) -> bool:
    """Return whether a task is the application's, and gets other instances; all are not placed anew then."""
    own = figures.snapshot.tasks.application[size.task] == application
    return bool(own and size.parallelism != figures.count[size.task])


def _toward(subject: str, figure: str, figures: Figures, expected: float) -> list[Expectation]:
    """Return the expectation of a figure that is to change; none if it is not measured, or stays."""
    before = figures.of(subject, figure)
    if not (np.isfinite(before) and np.isfinite(expected)) or expected == before:
        return []
    return [Expectation(subject, figure, before, float(expected))]


def _levelled(plan: RescalePlan, figures: Figures) -> Mapping[str, float]:
    """Return the largest share of an instance of each task once its buckets have moved."""
    buckets, of = figures.snapshot.buckets, figures.snapshot.instances
    shares: dict[str, float] = {}
    for task in {move.task for move in plan.buckets}:
        rows = np.flatnonzero(buckets.task == task)
        if buckets.records_in is None or not len(rows):
            continue
        number = of.number[buckets.instance[rows]].astype(np.int64)
        moved = {move.bucket: move.number for move in plan.buckets if move.task == task}
        number = np.array(
            [moved.get(int(bucket), int(now)) for bucket, now in zip(buckets.bucket[rows], number, strict=True)]
        )
        load = np.bincount(number, np.nan_to_num(buckets.records_in[rows]))
        if load.sum() > 0:
            shares[figures.names[task]] = float(load.max() / load.sum())
    return shares


def _kind(size: TaskSize, figures: Figures) -> str:
    before = int(figures.count[size.task])
    if size.parallelism != before:
        return "grow" if size.parallelism > before else "shrink"
    level = int(figures.snapshot.tasks.memory_level[size.task])
    if size.memory_level is not None and size.memory_level != level:
        return "more memory" if size.memory_level > level else "less memory"
    managed = or_nan(figures.snapshot.instances.managed_bytes, len(figures.snapshot.instances))
    now = managed[figures.snapshot.instances.task == size.task]
    more = size.managed_bytes is not None and len(now) and size.managed_bytes > now.max()
    return "more memory" if more else "less memory"


def _allocated(given: ApplicationSize) -> str:
    return " ".join(
        name
        for name, value in (
            ("cores", given.cores),
            ("memory", given.memory_bytes),
            ("heap", given.heap_bytes),
            ("threads", given.threads),
        )
        if value is not None
    )


def _alike(one: float, other: float) -> bool:
    if not (np.isfinite(one) and np.isfinite(other)):
        return bool(np.isfinite(one) == np.isfinite(other))
    return bool(abs(one - other) <= SAME * max(abs(one), abs(other)))
