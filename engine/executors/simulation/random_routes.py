"""Shares of rows that may go to any instance, which change at random in a simulated job."""

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.jobs.route_orders import RouteOrders
from penstock.engine.plan.free_edges import free_edges
from penstock.model.execution_graph import ExecutionGraph


class RandomRoutes:
    """Routes that are asked for with a chance at each turn; some instances get nothing for a while."""

    def __init__(self, dice: Dice, chance: float) -> None:
        """Begin without any."""
        self.changed = 0
        """How often they have changed."""
        self._dice, self._chance = dice, chance

    def look(self, graph: ExecutionGraph, orders: RouteOrders) -> bool:
        """Ask for others, if the dice say so; return whether it did."""
        free = sorted({edge.consumer for edge in free_edges(graph)})
        if not free or not self._dice.chance(self._chance):
            return False
        operator = self._dice.choose(free)
        shares = [float(self._dice.below(4)) for _ in range(graph.task_of(operator).parallelism)]
        orders.ask(graph, graph.node(operator).name, shares if any(shares) else ())
        self.changed += 1
        return True
