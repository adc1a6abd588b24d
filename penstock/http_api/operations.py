"""The operations of the HTTP API: each once, with the scope it needs, what it takes and what it answers.

The server routes by this table, the guard judges by it, and `openapi` describes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from penstock.engine.jobs.metrics import JobMetrics
from penstock.http_api import answers
from penstock.http_api.access import Scope

TEXT, JSON, EVENTS = "text/plain", "application/json", "text/event-stream"

JSON_PREFIX = "/v1/"
"""Below it errors are JSON, elsewhere text."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A method and a path; ``answer`` is what JSON has the fields of, None: the answer is other text.

    ``statuses`` are those of answers that are no errors, ``refusals`` those of errors, beside what every operation of
    its scope may answer.
    """

    method: str
    path: str
    scope: Scope
    summary: str
    media: str = TEXT
    answer: type | None = None
    body: type | None = None
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    refusals: tuple[HTTPStatus, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the path, and what they are."""


_UNAVAILABLE = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INTERNAL_SERVER_ERROR)
_ACTION = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    *_UNAVAILABLE,
)

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/", Scope.READ, "Where things are, in words."),
    Operation("GET", "/metrics", Scope.READ, "All metrics, for Prometheus.", refusals=_UNAVAILABLE),
    Operation("GET", "/health", Scope.HEALTH, "Whether the loop turns, in words.", refusals=_UNAVAILABLE),
    Operation(
        "GET", "/ready", Scope.HEALTH, "Whether the job runs and its checkpoints work, in words.", refusals=_UNAVAILABLE
    ),
    Operation("GET", "/openapi.json", Scope.READ, "This description.", JSON),
    Operation("GET", "/v1/status", Scope.READ, "The job in short.", JSON, answers.StatusAnswer, refusals=_UNAVAILABLE),
    Operation("GET", "/v1/graph", Scope.READ, "Its plan.", JSON, answers.GraphAnswer, refusals=_UNAVAILABLE),
    Operation(
        "GET",
        "/v1/instances",
        Scope.READ,
        "Its instances, and where they run.",
        JSON,
        answers.InstancesAnswer,
        refusals=_UNAVAILABLE,
    ),
    Operation(
        "GET",
        "/v1/checkpoints",
        Scope.READ,
        "Its checkpoints.",
        JSON,
        answers.CheckpointsAnswer,
        refusals=_UNAVAILABLE,
    ),
    Operation("GET", "/v1/metrics", Scope.READ, "All metrics.", JSON, JobMetrics, refusals=_UNAVAILABLE),
    Operation("GET", "/v1/events", Scope.READ, "What happens, as server-sent events.", EVENTS, refusals=_UNAVAILABLE),
    Operation(
        "POST",
        "/v1/stop",
        Scope.ACT,
        "Stop the job at a last checkpoint.",
        JSON,
        answers.StopAnswer,
        answers.StopRequest,
        (HTTPStatus.ACCEPTED,),
        _ACTION,
    ),
    Operation(
        "POST",
        "/v1/limits",
        Scope.ACT,
        "Change the limits of a query, or what sheds load.",
        JSON,
        answers.LimitsAnswer,
        answers.LimitsRequest,
        refusals=_ACTION,
    ),
    Operation(
        "POST",
        "/v1/moves",
        Scope.ACT,
        "Let what an instance has by keys go to another task manager.",
        JSON,
        answers.MoveAnswer,
        answers.MoveRequest,
        (HTTPStatus.ACCEPTED,),
        _ACTION,
    ),
    Operation("GET", "/v1/moves", Scope.READ, "Its last moves.", JSON, answers.MovesAnswer, refusals=_UNAVAILABLE),
    Operation(
        "POST",
        "/v1/rescales",
        Scope.ACT,
        "Change how many instances operators have, or say what that would change.",
        JSON,
        answers.RescaleAnswer,
        answers.RescaleRequest,
        (HTTPStatus.OK, HTTPStatus.ACCEPTED),
        _ACTION,
    ),
    Operation(
        "GET",
        "/v1/rescales",
        Scope.READ,
        "Its last changes of parallelism.",
        JSON,
        answers.RescalesAnswer,
        refusals=_UNAVAILABLE,
    ),
    Operation(
        "POST",
        "/v1/routes",
        Scope.ACT,
        "Change which instances get how much of rows that may go to any.",
        JSON,
        answers.RouteAnswer,
        answers.RouteRequest,
        refusals=_ACTION,
    ),
    Operation(
        "GET",
        "/v1/routes",
        Scope.READ,
        "Which instances get how much of such rows.",
        JSON,
        answers.RoutesAnswer,
        refusals=_UNAVAILABLE,
    ),
    Operation(
        "POST",
        "/v1/memory",
        Scope.ACT,
        "Change the memory of operators while they run, or say what that would change.",
        JSON,
        answers.MemoryAnswer,
        answers.MemoryRequest,
        (HTTPStatus.OK,),
        _ACTION,
    ),
    Operation(
        "GET",
        "/v1/memory",
        Scope.READ,
        "The memory of its operators.",
        JSON,
        answers.MemoryAnswer,
        refusals=_UNAVAILABLE,
    ),
    Operation(
        "POST",
        "/v1/task-managers",
        Scope.ACT,
        "Let task managers come, or go.",
        JSON,
        answers.TaskManagersAnswer,
        answers.TaskManagersRequest,
        (HTTPStatus.ACCEPTED,),
        _ACTION,
    ),
    Operation(
        "GET",
        "/v1/task-managers",
        Scope.READ,
        "Its task managers.",
        JSON,
        answers.TaskManagersAnswer,
        refusals=(*_UNAVAILABLE, HTTPStatus.CONFLICT),
    ),
    Operation(
        "POST",
        "/v1/savepoints",
        Scope.ACT,
        "Take a savepoint; 202: it is not committed yet.",
        JSON,
        answers.SavepointAnswer,
        answers.SavepointRequest,
        (HTTPStatus.OK, HTTPStatus.ACCEPTED),
        (*_ACTION, HTTPStatus.TOO_MANY_REQUESTS),
    ),
    Operation(
        "GET",
        "/v1/savepoints/{name}",
        Scope.READ,
        "What became of a savepoint that was asked for here.",
        JSON,
        answers.SavepointAnswer,
        statuses=(HTTPStatus.OK, HTTPStatus.ACCEPTED),
        refusals=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *_UNAVAILABLE),
        parameters={"name": "The savepoint's name."},
    ),
)


def methods_at(path: str) -> Mapping[str, Operation]:
    """Return the operations at a path of a request, by method; {}: there is nothing."""
    return {operation.method: operation for operation in OPERATIONS if _is_at(operation.path, path)}


def _is_at(pattern: str, path: str) -> bool:
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(
        want == part or (want.startswith("{") and part != "") for part, want in zip(parts, wanted, strict=True)
    )
