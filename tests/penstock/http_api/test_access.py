"""Who gets a job's metrics from elsewhere: whoever sends the token, which is never shown; and words on its health."""

import http.client
import os
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.checkpoint.metrics import CheckpointMetrics
from penstock.engine.jobs.metrics import no_metrics
from penstock.http_api.access import Access, RequestHeaders, Scope, Tokens
from penstock.http_api.server import ApiEndpoint
from penstock.jobs_client.address import parse_address
from penstock.jobs_client.client import JobClient
from penstock.metrics import health
from penstock.runs.metrics_token import read_token
from tests.penstock.http_api.served_jobs import StillJob
from tests.penstock.recovery.checkpoint_jobs import LONG_S, per_item, running

TOKEN = "a-token-of-decent-length"
SECOND_NS = 1_000_000_000


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    return file


def ask(url: str | None, path: str, token: str | None = None, host: str | None = None) -> tuple[int, str]:
    assert url is not None
    connection = http.client.HTTPConnection("127.0.0.1", int(url.split(":")[2].split("/")[0]), timeout=LONG_S)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request("GET", path, headers=headers if host is None else {**headers, "Host": host})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_any_address_may_be_listened_at_with_a_token(tmp_path: Path, token_file: Path) -> None:
    options = {"metrics_port": 0, "metrics_host": "0.0.0.0", "metrics_token": f"file:{token_file}"}
    with running(tmp_path, **options) as handle:
        url = handle.metrics_url
        assert ask(url, "/metrics", TOKEN, host="pod-7.example:9464")[0] == 200
        for wrong in (None, "", TOKEN[:-1], TOKEN + "x", "ü"):
            status, text = ask(url, "/metrics", wrong and wrong.encode().decode("latin-1"))
            assert status == 401 and "penstock_" not in text
        assert ask(url, "/else")[0] == 401
        assert url is not None
        address = parse_address(url.replace("0.0.0.0", "127.0.0.1"), read_token(f"file:{token_file}"))
        assert JobClient(address).metrics().name == "items"
        assert (
            TOKEN not in repr(address)
            and TOKEN not in str(address)
            and TOKEN not in repr(Access(1, Tokens(TOKEN, TOKEN)))
        )


def test_a_refused_request_says_how_to_ask() -> None:
    with ApiEndpoint("127.0.0.1", 0, Tokens(TOKEN)) as endpoint:
        assert ask(endpoint.url, "/metrics") == (401, "send the token: Authorization: Bearer TOKEN\n")


@pytest.mark.parametrize(
    ("authorization", "refused"),
    [(f"Bearer {TOKEN}", False), (f"bearer  {TOKEN} ", False), (f"Basic {TOKEN}", True), (TOKEN, True), (None, True)],
)
def test_a_token_is_sent_as_a_bearer(authorization: str | None, refused: bool) -> None:
    refusal = Access(9464, Tokens(TOKEN)).refusal(RequestHeaders(["anything"], None, authorization), Scope.READ)
    assert (refusal and refusal.status) == (HTTPStatus.UNAUTHORIZED if refused else None)


def test_without_a_token_this_machine_alone_is_listened_at(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "", "192.0.2.1", "::"):
        with pytest.raises(ps.OptionError, match=r"metrics_host must be .* unless metrics_token"):
            per_item(tmp_path).start("items", metrics_port=0, metrics_host=host)


def test_a_token_itself_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for given in (TOKEN, "file:", "http:x", ""):
        with pytest.raises(ps.OptionError, match="never the token itself") as refused:
            per_item(tmp_path).start("items", metrics_port=0, metrics_token=given)
        assert TOKEN not in str(refused.value)


def loose(file: Path) -> str:
    file.write_text(TOKEN)
    file.chmod(0o640)
    return f"file:{file}"


def short(file: Path) -> str:
    file.touch(0o600)
    file.write_text("short")
    return f"file:{file}"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (loose, "chmod 600"),
        (short, "16 or more characters"),
        (lambda file: f"file:{file}", "cannot be read"),
        (lambda file: "env:PENSTOCK_NO_SUCH_TOKEN", "not set"),
    ],
)
def test_a_token_that_cannot_be_used_stops_the_start(make: Callable[[Path], str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ps.OptionError, match=said) as refused:
        per_item(tmp_path).start("items", metrics_port=0, metrics_token=make(tmp_path / "token"))
    assert TOKEN not in str(refused.value)


def test_a_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "METRICS_TOKEN", TOKEN)
    assert read_token("env:METRICS_TOKEN") == TOKEN


def test_a_running_job_is_alive_and_ready_and_tells_strangers_no_more(tmp_path: Path, token_file: Path) -> None:
    with running(tmp_path, metrics_port=0, metrics_token=f"file:{token_file}") as handle:
        assert ask(handle.metrics_url, "/health") == (200, "alive\n")
        assert ask(handle.metrics_url, "/ready") == (200, "ready\n")


def test_a_job_that_has_not_begun_is_alive_and_not_ready() -> None:
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        assert ask(endpoint.url, "/health")[0] == 200
        assert ask(endpoint.url, "/ready") == (503, "the job does not run\n")
        assert ask(endpoint.url, "/health", host="evil.example")[0] == 403


def test_metrics_that_cannot_be_read_are_not_told_to_strangers() -> None:
    def read() -> ps.JobMetrics:
        raise ps.BugError("where the data is")

    with ApiEndpoint("127.0.0.1", 0, Tokens(TOKEN)) as endpoint:
        endpoint.show(StillJob(read))
        assert ask(endpoint.url, "/health") == (500, "the metrics cannot be read\n")
        assert "where the data is" in ask(endpoint.url, "/metrics", TOKEN)[1]


@pytest.mark.parametrize(
    ("age_ns", "failing", "alive", "ready"),
    [
        (None, False, True, False),
        (0, False, True, True),
        (SECOND_NS, None, True, True),
        (SECOND_NS, True, True, False),
        (61 * SECOND_NS, False, False, False),
    ],
)
def test_health_and_readiness(age_ns: int | None, failing: bool | None, alive: bool, ready: bool) -> None:
    checkpoints = None if failing is None else CheckpointMetrics(failing=failing)
    metrics = replace(no_metrics("items"), loop_age_ns=age_ns, checkpoints=checkpoints)
    assert health.health(metrics).well == alive
    assert health.readiness(metrics).well == ready
