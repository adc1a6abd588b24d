"""The moves that a controller of load decides on, carried out on a running job one after the other.

What an instance has by keys goes to instances of its task at another task manager; the instance stays, with nothing
left to do. It belongs to the thread of the job's head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from penstock.engine.moves.move_orders import AskedMove, MoveOrder, MoveOrders, MoveSummary
from penstock.model.errors import PenstockError


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The end of what was begun: what each move took, by its instance, and why others were not done."""

    done: dict[str, MoveSummary]
    failed: dict[str, str]


class MoveActuator:
    """Carries out the moves of one decision at a time."""

    def __init__(self, orders: MoveOrders) -> None:
        """Begin with none."""
        self._orders = orders
        self._asked: list[AskedMove] | None = None
        self._refused: dict[str, str] = {}

    def begin(self, orders: Sequence[MoveOrder], refused: Mapping[str, str] = MappingProxyType({})) -> None:
        """Ask for moves, which are done in this order; ``refused``: why others of the decision are not."""
        self._asked, self._refused = [], dict(refused)
        for order in orders:
            try:
                self._asked.append(self._orders.ask(order))
            except PenstockError as error:
                self._refused[order.instance] = str(error)

    def turn(self) -> MoveResult | None:
        """Return how all have ended, None: they have not, or nothing was begun."""
        if self._asked is None or not all(asked.answer.done() for asked in self._asked):
            return None
        asked, self._asked = self._asked, None
        done, failed = {}, self._refused
        for item in asked:
            error = item.answer.exception()
            if error is None:
                done[item.order.instance] = item.answer.result()
            else:
                failed[item.order.instance] = str(error)
        return MoveResult(done, failed)
