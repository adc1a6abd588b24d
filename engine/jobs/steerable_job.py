"""What jobs of all kinds have in common for whoever steers them: limits, memory, places, parallelism."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.manager_orders import ManagerOrders
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.rescale_orders import RescaleOrders, RescaleSummary
from penstock.engine.jobs.rescale_preview import RescalePreview, RescaleTimes, preview
from penstock.engine.jobs.route_orders import RouteOrders
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.engine.jobs.running_memory import MemorySummary, RunningMemory
from penstock.engine.moves.move_orders import MoveOrder, MoveOrders, MoveSummary
from penstock.engine.plan.free_edges import Routes
from penstock.model.control import Limits
from penstock.model.execution_graph import ExecutionGraph


class SteerableJob(ABC):
    """A job whose limits, memory, places and parallelism may be changed while it runs. From any thread."""

    name: str
    _context: AttemptContext
    _plan: JobPlan

    @property
    @abstractmethod
    def graph(self) -> ExecutionGraph:
        """Its plan."""

    @abstractmethod
    def metrics(self) -> JobMetrics:
        """Return a snapshot of its metrics."""

    @abstractmethod
    def places(self) -> Mapping[str, str]:
        """Return the task manager of each instance; {}: all are in this process."""

    @abstractmethod
    def _wake(self) -> None:
        """Let it look at what was changed."""

    @property
    def limits(self) -> RunningLimits:
        """The limits of its queries."""
        return self._context.limits

    @property
    def moves(self) -> MoveOrders:
        """What is to move, and has moved."""
        return self._context.moves

    @property
    def rescales(self) -> RescaleOrders:
        """Which operators are to have other numbers of instances, and have."""
        return self._context.rescales

    @property
    def managers(self) -> ManagerOrders:
        """Which task managers there are, and which are to come or go."""
        return self._context.managers

    @property
    def routes(self) -> RouteOrders:
        """Who gets how much of rows that may go to any instance."""
        return self._context.routes

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """Let instances of an operator get shares of the rows that may go to any of them; return all routes that hold.

        Only the proportion of ``shares`` counts, one for each instance; without any, rows go in turns again. Producers
        heed it from their next batch on, and nothing stands still; it holds for this run, as long as the operator has
        as many instances.

        Raises:
            OptionError: that cannot be.
            PenstockError: the job is over.
        """
        return self._context.routes.ask(self.graph, operator, shares)

    @property
    def budgets(self) -> RunningMemory:
        """The memory of its operators that was changed."""
        return self._context.memory

    def change_limits(self, change: Limits) -> Limits:
        """Lay limits over those that hold, and return all of them; see `RunningLimits.change`."""
        return self._context.limits.change(change)

    def memory(self) -> MemorySummary:
        """Return the budgets of operators whose state lies by keys, as they hold."""
        return self._context.memory.look(self._plan.graph, self._plan.loop)

    def preview_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        """Return what other budgets would lead to.

        Raises:
            OptionError: they cannot be.
        """
        plan = self._plan
        return self._context.memory.preview(plan.graph, plan.loop, budgets, paged=self._is_paged())

    def change_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        """Let operators, by their names, have budgets of so many bytes in each instance; None: as the program says.

        They hold at once, and nothing stands still: state that is above one goes to its pages bit by bit.

        Raises:
            OptionError: that cannot be.
            RetryableError: it could not be kept for later runs; nothing has changed.
        """
        plan = self._plan
        summary = self._context.memory.change(plan.graph, plan.loop, budgets, paged=self._is_paged())
        self._wake()
        return summary

    def _is_paged(self) -> bool:
        return self._context.checkpoints is not None or self._plan.loop.state_bytes is not None

    def move(self, instance: str, task_manager: str, timeout_s: float | None = None) -> MoveSummary:
        """Let what an instance has by keys, or reads, go to others of its task at a task manager; return once it has.

        Not from the thread that runs the job.

        Raises:
            OptionError: that cannot be.
            TimeoutError: it was not done in time; it may be later.
            PenstockError: the job is over, or a failure came in between.
        """
        asked = self.moves.ask(MoveOrder(instance, task_manager))
        try:
            return asked.answer.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"{instance!r} has not moved after {timeout_s} s") from None

    def rescale(self, parallelism: Mapping[str, int], timeout_s: float | None = None) -> RescaleSummary:
        """Let operators, by their names, have so many instances; return once these run.

        The job runs on until a checkpoint is committed, and goes on from it. Not from the thread that runs it.

        Raises:
            OptionError: that cannot be, or another change is under way.
            TimeoutError: it was not done in time; it may be later.
            PenstockError: the job is over, or went on as before.
        """
        asked = self.rescales.ask(parallelism)
        try:
            return asked.answer.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"the parallelism has not changed after {timeout_s} s") from None

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        """Return what other numbers of instances would change.

        Raises:
            OptionError: they cannot be.
        """
        self.rescales.check()
        metrics = self.metrics()
        last = None if metrics.checkpoints is None else metrics.checkpoints.last_duration_ns
        times = RescaleTimes(metrics.state_bytes, None if last is None else last / 1e6, self.rescales.last_stop_ms())
        held = self.moves.held()
        if held is not None:
            held = replace(held, managers=self.managers.known().live)
        return preview(self._plan, parallelism, times, held, self.rescales.noted)
