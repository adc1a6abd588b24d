"""The shares that instances are to get of rows which may go to any: asked for from any thread, over all attempts."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import Lock

from penstock.engine.plan.free_edges import Routes, fitting, wanted_route
from penstock.model.errors import OptionError, PenstockError
from penstock.model.execution_graph import ExecutionGraph


class RouteOrders:
    """The routes of one run; whoever runs the attempt looks whether there are others, and lets producers heed them."""

    def __init__(self) -> None:
        """Begin with none: all rows go in turns."""
        self._lock = Lock()
        self._routes: dict[str, tuple[float, ...]] = {}
        self._is_open = False
        self._closed: PenstockError | None = None
        self.version = 0
        """Grows with each change."""
        self.keep: Callable[[Routes], None] = _keep_nothing
        """Takes all routes after each change, in the thread that asked for it."""

    def ask(self, graph: ExecutionGraph, operator: str, shares: Sequence[float]) -> Routes:
        """Let instances of an operator get shares of the rows that may go to any from now on; return all routes.

        Only the proportion of ``shares`` counts; without any, rows go in turns again.

        Raises:
            OptionError: that cannot be.
            PenstockError: the job is over.
        """
        name, wanted = wanted_route(graph, operator, shares)
        with self._lock:
            if self._closed is not None:
                raise self._closed
            routes = {**self._routes, name: wanted}
            if not wanted:
                del routes[name]
            self._routes = routes
            self.version += 1
            self.keep(routes)
            return routes

    def open(self, resources: ExitStack, job: str) -> None:
        """Take orders until the job is over, which closes ``resources``."""
        if not self._is_open:
            self._is_open = True
            resources.callback(self.close, OptionError(f"job {job!r} is over: nothing goes to its instances"))

    def begin(self, routes: Routes) -> None:
        """Let routes hold that were asked for before this run."""
        self._routes = dict(routes)
        self.version += 1

    def of(self, graph: ExecutionGraph) -> Routes:
        """Return the routes that hold for a plan."""
        return fitting(graph, self._routes)

    def close(self, error: PenstockError) -> None:
        """Take in that the job is over."""
        with self._lock:
            self._closed = error


def _keep_nothing(routes: Routes) -> None:
    """Let them go: what comes behind this run begins without any."""
