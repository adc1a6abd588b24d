"""A running job as whoever steers it needs it: its task managers, what moves, its parallelism, and routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleRecord
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.jobs.steerable_job import SteerableJob
from penstock.engine.moves.move_orders import MoveOrder, MoveRecord
from penstock.engine.plan.free_edges import Routes


class SteeredJob(Protocol):
    """A job, asked by any way; orders return at once, and records say what became of them.

    Its methods raise `PenstockError` where it cannot be asked or refuses. The head of a job on Ray is one itself.
    """

    @property
    def job(self) -> str:
        """Its name."""

    def task_managers(self) -> TaskManagers:
        """Return its task managers."""

    def resize_managers(self, count: int) -> TaskManagers:
        """Ask for so many; return those there are."""

    def drain_manager(self, name: str) -> TaskManagers:
        """Let one go for good; return those there are."""

    def ask_rescale(self, parallelism: Mapping[str, int]) -> int:
        """Ask for so many instances of operators, none named: on all task managers; return the change's number."""

    def rescales(self) -> tuple[RescaleRecord, ...]:
        """Return what became of the last changes of parallelism."""

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        """Return what other numbers of instances would change."""

    def move(self, instance: str, task_manager: str) -> int:
        """Ask for a move of what an instance has by keys, or reads; return its number."""

    def moves(self) -> tuple[MoveRecord, ...]:
        """Return what became of the last moves."""

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """Let instances get shares of rows that may go to any; return all that hold."""


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A job whose head is in this process."""

    running: SteerableJob

    @property
    def job(self) -> str:
        """See `SteeredJob.job`."""
        return self.running.name

    def task_managers(self) -> TaskManagers:
        """See `SteeredJob.task_managers`."""
        return self.running.managers.known()

    def resize_managers(self, count: int) -> TaskManagers:
        """See `SteeredJob.resize_managers`."""
        return self.running.managers.resize(count)

    def drain_manager(self, name: str) -> TaskManagers:
        """See `SteeredJob.drain_manager`."""
        return self.running.managers.drain(name)

    def ask_rescale(self, parallelism: Mapping[str, int]) -> int:
        """See `SteeredJob.ask_rescale`."""
        return self.running.rescales.ask(parallelism).number

    def rescales(self) -> tuple[RescaleRecord, ...]:
        """See `SteeredJob.rescales`."""
        return self.running.rescales.records()

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        """See `SteeredJob.preview_rescale`."""
        return self.running.preview_rescale(parallelism)

    def move(self, instance: str, task_manager: str) -> int:
        """See `SteeredJob.move`."""
        return self.running.moves.ask(MoveOrder(instance, task_manager)).number

    def moves(self) -> tuple[MoveRecord, ...]:
        """See `SteeredJob.moves`."""
        return self.running.moves.records()

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """See `SteeredJob.route`."""
        return self.running.route(operator, shares)
