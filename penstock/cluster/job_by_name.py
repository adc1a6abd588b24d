"""A job on Ray, steered by its head actor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleRecord
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.moves.move_orders import MoveRecord
from penstock.engine.plan.free_edges import Routes


class SteeringCalls(Protocol):
    """What is called of a head; see `Head`."""

    job: str

    def task_managers(self) -> TaskManagers:
        """Return task managers."""

    def resize_managers(self, count: int) -> TaskManagers:
        """Want so many."""

    def drain_manager(self, name: str) -> TaskManagers:
        """Let one go."""

    def ask_rescale(self, parallelism: Mapping[str, int]) -> int:
        """Ask for other instances."""

    def rescales(self) -> tuple[RescaleRecord, ...]:
        """Return the last changes of parallelism."""

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        """Return what would change."""

    def move(self, instance: str, task_manager: str) -> int:
        """Ask for a move."""

    def moves(self) -> tuple[MoveRecord, ...]:
        """Return the last moves."""

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """Change shares."""


@dataclass(frozen=True, slots=True)
class ByName:
    """A job on Ray, by its head actor; see `SteeredJob`."""

    head: SteeringCalls

    def name(self) -> str:
        """See `SteeredJob.name`."""
        return self.head.job

    def known(self) -> TaskManagers:
        """See `SteeredJob.known`."""
        return self.head.task_managers()

    def resize(self, count: int) -> TaskManagers:
        """See `SteeredJob.resize`."""
        return self.head.resize_managers(count)

    def drain(self, name: str) -> TaskManagers:
        """See `SteeredJob.drain`."""
        return self.head.drain_manager(name)

    def ask_rescale(self, parallelism: Mapping[str, int]) -> int:
        """See `SteeredJob.ask_rescale`."""
        return self.head.ask_rescale(parallelism)

    def rescales(self) -> tuple[RescaleRecord, ...]:
        """See `SteeredJob.rescales`."""
        return self.head.rescales()

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        """See `SteeredJob.preview_rescale`."""
        return self.head.preview_rescale(parallelism)

    def move(self, instance: str, task_manager: str) -> int:
        """See `SteeredJob.move`."""
        return self.head.move(instance, task_manager)

    def moves(self) -> tuple[MoveRecord, ...]:
        """See `SteeredJob.moves`."""
        return self.head.moves()

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """See `SteeredJob.route`."""
        return self.head.route(operator, shares)
