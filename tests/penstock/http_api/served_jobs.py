"""Jobs to serve that run nowhere, and requests to a port."""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.engine.jobs.manager_orders import ManagerOrders
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.engine.jobs.rescale_orders import RescaleOrders
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.jobs.route_orders import RouteOrders
from penstock.engine.jobs.running_limits import RunningLimits
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.jobs.status import JobStatus
from penstock.engine.moves.move_orders import MoveOrders
from penstock.engine.plan.free_edges import Routes
from penstock.model.execution_graph import ExecutionGraph
from tests.penstock.recovery.checkpoint_jobs import LONG_S, per_item

READ_TOKEN = "a-token-of-decent-length"
ACTION_TOKEN = "another-token-to-act-with"


class StillJob:
    """A job of which nothing runs: it shows these metrics, and notes what it is told."""

    def __init__(self, read: Callable[[], JobMetrics] = lambda: no_metrics("items"), folder: Path = Path()) -> None:
        self.metrics = read
        self.graph: ExecutionGraph = per_item(folder).plan(2)
        self.stops: list[tuple[bool, str | None]] = []
        self.limits = RunningLimits()
        self.moves, self.rescales, self.managers = MoveOrders(), RescaleOrders(), ManagerOrders()
        self.managers.open(lambda: None)
        self.take: Callable[[str], int] = lambda name: 7

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        raise ps.OptionError("it stays as it is")

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        return RouteOrders().ask(self.graph, operator, shares)

    def memory(self) -> MemorySummary:
        return MemorySummary((), 0, None)

    def preview_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        raise ps.OptionError("it has no memory")

    def change_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        return self.preview_memory(budgets)

    def status(self) -> JobStatus:
        return JobStatus("items", "running", 1, takes_checkpoints=True)

    def places(self) -> Mapping[str, str]:
        return {"orders[0]": "tm-0"}

    def stop(self, *, drain: bool = False, savepoint: str | None = None) -> None:
        if savepoint == "taken":
            raise ps.OptionError("there is a savepoint 'taken' already")
        self.stops.append((drain, savepoint))

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        return self.take(name)


def port_of(url: str | None) -> int:
    assert url is not None
    return int(url.split(":")[2].split("/")[0])


def request(
    url: str | None, method: str, path: str, body: object = None, token: str | None = None, **headers: str
) -> tuple[int, Any]:
    """Return status and answer: decoded where it is JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=LONG_S)
    sent = {**headers, **({} if token is None else {"Authorization": f"Bearer {token}"})}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        response = connection.getresponse()
        answer = response.read()
        is_json = (response.getheader("Content-Type") or "").startswith("application/json")
        return response.status, json.loads(answer) if is_json and answer else answer.decode()
    finally:
        connection.close()
