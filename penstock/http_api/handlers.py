"""What each operation does: reads the job, or tells it, and makes the answer."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from http import HTTPStatus
from typing import TypeVar

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.moves.move_orders import MoveOrder
from penstock.http_api.access import Refusal
from penstock.http_api.answers import (
    CheckpointsAnswer,
    LimitsAnswer,
    LimitsRequest,
    MemoryAnswer,
    MemoryRequest,
    MoveAnswer,
    MoveRequest,
    MovesAnswer,
    RescaleAnswer,
    RescaleRequest,
    RescalesAnswer,
    RouteAnswer,
    RouteRequest,
    RoutesAnswer,
    SavepointAnswer,
    SavepointRequest,
    StopAnswer,
    StopRequest,
    TaskManagersAnswer,
    TaskManagersRequest,
)
from penstock.http_api.broadcast import Broadcast
from penstock.http_api.failures import NOT_BEGUN, TOO_LONG, RefusedError, refusing
from penstock.http_api.job_answers import graph_answer, instances_answer, status_answer
from penstock.http_api.openapi import describe
from penstock.http_api.operations import JSON, OPERATIONS
from penstock.http_api.readings import Readings
from penstock.http_api.savepoint_orders import MOST_WAITING, SavepointOrders, TooManyOrdersError
from penstock.http_api.served_job import ServedJob
from penstock.metrics.health import HealthVerdict, health, readiness
from penstock.metrics.prometheus import exposition
from penstock.model.errors import OptionError, UserError

MOST_BODY_BYTES = 4_096
"""The longest body of a request."""

Handler = Callable[[Request], Awaitable[Response]]
Body = TypeVar("Body")
Result = TypeVar("Result")

UNREADABLE = "the metrics cannot be read"


class Handlers:
    """The operations on one job; called in the server's loop. Until `show` they say that nothing is there yet."""

    def __init__(self, broadcast: Broadcast, executor: Executor, *, takes_actions: bool) -> None:
        """Serve nothing yet; ``executor`` runs what may take long, one after the other."""
        self._broadcast, self._executor, self._takes_actions = broadcast, executor, takes_actions
        self._job: ServedJob | None = None
        self._readings: Readings | None = None
        self._savepoints: SavepointOrders | None = None

    def show(self, job: ServedJob) -> None:
        """Serve a job."""
        self._job = job
        self._readings = Readings(job, self._executor)
        self._savepoints = SavepointOrders(job)

    def close(self) -> None:
        """Take no more savepoints."""
        if self._savepoints is not None:
            self._savepoints.close()

    async def metrics(self) -> JobMetrics | None:
        """Return the job's metrics; None: it has not begun."""
        return None if self._readings is None else await self._readings.read()

    def by_path(self) -> dict[tuple[str, str], Handler]:
        """Return what answers each operation but the events, by method and path."""
        return {
            ("GET", "/"): self._overview,
            ("GET", "/metrics"): self._exposition,
            ("GET", "/health"): _judging(self._judge(health)),
            ("GET", "/ready"): _judging(self._judge(readiness)),
            ("GET", "/openapi.json"): _answering(self._description),
            ("GET", "/v1/status"): _answering(self._status),
            ("GET", "/v1/graph"): _answering(self._graph),
            ("GET", "/v1/instances"): _answering(self._instances),
            ("GET", "/v1/checkpoints"): _answering(self._checkpoints),
            ("GET", "/v1/metrics"): _answering(self._metrics_data),
            ("POST", "/v1/stop"): _answering(self._stop),
            ("POST", "/v1/limits"): _answering(self._limit),
            ("POST", "/v1/moves"): _answering(self._move),
            ("GET", "/v1/moves"): _answering(self._moves),
            ("POST", "/v1/rescales"): _answering(self._rescale),
            ("GET", "/v1/rescales"): _answering(self._rescales),
            ("POST", "/v1/routes"): _answering(self._route),
            ("GET", "/v1/routes"): _answering(self._routes),
            ("POST", "/v1/memory"): _answering(self._change_memory),
            ("GET", "/v1/memory"): _answering(self._memory),
            ("POST", "/v1/task-managers"): _answering(self._change_managers),
            ("GET", "/v1/task-managers"): _answering(self._managers),
            ("POST", "/v1/savepoints"): _answering(self._take_savepoint),
            ("GET", "/v1/savepoints/{name}"): _answering(self._savepoint),
        }

    async def _overview(self, request: Request) -> Response:
        lines = [f"{item.method:<5}{item.path:<22}{item.summary}\n" for item in OPERATIONS if item.path != "/"]
        return _text(f"A running job of Penstock. This is where things are:\n\n{''.join(lines)}")

    async def _exposition(self, request: Request) -> Response:
        try:
            metrics = await self._read()
            return Response(await self._apart(lambda: exposition(lambda: metrics)), media_type=CONTENT_TYPE_LATEST)
        except RefusedError as error:
            return refusing(request.url.path, error.refusal)
        except Exception as error:
            text = f"{UNREADABLE}: {type(error).__name__}: {error}"
            return refusing(request.url.path, Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", text))

    def _judge(self, judge: Callable[[JobMetrics | None], HealthVerdict]) -> Callable[[], Awaitable[HealthVerdict]]:
        async def verdict() -> HealthVerdict:
            return judge(await self.metrics())

        return verdict

    async def _description(self, request: Request) -> Response:
        return _json(await self._apart(describe))

    async def _status(self, request: Request) -> Response:
        job, metrics = self._begun(), await self._read()
        answer = status_answer(job.status(), metrics, self._broadcast, takes_actions=self._takes_actions)
        return _json(answer)

    async def _graph(self, request: Request) -> Response:
        job = self._begun()
        return _json(await self._apart(lambda: graph_answer(job.status().name, job.graph)))

    async def _instances(self, request: Request) -> Response:
        return _json(instances_answer(await self._read()))

    async def _checkpoints(self, request: Request) -> Response:
        metrics = await self._read()
        return _json(CheckpointsAnswer(metrics.name, metrics.checkpoints))

    async def _metrics_data(self, request: Request) -> Response:
        return _json(await self._read())

    async def _stop(self, request: Request) -> Response:
        job, order = self._begun(), await _body(request, StopRequest)
        # It may ask the store of checkpoints, for which nobody else is to wait.
        await asyncio.to_thread(job.stop, drain=order.drain, savepoint=order.savepoint)
        return _json(StopAnswer(job.status().name), HTTPStatus.ACCEPTED)

    async def _limit(self, request: Request) -> Response:
        job, order = self._begun(), await _body(request, LimitsRequest)
        # They are kept beside checkpoints, and nobody else is to wait for the store.
        limits = await asyncio.to_thread(job.limits.change, order.change())
        return _json(LimitsAnswer(job.status().name, limits.shed, dict(limits.queries)))

    async def _move(self, request: Request) -> Response:
        job, order = self._begun(), await _body(request, MoveRequest)
        asked = job.moves.ask(MoveOrder(order.instance, order.task_manager))
        return _json(MoveAnswer(job.status().name, asked.number), HTTPStatus.ACCEPTED)

    async def _moves(self, request: Request) -> Response:
        job = self._begun()
        return _json(MovesAnswer(job.status().name, job.moves.records()))

    async def _rescale(self, request: Request) -> Response:
        job, order = self._begun(), await _body(request, RescaleRequest)
        name, preview = job.status().name, await self._apart(lambda: job.preview_rescale(order.parallelism))
        if order.dry_run:
            return _json(RescaleAnswer(name, None, preview))
        asked = job.rescales.ask(order.parallelism)
        return _json(RescaleAnswer(name, asked.number, preview), HTTPStatus.ACCEPTED)

    async def _rescales(self, request: Request) -> Response:
        job = self._begun()
        return _json(RescalesAnswer(job.status().name, job.rescales.records()))

    async def _route(self, request: Request) -> Response:
        job, order = self._begun(), await _body(request, RouteRequest)
        # On Ray they are kept on the cluster, for which nobody else is to wait.
        routes = await asyncio.to_thread(job.route, order.operator, order.shares)
        return _json(RouteAnswer(job.status().name, dict(routes)))

    async def _routes(self, request: Request) -> Response:
        metrics = await self._read()
        return _json(RoutesAnswer(metrics.name, metrics.routes))

    async def _change_memory(self, request: Request) -> Response:
        job, order = self._begun(), await _body(request, MemoryRequest)
        # They are kept beside checkpoints, as limits are.
        change = job.preview_memory if order.dry_run else job.change_memory
        return _json(MemoryAnswer(job.status().name, await asyncio.to_thread(change, order.budgets)))

    async def _memory(self, request: Request) -> Response:
        job = self._begun()
        return _json(MemoryAnswer(job.status().name, job.memory()))

    async def _change_managers(self, request: Request) -> Response:
        job, order = self._begun(), await _body(request, TaskManagersRequest)
        if (order.wanted is None) is (order.drain is None):
            raise OptionError("say how many task managers are wanted, or which one is to be drained")
        known = job.managers.drain(order.drain) if order.drain is not None else job.managers.resize(order.wanted or 0)
        return _json(TaskManagersAnswer(job.status().name, known), HTTPStatus.ACCEPTED)

    async def _managers(self, request: Request) -> Response:
        job = self._begun()
        return _json(TaskManagersAnswer(job.status().name, job.managers.known()))

    async def _take_savepoint(self, request: Request) -> Response:
        job, order = self._begun(), await _body(request, SavepointRequest)
        assert self._savepoints is not None
        try:
            epoch = await self._savepoints.take(order.name)
        except TooManyOrdersError:
            text = f"{MOST_WAITING} savepoints are on their way already: wait until one is committed"
            raise RefusedError(Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too_many", text)) from None
        return _savepoint(job, order.name, epoch)

    async def _savepoint(self, request: Request) -> Response:
        job, name = self._begun(), str(request.path_params["name"])
        assert self._savepoints is not None
        try:
            return _savepoint(job, name, await self._savepoints.look(name))
        except KeyError:
            text = f"no savepoint {name!r} was asked for here"
            raise RefusedError(Refusal(HTTPStatus.NOT_FOUND, "unknown_path", text)) from None

    def _begun(self) -> ServedJob:
        if self._job is None:
            raise RefusedError(NOT_BEGUN)
        return self._job

    async def _read(self) -> JobMetrics:
        metrics = await self.metrics()
        if metrics is None:
            raise RefusedError(NOT_BEGUN)
        return metrics

    async def _apart(self, work: Callable[[], Result]) -> Result:
        """Do what may take long in another thread than the server's."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def _answering(handler: Handler) -> Handler:
    """Return a handler whose errors are answers, too."""

    async def answer(request: Request) -> Response:
        path = request.url.path
        try:
            return await handler(request)
        except RefusedError as error:
            return refusing(path, error.refusal)
        except UserError as error:
            return refusing(path, Refusal(HTTPStatus.CONFLICT, "refused", str(error)))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return refusing(path, Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", text))

    return answer


def _judging(judge: Callable[[], Awaitable[HealthVerdict]]) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            verdict = await judge()
        except Exception:
            # Whoever asks for a word on health may be a stranger, who is not told what is in an error.
            return _text(f"{UNREADABLE}\n", HTTPStatus.INTERNAL_SERVER_ERROR)
        return _text(f"{verdict.text}\n", HTTPStatus.OK if verdict.well else HTTPStatus.SERVICE_UNAVAILABLE)

    return answer


async def _body(request: Request, kind: type[Body]) -> Body:
    """Return what a request says.

    Raises:
        RefusedError: it is too long, or not what is wanted.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY_BYTES:
            raise RefusedError(TOO_LONG)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        text = f"the body is not as it must be: {error}"
        raise RefusedError(Refusal(HTTPStatus.BAD_REQUEST, "bad_request", text)) from None


def _savepoint(job: ServedJob, name: str, epoch: int | None) -> Response:
    answer = SavepointAnswer(job.status().name, name, epoch)
    return _json(answer, HTTPStatus.ACCEPTED if epoch is None else HTTPStatus.OK)


def _text(text: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(text, status, media_type="text/plain")


def _json(answer: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(answer), status, media_type=JSON)
