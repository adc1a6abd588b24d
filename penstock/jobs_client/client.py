"""The client of a running job: asks it over HTTP, and names what goes wrong by what is to be done."""

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import msgspec

from penstock.engine.jobs.metrics import JobMetrics
from penstock.http_api.answers import (
    CheckpointsAnswer,
    ErrorAnswer,
    GraphAnswer,
    InstancesAnswer,
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
    StatusAnswer,
    StopAnswer,
    StopRequest,
    TaskManagersAnswer,
    TaskManagersRequest,
)
from penstock.http_api.event_messages import EventMessage
from penstock.jobs_client.address import JobAddress
from penstock.jobs_client.errors import JobUnreachableError, RequestRefusedError, TokenMissingError, WrongScopeError
from penstock.jobs_client.messages import read_messages

PATIENCE_S = 30.0
"""Time limit for each part of an answer; a savepoint's comes after 10 s at the latest, events every second."""

MOST_BYTES = 16 << 20
"""The longest answer that is read."""

Answer = TypeVar("Answer")


class JobClient:
    """A running job, by its address. Each call is a request of its own.

    Every method raises:
        JobUnreachableError: nothing answers there.
        TokenMissingError: the token is missing or wrong.
        WrongScopeError: the token may not do this.
        RequestRefusedError: the job does not do it, or what answers is no job.
    """

    def __init__(self, address: JobAddress) -> None:
        """Ask nothing yet."""
        self.address = address

    def status(self) -> StatusAnswer:
        """Return the job in short."""
        return self._get("/v1/status", StatusAnswer)

    def graph(self) -> GraphAnswer:
        """Return its plan."""
        return self._get("/v1/graph", GraphAnswer)

    def instances(self) -> InstancesAnswer:
        """Return its instances, and where they run."""
        return self._get("/v1/instances", InstancesAnswer)

    def checkpoints(self) -> CheckpointsAnswer:
        """Return its checkpoints."""
        return self._get("/v1/checkpoints", CheckpointsAnswer)

    def metrics(self) -> JobMetrics:
        """Return all its metrics."""
        return self._get("/v1/metrics", JobMetrics)

    def stop(self, *, drain: bool = False, savepoint: str | None = None) -> StopAnswer:
        """Tell it to stop, and return at once; `events` say when it has ended."""
        return self._decoded(self._request("POST", "/v1/stop", asdict(StopRequest(drain, savepoint)))[1], StopAnswer)

    def limit(self, order: LimitsRequest) -> LimitsAnswer:
        """Change its limits; return all that differ from those of its program."""
        return self._decoded(self._request("POST", "/v1/limits", asdict(order))[1], LimitsAnswer)

    def move(self, instance: str, task_manager: str) -> int:
        """Let it move what an instance has by keys, and return the number of the move at once; see `moves`."""
        order = asdict(MoveRequest(instance, task_manager))
        return self._decoded(self._request("POST", "/v1/moves", order)[1], MoveAnswer).number

    def moves(self) -> MovesAnswer:
        """Return its last moves."""
        return self._get("/v1/moves", MovesAnswer)

    def rescale(self, parallelism: Mapping[str, int], *, dry_run: bool = False) -> RescaleAnswer:
        """Ask for so many instances of operators, and return at once; see `rescales`."""
        order = asdict(RescaleRequest(dict(parallelism), dry_run))
        return self._decoded(self._request("POST", "/v1/rescales", order)[1], RescaleAnswer)

    def rescales(self) -> RescalesAnswer:
        """Return its last changes of parallelism."""
        return self._get("/v1/rescales", RescalesAnswer)

    def route(self, operator: str, shares: Sequence[float]) -> RouteAnswer:
        """Let instances of an operator get shares of the rows that may go to any; return all shares that hold."""
        order = asdict(RouteRequest(operator, tuple(shares)))
        return self._decoded(self._request("POST", "/v1/routes", order)[1], RouteAnswer)

    def routes(self) -> RoutesAnswer:
        """Return which instances get how much of rows that may go to any."""
        return self._get("/v1/routes", RoutesAnswer)

    def change_memory(self, budgets: Mapping[str, int | None], *, dry_run: bool = False) -> MemoryAnswer:
        """Let operators have so many bytes of memory in each instance; null: as its program says."""
        order = asdict(MemoryRequest(dict(budgets), dry_run))
        return self._decoded(self._request("POST", "/v1/memory", order)[1], MemoryAnswer)

    def memory(self) -> MemoryAnswer:
        """Return the memory of its operators."""
        return self._get("/v1/memory", MemoryAnswer)

    def change_task_managers(self, *, wanted: int | None = None, drain: str | None = None) -> TaskManagersAnswer:
        """Ask for so many task managers, or let one go for good; return at once which there are now."""
        order = asdict(TaskManagersRequest(wanted, drain))
        return self._decoded(self._request("POST", "/v1/task-managers", order)[1], TaskManagersAnswer)

    def task_managers(self) -> TaskManagersAnswer:
        """Return its task managers."""
        return self._get("/v1/task-managers", TaskManagersAnswer)

    def savepoint(self, name: str) -> int:
        """Let it take a savepoint, wait until that is committed, and return its epoch."""
        body = self._request("POST", "/v1/savepoints", asdict(SavepointRequest(name)))[1]
        while (epoch := self._decoded(body, SavepointAnswer).epoch) is None:
            body = self._request("GET", f"/v1/savepoints/{quote(name, safe='')}")[1]
        return epoch

    @contextmanager
    def events(self, last_id: str | None = None) -> Iterator[Iterator[EventMessage]]:
        """Return what happens from now on, or behind the event of an id, until the job ends.

        Reading on raises JobUnreachableError if the connection breaks.
        """
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        with self._answer("GET", "/v1/events", headers=headers) as response:
            yield read_messages(response, MOST_BYTES, self._unreachable)

    def _get(self, path: str, kind: type[Answer]) -> Answer:
        return self._decoded(self._request("GET", path)[1], kind)

    def _decoded(self, body: bytes, kind: type[Answer]) -> Answer:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            text = f"what answers at {self.address} is no running job of this version of Penstock: {error}"
            raise RequestRefusedError(text) from None

    def _request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        with self._answer(method, path, body) as response:
            try:
                return response.status, response.read(MOST_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error) from None

    @contextmanager
    def _answer(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request; its answer is not an error."""
        address = self.address
        make = http.client.HTTPSConnection if address.secure else http.client.HTTPConnection
        connection = make(address.host, address.port, timeout=PATIENCE_S)
        sent = dict(headers or {})
        if address.token is not None:
            sent["Authorization"] = f"Bearer {address.token}"
        response: http.client.HTTPResponse | None = None
        try:
            try:
                connection.request(method, address.path + path, None if body is None else json.dumps(body), sent)
                response = connection.getresponse()
                failed = None if response.status < HTTPStatus.BAD_REQUEST else response.read(MOST_BYTES)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._unreachable(error) from None
            if failed is not None:
                raise self._error(response, failed)
            yield response
        finally:
            # An answer that was not read to its end keeps the connection open by itself.
            if response is not None:
                response.close()
            connection.close()

    def _unreachable(self, error: BaseException) -> JobUnreachableError:
        return JobUnreachableError(
            f"nothing answers at {self.address} ({error}): run the job with metrics_port=PORT, or penstock run "
            "--metrics-port PORT."
        )

    def _error(self, response: http.client.HTTPResponse, body: bytes) -> Exception:
        try:
            answer = msgspec.json.decode(body, type=ErrorAnswer)
        except msgspec.DecodeError:
            text = body[:200].decode(errors="replace").strip()
            return RequestRefusedError(f"{self.address} answers {response.status} {response.reason}: {text}")
        match answer.code:
            case "no_token":
                return TokenMissingError(f"the job at {self.address} wants a token that it did not get: {answer.error}")
            case "wrong_scope" | "no_actions":
                return WrongScopeError(f"the job at {self.address} does not do that: {answer.error}")
            case _:
                return RequestRefusedError(f"the job at {self.address} answers: {answer.error}", answer.code)
