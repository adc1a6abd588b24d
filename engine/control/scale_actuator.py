"""What a scaler decides on, carried out on a running job: instances of operators, task managers, memory, who gets what.

Shares of rows and owners of key groups change first, among the instances that there are. Task managers come before the
instances that are to be on them, and go after those that were. Memory changes in place: what falls before other
instances come, what rises after that, so that a quota holds meanwhile. It belongs to the thread of the job's head; what
it asks for is done between its turns.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import ceil

from penstock.engine.jobs.manager_orders import ManagerOrders
from penstock.engine.jobs.rescale_orders import RescaleOrders, RescaleSummary
from penstock.engine.jobs.route_orders import RouteOrders
from penstock.engine.jobs.running_cores import RunningCores
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.moves.move_orders import AskedMove, GroupsOrder, MoveOrders, MoveSummary
from penstock.engine.plan.free_edges import Routes
from penstock.model.errors import OptionError, PenstockError
from penstock.model.execution_graph import ExecutionGraph

ChangeMemory = Callable[[ExecutionGraph, Mapping[str, int]], MemorySummary]
"""Lets operators of a plan, by name, have so many bytes in each instance."""

JOIN_NS = 60_000_000_000
"""How long task managers that were asked for are waited for, until they are warm; then those there are will do."""


@dataclass(frozen=True, slots=True)
class JobSize:
    """What a job has after a change that took no time: the cores of all its task managers, and how many these are."""

    cores: float
    task_managers: int


@dataclass(frozen=True, slots=True)
class HandedOut:
    """Work that was handed out anew: what the moves of each task's key groups took, and the shares of operators."""

    moved: Mapping[str, MoveSummary]
    routes: Routes


Summary = RescaleSummary | MemorySummary | HandedOut | JobSize


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """The end of what was begun: what it took, or why it was not done."""

    summary: Summary | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class SizeOrder:
    """The sizes that operators of a plan are to have, by their names: instances, and bytes of memory of each instance.

    Nobody is named who stays as it is. ``widest`` is the most instances that any operator has then, and ``needs`` the
    cores that all of them need together; memory that ``rises`` is apart from that which ``falls``. ``spreads``: all are
    placed anew, as many as they are. ``grows``: an operator gets more. ``moves``: key groups that get other owners;
    ``routes``: shares in rows that may go to any instance. ``cores`` of all task managers together, and their number
    ``managers``; None: as they are, or as many as follow from the rest. ``loads`` are those of the key groups of
    operators that get other instances, as far as they are known.
    """

    graph: ExecutionGraph
    parallelism: Mapping[str, int]
    widest: int
    falls: Mapping[str, int] = field(default_factory=dict)
    rises: Mapping[str, int] = field(default_factory=dict)
    moves: tuple[GroupsOrder, ...] = ()
    routes: Routes = field(default_factory=dict)
    cores: float | None = None
    managers: int | None = None
    loads: Mapping[str, Sequence[float]] = field(default_factory=dict)
    needs: float = 0.0
    spreads: bool = False
    grows: bool = True

    @property
    def is_sized(self) -> bool:
        """Whether it is of instances or their memory, and not only of who gets what."""
        return bool(self.parallelism or self.falls or self.rises or self.spreads)

    def task_managers(self, cores: float, now: int) -> int:
        """Return how many of them it takes within a quota of ``cores``, where there are so many ``now``.

        A loop works at one instance of an operator at a time: there are as many as the widest has, and as all need
        together. What grows frees none.
        """
        least = now if self.grows or self.spreads else 1
        return max(1, min(int(cores), max(least, self.widest, ceil(self.needs - 1e-9))))


@dataclass(slots=True)
class _Order:
    """Sizes on their way, and until when task managers for them are waited for.

    ``moves``: those that were asked for, None: none yet. ``has_fallen``: memory that falls has. ``managers``: how many
    there are to be, None: nobody was asked for them yet, and ``before`` how many there were to be until then; ``asked``
    None: they are waited for.
    """

    sizes: SizeOrder
    until_ns: int
    moves: "list[AskedMove] | None" = None
    has_fallen: bool = False
    managers: int | None = None
    before: int = 1
    asked: "Future[RescaleSummary] | None" = None


