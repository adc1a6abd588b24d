"""What the HTTP API needs of a job, wherever its instances run; `PlainJob` and `RecoveringJob` are such jobs."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.engine.jobs.manager_orders import ManagerOrders
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.rescale_orders import RescaleOrders
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.jobs.status import JobStatus
from penstock.engine.moves.move_orders import MoveOrders
from penstock.engine.plan.free_edges import Routes
from penstock.model.execution_graph import ExecutionGraph


class ServedJob(Protocol):
    """A job that runs. Every method may be called from any thread, and none makes the job wait."""

    @property
    def graph(self) -> ExecutionGraph:
        """Its plan."""

    @property
    def limits(self) -> RunningLimits:
        """The limits of its queries."""

    @property
    def moves(self) -> MoveOrders:
        """What is to move, and has moved."""

    @property
    def rescales(self) -> RescaleOrders:
        """Which operators are to have other numbers of instances, and have."""

    @property
    def managers(self) -> ManagerOrders:
        """Which task managers there are, and which are to come or go."""

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        """Return what other numbers of instances would change.

        Raises:
            OptionError: they cannot be.
        """

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """Let instances get shares of rows that may go to any, and return all that hold.

        Raises:
            PenstockError: that cannot be.
        """

    def memory(self) -> MemorySummary:
        """Return the memory of its operators."""

    def preview_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        """Return what other budgets in bytes would lead to, by operator.

        Raises:
            OptionError: they cannot be.
        """

    def change_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        """Let operators have these budgets.

        Raises:
            PenstockError: they cannot have them, or they could not be kept.
        """

    def status(self) -> JobStatus:
        """Return where it is in its life."""

    def metrics(self) -> JobMetrics:
        """Return a snapshot of its metrics."""

    def stop(self, *, drain: bool = False, savepoint: str | None = None) -> None:
        """Ask for the end; ``savepoint`` names what is kept of it.

        Raises:
            UserError: it cannot keep that savepoint.
        """

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        """Take a savepoint, wait until it is committed, and return its epoch.

        Raises:
            PenstockError: it cannot be taken.
        """
