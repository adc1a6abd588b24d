"""Routes of a job on task managers: the head says to those with producers who gets how much."""

from collections.abc import Callable

from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.head import Head
from penstock.engine.jobs.attempt import AttemptContext
from penstock.model.execution_graph import ExecutionGraph


class ManagedRoutes:
    """The routes of one attempt; it belongs to the thread that runs it."""

    def __init__(
        self, head: Head, deployments: Deployments, context: AttemptContext, graph: Callable[[], ExecutionGraph]
    ) -> None:
        """Say nothing yet; ``graph`` returns the plan as it is now."""
        self._graph, self._head, self._deployments = graph, head, deployments
        self._orders, self._said = context.routes, 0
        context.routes.open(context.resources, head.plan.name)

    def look(self) -> None:
        """Say it if others were asked for."""
        if self._said != self._orders.version:
            self.say()

    def say(self) -> None:
        """Say which hold, to all that host instances; before there are any nothing is said."""
        managers = sorted(self._deployments.managers)
        if not managers:
            return
        self._said = self._orders.version
        order = ms.SetRoutes(dict(self._orders.of(self._graph())))
        for manager in managers:
            self._head.send(manager, order)