class ScaleActuator:
    """Carries out one order at a time."""

    def __init__(
        self,
        rescales: RescaleOrders,
        managers: ManagerOrders,
        cores: float | None,
        change_memory: ChangeMemory,
        hand_out: tuple[MoveOrders, RouteOrders] | None = None,
        running_cores: RunningCores | None = None,
    ) -> None:
        """Begin with none. A task manager has a core: there are ``cores`` of them at most; None: as many as before.

        ``hand_out`` takes orders for key groups and routes, None: nothing is handed out anew. ``running_cores`` is what
        task managers heed; None: nobody does.
        """
        self._rescales, self._managers, self._cores = rescales, managers, cores
        self._change_memory, self._hand_out = change_memory, hand_out
        self.cores = RunningCores() if running_cores is None else running_cores
        """The CPU that task managers may use."""
        self._order: _Order | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being done."""
        return self._order is None

    def count(self) -> int:
        """Return how many task managers instances can be given to.

        Raises:
            OptionError: the job has none.
        """
        return len(self._managers.known().live)

    def begin(self, sizes: SizeOrder, now_ns: int) -> None:
        """Let operators have these sizes."""
        self._order = _Order(sizes, now_ns + JOIN_NS)

    def turn(self, now_ns: int) -> ScaleResult | None:
        """Go on with what was begun; return how it has ended, None: it has not, or nothing was begun."""
        order = self._order
        if order is None:
            return None
        try:
            summary = self._go_on(order, now_ns)
        except PenstockError as error:
            self._order = None
            return ScaleResult(None, str(error))
        if summary is None:
            return None
        self._order = None
        return ScaleResult(summary, None)

    def _go_on(self, order: _Order, now_ns: int) -> Summary | None:
        sizes = order.sizes
        if order.moves is None:
            order.moves = self._asked_moves(sizes)
        if not all(asked.answer.done() for asked in order.moves):
            return None
        handed_out = HandedOut({each.order.instance: each.answer.result() for each in order.moves}, sizes.routes)
        if (sizes.moves or sizes.routes) and not sizes.is_sized:
            return handed_out
        if not order.has_fallen:
            order.has_fallen = True
            changed = self._change_memory(sizes.graph, sizes.falls) if sizes.falls else None
            if sizes.cores is not None:
                self.cores.wanted = sizes.cores
            if not sizes.is_sized:
                if sizes.cores is not None or sizes.managers is not None:
                    return self._sized(sizes)
                raise OptionError("none of these tasks has state by keys, whose memory could change")
            if not (sizes.parallelism or sizes.spreads):
                return self._change_memory(sizes.graph, sizes.rises) if sizes.rises else changed
        known = self._managers.known()
        if order.managers is None:
            order.managers = sizes.managers or (
                known.wanted if self._cores is None else sizes.task_managers(self._cores, known.wanted)
            )
            order.before = known.wanted
            if order.managers > known.wanted:
                self._managers.resize(order.managers)
        if order.asked is None:
            if len(known.warm) >= order.managers or now_ns >= order.until_ns:
                if sizes.spreads and len(known.warm) < order.managers:
                    self._managers.resize(order.before)
                    raise OptionError(
                        f"no more than {len(known.warm)} task managers came of {order.managers}: instances stay where "
                        "they are"
                    )
                keeps = not sizes.parallelism
                order.asked = self._rescales.ask(sizes.parallelism, sizes.loads, keeps=keeps).answer
            return None
        if not order.asked.done():
            return None
        summary = order.asked.result()
        if sizes.rises:
            self._change_memory(sizes.graph, sizes.rises)
        if order.managers < known.wanted:
            self._managers.resize(order.managers)
        return summary

    def _sized(self, sizes: SizeOrder) -> JobSize:
        known = self._managers.known()
        if sizes.managers is not None and sizes.managers != known.wanted:
            self._managers.resize(sizes.managers)
        managers = known.wanted if sizes.managers is None else sizes.managers
        return JobSize(self.cores.held(managers), managers)

    def _asked_moves(self, sizes: SizeOrder) -> "list[AskedMove]":
        """Let producers heed the routes of an order, and ask for its moves."""
        if not (sizes.moves or sizes.routes):
            return []
        if self._hand_out is None:
            raise OptionError("nothing is handed out anew in this job: its instances stay with what they have")
        moves, routes = self._hand_out
        for operator, shares in sizes.routes.items():
            routes.ask(sizes.graph, operator, shares)
        return [moves.ask(order) for order in sizes.moves]
