"""The sizes that a scaler decides on, carried out on a running job: instances of operators, and task managers for them.

Task managers come before the instances that are to be on them, and go after those that were. It belongs to the thread
of the job's head; what it asks for is done between its turns.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from penstock.engine.jobs.manager_orders import ManagerOrders
from penstock.engine.jobs.rescale_orders import RescaleOrders, RescaleSummary
from penstock.model.errors import PenstockError

JOIN_NS = 60_000_000_000
"""How long task managers that were asked for are waited for, until they are warm; then those there are will do."""


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """The end of what was begun: what it took, or why it was not done."""

    summary: RescaleSummary | None
    failure: str | None


@dataclass(slots=True)
class _Order:
    """Instances by operator, the most that any has then, and until when task managers for them are waited for.

    ``managers``: how many there are to be, None: nobody was asked for them yet; ``asked`` None: they are waited for.
    """

    parallelism: Mapping[str, int]
    widest: int
    until_ns: int
    managers: int | None = None
    asked: "Future[RescaleSummary] | None" = None


class ScaleActuator:
    """Carries out one order at a time."""

    def __init__(self, rescales: RescaleOrders, managers: ManagerOrders, cores: float | None) -> None:
        """Begin with none. A task manager has a core: there are ``cores`` of them at most; None: as many as before."""
        self._rescales, self._managers, self._cores = rescales, managers, cores
        self._order: _Order | None = None

    def begin(self, parallelism: Mapping[str, int], widest: int, now_ns: int) -> None:
        """Let operators, by their names, have so many instances; ``widest``: the most that any has then."""
        self._order = _Order(dict(parallelism), widest, now_ns + JOIN_NS)

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

    def _go_on(self, order: _Order, now_ns: int) -> RescaleSummary | None:
        known = self._managers.known()
        if order.managers is None:
            order.managers = known.wanted if self._cores is None else max(1, min(int(self._cores), order.widest))
            if order.managers > known.wanted:
                self._managers.resize(order.managers)
        if order.asked is None:
            if len(known.warm) >= order.managers or now_ns >= order.until_ns:
                order.asked = self._rescales.ask(order.parallelism).answer
            return None
        if not order.asked.done():
            return None
        summary = order.asked.result()
        if order.managers < known.wanted:
            self._managers.resize(order.managers)
        return summary
