"""The HTTP API of a real job: what it answers, what it does when it is told to, and that its description says so."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.http_api import handlers, savepoint_orders
from penstock.http_api.access import Scope, Tokens
from penstock.http_api.openapi import describe
from penstock.http_api.operations import EVENTS, JSON, JSON_PREFIX, OPERATIONS, Operation
from penstock.http_api.server import ApiEndpoint
from tests.contracts.executors.metered import until
from tests.penstock.http_api.served_jobs import ACTION_TOKEN, READ_TOKEN, StillJob, port_of, request
from tests.penstock.recovery.checkpoint_jobs import LONG_S, running

PATHS = {"/v1/savepoints/{name}": "/v1/savepoints/first"}
BODIES = {
    "/v1/stop": {"drain": True},
    "/v1/limits": {"shed": "off"},
    "/v1/moves": {"instance": "a[0]", "task_manager": "tm-1"},
    "/v1/rescales": {"parallelism": {"per item": 2}, "dry_run": True},
    "/v1/routes": {"operator": "per item", "shares": [3, 1]},
    "/v1/memory": {"budgets": {"per item": 64_000_000}, "dry_run": True},
    "/v1/task-managers": {"wanted": 2},
    "/v1/savepoints": {"name": "first"},
}
ANSWERED = {item.path for item in OPERATIONS if item.method == "GET"}


@pytest.fixture
def action_token(tmp_path: Path) -> str:
    file = tmp_path / "action-token"
    file.touch(0o600)
    file.write_text(ACTION_TOKEN)
    return f"file:{file}"


@pytest.fixture
def handle(tmp_path: Path, action_token: str) -> Iterator[Handle]:
    with running(tmp_path, metrics_port=0, action_token=action_token, control=ps.Control()) as handle:
        yield handle


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ApiEndpoint]:
    with ApiEndpoint("127.0.0.1", 0, Tokens(READ_TOKEN, ACTION_TOKEN)) as endpoint:
        endpoint.show(StillJob())
        yield endpoint


def test_the_description_is_valid_and_names_every_operation() -> None:
    description = describe()
    OpenAPIV31SpecValidator(description).validate()
    named = {(method.upper(), path) for path, item in description["paths"].items() for method in item}
    assert named == {(item.method, item.path) for item in OPERATIONS}
    ids = [item["operationId"] for path in description["paths"].values() for item in path.values()]
    assert len(set(ids)) == len(ids)


def test_a_real_job_answers_as_it_is_described(handle: Handle) -> None:
    description = describe()
    handle.savepoint("zeroth", LONG_S)
    for operation in OPERATIONS:
        # What runs in one process does not move, and has no task managers: see below; none of its rows are free.
        left_out = ("POST", "/v1/stop"), ("POST", "/v1/moves"), ("POST", "/v1/routes")
        is_left_out = (operation.method, operation.path) in left_out or operation.path == "/v1/task-managers"
        if operation.media == EVENTS or is_left_out:
            continue
        path = PATHS.get(operation.path, operation.path)
        status, answer = request(handle.metrics_url, operation.method, path, BODIES.get(path), ACTION_TOKEN)
        assert status == 200, (operation.path, answer)
        check(description, operation, status, answer)
        if operation.scope is Scope.ACT:
            refused = request(handle.metrics_url, operation.method, path, BODIES.get(path))
            assert refused[0] == 401
            check(description, operation, *refused)
    status, answer = request(handle.metrics_url, "POST", "/v1/stop", {"savepoint": "last"}, ACTION_TOKEN)
    assert status == 202
    check(description, next(item for item in OPERATIONS if item.path == "/v1/stop"), status, answer)
    handle.wait(LONG_S)


def check(description: dict, operation: Operation, status: int, answer: object) -> None:
    """Hold an answer against the schema that is said for its status; no field may be there that is not said."""
    content = description["paths"][operation.path][operation.method.lower()]["responses"][str(status)]["content"]
    schema = {**next(iter(content.values()))["schema"], "components": description["components"]}
    Draft202012Validator(schema).validate(answer)
    reference = schema.get("$ref", "")
    if reference:
        said = description["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
        assert isinstance(answer, dict) and set(answer) == set(said)


def test_it_says_of_a_job_what_its_handle_says(handle: Handle) -> None:
    url = handle.metrics_url
    assert request(url, "POST", "/v1/savepoints", {"name": "first"}, ACTION_TOKEN) == (
        200, {"job": "items", "name": "first", "epoch": 1},
    )  # fmt: skip
    status = request(url, "GET", "/v1/status")[1]
    assert (status["job"], status["state"], status["source_rows"], status["last_epoch"]) == ("items", "running", 6, 1)
    assert (status["attempt"], status["error"], status["takes_checkpoints"], status["takes_actions"]) == (
        1, None, True, True,
    )  # fmt: skip
    metrics = request(url, "GET", "/v1/metrics")[1]
    assert metrics["ledger"] == JobMetrics.as_dict(handle.metrics())["ledger"] or metrics["source_rows"] == 6
    graph = request(url, "GET", "/v1/graph")[1]
    assert [item["name"] for item in graph["operators"]] == ["orders", "per item", "out"]
    assert [item["kind"] for item in graph["operators"]] == ["source", "aggregate", "sink"]
    (task,) = graph["tasks"]
    assert (task["name"], task["operators"]) == ("orders -> per item -> out", ["orders", "per item", "out"])
    assert (task["parallelism"], task["resources"]) == (1, {})
    (instance,) = request(url, "GET", "/v1/instances")[1]["instances"]
    assert (instance["name"], instance["task_manager"]) == ("orders -> per item -> out[0]", None)
    assert request(url, "GET", "/v1/checkpoints")[1]["checkpoints"]["committed"] == 1
    assert request(url, "GET", "/v1/savepoints/first") == (200, {"job": "items", "name": "first", "epoch": 1})
    assert request(url, "GET", "/v1/savepoints/other")[0] == 404


def test_limits_change_while_the_job_runs(handle: Handle) -> None:
    url = handle.metrics_url
    assert request(url, "POST", "/v1/limits", {"shed": "qod"}, ACTION_TOKEN) == (
        200,
        {"job": "items", "shed": "qod", "queries": {}},
    )
    status, answer = request(url, "POST", "/v1/limits", {"query": "out", "min_accuracy": 0.5}, ACTION_TOKEN)
    assert status == 409 and "this job has none" in answer["error"]
    status, answer = request(url, "POST", "/v1/limits", {"shed": "sci"}, ACTION_TOKEN)
    assert status == 409 and "'sic', 'both' or a class of yours as 'module:Class', not 'sci'" in answer["error"]
    status, answer = request(url, "POST", "/v1/limits", {"reset": True}, ACTION_TOKEN)
    assert (status, answer) == (200, {"job": "items", "shed": None, "queries": {}})


def test_what_runs_in_one_process_does_not_move(handle: Handle) -> None:
    url = handle.metrics_url
    order = {"instance": "orders -> per item -> out[0]", "task_manager": "tm-1"}
    status, answer = request(url, "POST", "/v1/moves", order, ACTION_TOKEN)
    assert status == 409 and "this job has none: run it with executor='processes'" in answer["error"]
    assert request(url, "GET", "/v1/moves") == (200, {"job": "items", "moves": []})


def test_what_runs_in_one_process_has_no_task_managers(handle: Handle) -> None:
    for method, order in (("GET", None), ("POST", {"wanted": 2}), ("POST", {"drain": "tm-0"})):
        status, answer = request(handle.metrics_url, method, "/v1/task-managers", order, ACTION_TOKEN)
        assert status == 409 and "the job has no task managers: run it with executor=" in answer["error"]
    for order in ({}, {"wanted": 2, "drain": "tm-0"}):
        status, answer = request(handle.metrics_url, "POST", "/v1/task-managers", order, ACTION_TOKEN)
        assert status == 409 and "say how many task managers are wanted, or which one" in answer["error"]


def test_rows_that_go_by_their_keys_have_no_routes(handle: Handle) -> None:
    order = {"operator": "per item", "shares": [1, 1]}
    status, answer = request(handle.metrics_url, "POST", "/v1/routes", order, ACTION_TOKEN)
    assert status == 409 and "nothing comes to 'per item' that may go to any of its instances" in answer["error"]
    assert request(handle.metrics_url, "GET", "/v1/routes", None, ACTION_TOKEN)[1]["routes"] == []


def test_parallelism_changes_while_the_job_runs(handle: Handle) -> None:
    url, order = handle.metrics_url, {"parallelism": {"per item": 3}}
    assert request(url, "POST", "/v1/rescales", order)[0] == 401
    status, answer = request(url, "POST", "/v1/rescales", order, ACTION_TOKEN)
    assert (status, answer["number"]) == (202, 1)
    assert answer["preview"]["before"]["per item"] == 1 and answer["preview"]["after"]["per item"] == 3
    until(lambda: request(url, "GET", "/v1/rescales")[1]["rescales"][0]["state"] == "done", handle)
    (record,) = request(url, "GET", "/v1/rescales")[1]["rescales"]
    assert record["failure"] is None and record["summary"]["after"]["per item"] == 3
    assert (
        next(task for task in request(url, "GET", "/v1/graph")[1]["tasks"] if "per item" in task["name"])["parallelism"]
        == 3
    )
    status, answer = request(url, "POST", "/v1/rescales", order, ACTION_TOKEN)
    assert status == 409 and "nothing would change: 'per item' has 3 instances already" in answer["error"]


def test_memory_changes_while_the_job_runs(handle: Handle) -> None:
    url, order = handle.metrics_url, {"budgets": {"per item": 8 << 20}}
    assert request(url, "POST", "/v1/memory", order)[0] == 401
    assert request(url, "POST", "/v1/memory", {**order, "dry_run": True}, ACTION_TOKEN)[0] == 200
    before = request(url, "GET", "/v1/memory")[1]["memory"]
    assert before == {
        "operators": [{"operator": "per item", "instances": 1, "before_bytes": None, "after_bytes": None}],
        "total_bytes": 0,
        "quota_bytes": None,
    }
    status, answer = request(url, "POST", "/v1/memory", order, ACTION_TOKEN)
    assert status == 200 and answer["memory"]["operators"][0]["after_bytes"] == 8 << 20
    assert request(url, "GET", "/v1/memory")[1]["memory"]["total_bytes"] == 8 << 20
    status, answer = request(url, "POST", "/v1/memory", {"budgets": {"per item": None}}, ACTION_TOKEN)
    assert answer["memory"]["operators"][0] == {
        "operator": "per item",
        "instances": 1,
        "before_bytes": 8 << 20,
        "after_bytes": None,
    }
    status, answer = request(url, "POST", "/v1/memory", {"budgets": {"per hour": 8 << 20}}, ACTION_TOKEN)
    assert status == 409 and "no operator 'per hour' has state by keys" in answer["error"]


def test_a_stop_keeps_the_savepoint_and_ends_the_job(handle: Handle, tmp_path: Path) -> None:
    url = handle.metrics_url
    request(url, "POST", "/v1/savepoints", {"name": "first"}, ACTION_TOKEN)
    status, answer = request(url, "POST", "/v1/stop", {"savepoint": "first"}, ACTION_TOKEN)
    assert status == 409 and answer["code"] == "refused" and "there is a savepoint 'first' already" in answer["error"]
    assert handle.running
    assert request(url, "POST", "/v1/stop", {"savepoint": "last"}, ACTION_TOKEN) == (202, {"job": "items"})
    metrics = handle.wait(LONG_S)
    last = ps.read_checkpoint(f"{tmp_path / 'checkpoints'}#last")
    assert metrics.checkpoints is not None and last.epoch == metrics.checkpoints.last_epoch


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", [*dict.fromkeys(item.path for item in OPERATIONS), "/v1/", "/v1/nothing", "/v2/stop"])
@pytest.mark.parametrize("sender", ["nobody", "stranger", "reader", "page"])
def test_every_method_of_every_path_is_guarded(endpoint: ApiEndpoint, method: str, path: str, sender: str) -> None:
    token = {"nobody": None, "stranger": "x" * 24, "reader": READ_TOKEN, "page": ACTION_TOKEN}[sender]
    headers = {"Origin": "https://evil.example"} if sender == "page" else {}
    path = PATHS.get(path, path)
    operation = next((item for item in OPERATIONS if (item.method, item.path) == (method, path)), None)
    scope = Scope.READ if operation is None else operation.scope
    if operation is not None and operation.media == EVENTS and sender == "reader":
        return
    status, answer = request(endpoint.url, method, path, {} if method == "POST" else None, token, **headers)
    if sender == "page":
        assert status == 403
    elif scope is Scope.HEALTH:
        assert status in (200, 503)
    elif sender != "reader":
        assert status == 401
    elif scope is Scope.ACT:
        assert status == 403 and answer["code"] == "wrong_scope"
    elif method != "GET":
        assert status == 405
    else:
        acts = path in ("/v1/stop", "/v1/limits", "/v1/savepoints")
        assert status == (405 if acts else 404 if path not in ANSWERED else 200)


def test_without_an_action_token_nobody_acts() -> None:
    job = StillJob()
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        endpoint.show(job)
        for token in (None, READ_TOKEN):
            status, answer = request(endpoint.url, "POST", "/v1/stop", {}, token)
            assert status == 403 and answer["code"] == "no_actions" and "action_token" in answer["error"]
        assert request(endpoint.url, "GET", "/v1/status")[1]["takes_actions"] is False
    assert job.stops == []


def test_actions_need_their_token_where_anybody_may_read() -> None:
    job = StillJob()
    with ApiEndpoint("127.0.0.1", 0, Tokens(act=ACTION_TOKEN)) as endpoint:
        endpoint.show(job)
        assert request(endpoint.url, "GET", "/v1/status")[0] == 200
        for token in (None, READ_TOKEN):
            assert request(endpoint.url, "POST", "/v1/stop", {}, token)[0] == 401
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert request(endpoint.url, "POST", "/v1/stop", {}, ACTION_TOKEN, **headers)[0] == 403
        assert job.stops == []
        assert request(endpoint.url, "POST", "/v1/stop", {"drain": True}, ACTION_TOKEN)[0] == 202
    assert job.stops == [(True, None)]


def test_the_same_token_for_both_is_refused(tmp_path: Path, action_token: str) -> None:
    with (
        pytest.raises(ps.OptionError, match="are the same"),
        running(tmp_path, metrics_port=0, metrics_token=action_token, action_token=action_token),
    ):
        pass
    with (
        pytest.raises(ps.OptionError, match="action_token needs a metrics_port"),
        running(tmp_path, action_token=action_token),
    ):
        pass
    with (
        pytest.raises(ps.OptionError, match="action_token says where the token is"),
        running(tmp_path, metrics_port=0, action_token="hunter2"),
    ):
        pass


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "bad_request"),
        (b"{", 400, "bad_request"),
        (b'{"drain": "yes"}', 400, "bad_request"),
        (b"[" * 4_000, 400, "bad_request"),
        (b'{"savepoint": "%s"}' % (b"x" * handlers.MOST_BODY_BYTES), 413, "too_long"),
        (b'{"savepoint": "taken"}', 409, "refused"),
    ],
    ids=["empty", "broken", "wrong type", "deep", "long", "refused"],
)
def test_a_body_that_is_none_does_nothing(endpoint: ApiEndpoint, body: bytes, status: int, code: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(endpoint.url), timeout=LONG_S)
    connection.request("POST", "/v1/stop", body, {"Authorization": f"Bearer {ACTION_TOKEN}"})
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["code"]) == (status, code)
    connection.close()


def test_no_answer_lets_a_page_read_it_or_is_kept(endpoint: ApiEndpoint) -> None:
    for path, token in (("/", READ_TOKEN), ("/v1/status", READ_TOKEN), ("/v1/status", None), ("/health", None)):
        connection = http.client.HTTPConnection("127.0.0.1", port_of(endpoint.url), timeout=LONG_S)
        connection.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        connection.close()
        assert not [name for name in headers if name.startswith("access-control-")]
        assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["server"] == "penstock"


def test_errors_are_json_below_v1_and_text_elsewhere(endpoint: ApiEndpoint) -> None:
    for path in ("/metrics", "/v1/metrics"):
        status, answer = request(endpoint.url, "GET", path)
        assert status == 401 and isinstance(answer, dict if path.startswith(JSON_PREFIX) else str)


def test_before_the_job_begins_everything_says_so() -> None:
    with ApiEndpoint("127.0.0.1", 0, Tokens(act=ACTION_TOKEN)) as endpoint:
        for operation in OPERATIONS:
            if operation.media == JSON and operation.path != "/openapi.json":
                path = PATHS.get(operation.path, operation.path)
                status, answer = request(endpoint.url, operation.method, path, BODIES.get(path), ACTION_TOKEN)
                assert (status, answer["code"]) == (503, "not_begun")


def test_a_job_that_cannot_be_read_is_an_answer_too() -> None:
    def read() -> JobMetrics:
        raise ps.BugError("no figures")

    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        endpoint.show(StillJob(read))
        assert request(endpoint.url, "GET", "/v1/status") == (500, {"code": "failed", "error": "BugError: no figures"})


def test_a_savepoint_that_takes_long_is_asked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoint_orders, "WAIT_S", 0.01)
    job, committed = StillJob(), Event()

    def take(name: str) -> int:
        assert committed.wait(LONG_S)
        return 3

    job.take = take
    with ApiEndpoint("127.0.0.1", 0, Tokens(act=ACTION_TOKEN)) as endpoint:
        endpoint.show(job)
        for number in range(savepoint_orders.MOST_WAITING):
            asked = request(endpoint.url, "POST", "/v1/savepoints", {"name": f"n{number}"}, ACTION_TOKEN)
            assert asked == (202, {"job": "items", "name": f"n{number}", "epoch": None})
        status, answer = request(endpoint.url, "POST", "/v1/savepoints", {"name": "more"}, ACTION_TOKEN)
        assert (status, answer["code"]) == (429, "too_many")
        assert request(endpoint.url, "GET", "/v1/savepoints/n0")[0] == 202
        committed.set()
        while request(endpoint.url, "GET", "/v1/savepoints/n0")[0] == 202:
            pass
        assert request(endpoint.url, "GET", "/v1/savepoints/n0") == (200, {"job": "items", "name": "n0", "epoch": 3})


def test_the_port_is_given_back_at_once(tmp_path: Path) -> None:
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        port = port_of(endpoint.url)
        endpoint.show(StillJob(lambda: no_metrics("items")))
        # Of one who has connected and says nothing nobody waits for a word.
        silent = socket.create_connection(("127.0.0.1", port), timeout=LONG_S)
    assert silent.recv(1) == b""
    silent.close()
    with ApiEndpoint("127.0.0.1", port):
        pass
