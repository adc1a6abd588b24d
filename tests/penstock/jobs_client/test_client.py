"""The client: what it reads of a job, and how it names what goes wrong."""

import socket
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from hypothesis import given, settings

import penstock as ps
from penstock.engine.jobs.metrics import JobMetrics
from penstock.http_api.access import Tokens
from penstock.http_api.server import ApiEndpoint
from penstock.jobs_client.address import DEFAULT_URL, parse_address
from penstock.jobs_client.client import JobClient
from penstock.jobs_client.errors import (
    JobUnreachableError,
    RequestRefusedError,
    TokenMissingError,
    WrongScopeError,
)
from tests.penstock.http_api.served_jobs import ACTION_TOKEN, READ_TOKEN, StillJob
from tests.penstock.metrics.test_metrics import snapshots
from tests.penstock.recovery.checkpoint_jobs import running


def client_of(endpoint: ApiEndpoint, token: str | None = None) -> JobClient:
    assert endpoint.url is not None
    return JobClient(parse_address(endpoint.url, token))


def test_it_reads_all_that_a_job_says(tmp_path: Path) -> None:
    with running(tmp_path, metrics_port=0) as handle:
        assert handle.metrics_url is not None
        client = JobClient(parse_address(handle.metrics_url))
        assert client.status().job == client.graph().job == client.instances().job == client.checkpoints().job
        assert client.metrics().ledger == handle.metrics().ledger
        (instance,) = client.instances().instances
        assert instance.task_manager is None


@settings(max_examples=60)
@given(metrics=snapshots())
def test_metrics_are_read_as_they_are_sent(metrics: JobMetrics) -> None:
    assert msgspec.json.decode(msgspec.json.encode(metrics), type=JobMetrics) == metrics


def test_errors_say_what_is_to_be_done() -> None:
    job = StillJob()
    with ApiEndpoint("127.0.0.1", 0, Tokens(READ_TOKEN, ACTION_TOKEN)) as endpoint:
        with pytest.raises(RequestRefusedError, match="has not begun") as early:
            client_of(endpoint, READ_TOKEN).status()
        assert early.value.code == "not_begun"
        endpoint.show(job)
        for token in (None, "x" * 20):
            with pytest.raises(TokenMissingError, match="wants a token"):
                client_of(endpoint, token).status()
        with pytest.raises(WrongScopeError, match="may read only"):
            client_of(endpoint, READ_TOKEN).stop()
        with pytest.raises(RequestRefusedError, match="there is a savepoint 'taken' already") as refused:
            client_of(endpoint, ACTION_TOKEN).stop(savepoint="taken")
        assert refused.value.code == "refused"
        assert client_of(endpoint, ACTION_TOKEN).stop(drain=True).job == "items"
    assert job.stops == [(True, None)]
    with pytest.raises(JobUnreachableError, match=r"nothing answers at http://127\.0\.0\.1"):
        client_of(endpoint).status()


def test_a_watch_that_is_left_is_over_at_once() -> None:
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        endpoint.show(StillJob())
        client = client_of(endpoint)
        with client.events() as events:
            assert client.status().watchers == 1
        # The iterator lives on, and with it all that it reads from.
        while client.status().watchers:
            pass
        assert next(events, None) is None


def test_without_an_action_token_the_scope_is_named() -> None:
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        endpoint.show(StillJob())
        with pytest.raises(WrongScopeError, match="takes no actions: start it with an action_token"):
            client_of(endpoint).savepoint("first")


def test_what_is_no_job_is_said_to_be_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = JobClient(parse_address(f"http://127.0.0.1:{server.getsockname()[1]}"))
        for answer, error in (
            (b"HTTP/1.0 200 OK\r\n\r\n{}", "is no running job of this version"),
            (b"HTTP/1.0 502 Bad Gateway\r\n\r\noh no", "answers 502 Bad Gateway: oh no"),
        ):
            thread = Thread(target=_answer, args=(server, answer))
            thread.start()
            with pytest.raises(RequestRefusedError, match=error):
                client.status()
            thread.join()


def _answer(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(answer)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (DEFAULT_URL, DEFAULT_URL),
        (f"{DEFAULT_URL}/metrics", DEFAULT_URL),
        ("https://jobs.example/shops/", "https://jobs.example:443/shops"),
        ("http://[::1]:9464/metrics", "http://[::1]:9464"),
    ],
)
def test_urls(url: str, address: str) -> None:
    assert str(parse_address(url)) == address


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:9464", "ftp://a", "http://", "http://a:b", "http://a/?x", "http://a:99999"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ps.OptionError, match="the URL of a job is such as"):
        parse_address(url)


def test_a_url_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ps.OptionError) as refused:
        parse_address("http://me:hunter2@127.0.0.1:9464")
    assert "hunter2" not in str(refused.value)
