"""Identity of instances across snapshots, in which they and their tasks may have different rows.

A policy's memory of an instance belongs to the names of its application and task and its number. Called by `warm_up`
and `qod_figures`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Names
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.task_levels import Indexes

_NUMBERS = np.int64(1) << 32


@dataclass(frozen=True, slots=True, eq=False)
class InstanceNames:
    """Instances of a snapshot: `code` identifies each among these names of applications and tasks."""

    applications: Names
    tasks: Names
    application: tuple[int, ...]
    code: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.code)

    def select(self, rows: Indexes) -> "InstanceNames":
        """Return the instances at `rows`."""
        return InstanceNames(self.applications, self.tasks, self.application, self.code[rows])

    def places_in(self, before: "InstanceNames") -> Indexes:
        """Return the place of each instance in `before`, -1 for those that are absent."""
        if not len(before) or not len(self):
            return np.full(len(self), -1)
        code = self.codes_in(before)
        order = np.argsort(before.code)
        at = np.minimum(np.searchsorted(before.code[order], code), len(before) - 1)
        return np.where(before.code[order[at]] == code, order[at], -1)

    def codes_in(self, other: "InstanceNames") -> NDArray[np.int64]:
        """Return the instances' codes among the names of `other`, -1 for an unknown task."""
        if self._named_as(other):
            return self.code
        task, number = np.divmod(self.code, _NUMBERS)
        rows = {name: row for row, name in enumerate(other.task_names())}
        task_rows = np.array([rows.get(name, -1) for name in self.task_names()], np.int64)
        return np.where(task_rows[task] >= 0, task_rows[task] * _NUMBERS + number, -1)

    def subjects(self) -> list[str]:
        """Return "application/task/number" of each instance."""
        names = self.task_names()
        task, number = np.divmod(self.code, _NUMBERS)
        pairs = zip(task.tolist(), number.tolist(), strict=True)
        return ["/".join((*names[row], str(own))) for row, own in pairs]

    def task_names(self) -> list[tuple[str, str]]:
        """Return the names of the application and of the task, by task."""
        return [(self.applications[row], name) for row, name in zip(self.application, self.tasks, strict=True)]

    def _named_as(self, other: "InstanceNames") -> bool:
        return (
            self.tasks == other.tasks
            and self.application == other.application
            and self.applications == other.applications
        )


def names_of(snapshot: ClusterSnapshot, rows: Indexes) -> InstanceNames:
    """Return the instances at these rows."""
    instances, tasks = snapshot.instances, snapshot.tasks
    code = instances.task[rows].astype(np.int64) * _NUMBERS + instances.number[rows]
    return InstanceNames(snapshot.applications.name, tasks.name, tuple(tasks.application.tolist()), code)


NOBODY = InstanceNames((), (), (), np.zeros(0, np.int64))
