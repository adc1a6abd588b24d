"""The metrics endpoint: what it serves of a real job, whom it answers, and that its text can be read back."""

import http.client
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings

import penstock as ps
from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.metrics import InstanceMetrics, JobMetrics, no_metrics
from penstock.engine.moves.move_orders import MoveTotals
from penstock.http_api.server import ApiEndpoint
from penstock.metrics.prometheus import FAMILIES, exposition
from penstock.runs.own_token import token_folder
from tests.penstock.http_api.served_jobs import StillJob, port_of
from tests.penstock.metrics.prometheus_text import parse_metrics
from tests.penstock.metrics.test_metrics import snapshots
from tests.penstock.recovery.checkpoint_jobs import LONG_S, per_item, running


def ask(port: int, method: str = "GET", path: str = "/metrics", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        endpoint.show(StillJob(lambda: replace(no_metrics("items"), source_rows=3)))
        yield port_of(endpoint.url)


def test_a_running_job_serves_its_metrics(tmp_path: Path) -> None:
    with running(tmp_path, metrics_port=0) as handle:
        handle.savepoint("first", LONG_S)
        status, text = ask(port_of(handle.metrics_url))
        served, own = parse_metrics(text), handle.metrics()
    assert status == 200
    assert (served.name, served.source_rows, served.ledger.operators) == ("items", 6, own.ledger.operators)
    assert (served.states, served.checkpoints) == (own.states, own.checkpoints)
    assert 'penstock_source_rows_total{job="items",source="orders"} 6.0' in text
    with pytest.raises(ConnectionRefusedError):
        ask(port_of(handle.metrics_url))


def listening() -> set[tuple[str, int]]:
    """Return what this process listens to: addresses and ports."""
    connections = psutil.Process().net_connections()
    return {(item.laddr.ip, item.laddr.port) for item in connections if item.status == psutil.CONN_LISTEN}


def test_only_this_machine_is_listened_to(tmp_path: Path) -> None:
    # A process that is connected to a Ray cluster listens for that.
    before = listening()
    with running(tmp_path, metrics_port=0) as handle:
        assert listening() - before == {("127.0.0.1", port_of(handle.metrics_url))}
    for host in ("0.0.0.0", "", "192.0.2.1", "::"):
        with pytest.raises(ps.OptionError, match="metrics_host must be"):
            per_item(tmp_path).start("items", metrics_port=0, metrics_host=host)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/metrics", "/", "/metrics/", "/metrics?x=1", "/../etc/passwd"])
@pytest.mark.parametrize(
    "headers", [{}, {"Host": "evil.example"}, {"Host": "127.0.0.1"}, {"Origin": "http://evil.example"}], ids=str
)
def test_nothing_else_is_answered(port: int, method: str, path: str, headers: dict[str, str]) -> None:
    status, text = ask(port, method, path, **headers)
    if headers:
        assert status == 403
    elif method != "GET":
        assert status == 405
    else:
        assert status == (200 if path in ("/metrics", "/") else 404)
    assert ("penstock_" in text) == (status == 200 and path == "/metrics")


def test_a_broken_request_does_not_end_it(port: int) -> None:
    for sent in (b"\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n", b"GET " + b"x" * 70_000, b"\x16\x03\x01"):
        with socket.create_connection(("127.0.0.1", port), timeout=LONG_S) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert ask(port)[0] == 200


def test_before_the_job_begins_it_says_so() -> None:
    with ApiEndpoint("localhost", 0) as endpoint:
        assert ask(port_of(endpoint.url)) == (503, "the job has not begun\n")


def test_metrics_that_cannot_be_read_are_an_answer_too() -> None:
    def read() -> JobMetrics:
        raise ps.BugError("no figures")

    with ApiEndpoint("localhost", 0) as endpoint:
        endpoint.show(StillJob(read))
        assert ask(port_of(endpoint.url)) == (500, "the metrics cannot be read: BugError: no figures\n")


def test_a_taken_port_stops_the_start(port: int, tmp_path: Path) -> None:
    with pytest.raises(ps.OptionError, match=f"metrics cannot be served on port {port}"):
        per_item(tmp_path).start("items", metrics_port=port)
    # The token that it would have had is not left.
    assert not list(token_folder(os.environ).glob(".*"))
    for wrong in (-1, 70_000, "9464"):
        with pytest.raises(ps.OptionError, match="metrics_port"):
            per_item(tmp_path).start("items", metrics_port=wrong)


def test_names_have_units_and_are_declared_once() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert re.fullmatch(r"penstock_[a-z_]+", family.name) and family.text.endswith(".")
        assert not family.name.endswith("_total")
        if family.kind == "gauge":
            assert family.name.endswith(("_seconds", "_bytes", "_epoch", "_info", "_failing", "_messages", "_ratio"))


@settings(max_examples=60)
@given(metrics=snapshots())
def test_what_is_written_can_be_read_back(metrics: JobMetrics) -> None:
    assert parse_metrics(exposition(lambda: metrics).decode()) == metrics


def test_operators_of_the_same_name_are_added_up() -> None:
    twice = tuple(
        InstanceMetrics("map", 0, TimeSpent(1_000, 0, 0, 0, 0), watermark_us, 5)
        for watermark_us in (3_000_000, None, 1)
    )
    (found,) = parse_metrics(exposition(lambda: replace(no_metrics("job"), instances=twice)).decode()).instances
    assert (found.time.busy_ns, found.watermark_us, found.waiting_bytes) == (3_000, 1, 15)


def test_moves_are_counted_with_the_pause_and_the_marker_of_the_last() -> None:
    moves = MoveTotals(3, 1, 40, 5_000, 2_500.0, 30.0, 4.0)
    lines = exposition(lambda: replace(no_metrics("job"), moves=moves)).decode().splitlines()
    said = {line.split("{")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith("penstock_move")}
    assert said == {
        "penstock_moves_done_total": 3.0,
        "penstock_moves_failed_total": 1.0,
        "penstock_moves_key_groups_total": 40.0,
        "penstock_moves_state_bytes_total": 5_000.0,
        "penstock_moves_seconds_total": 2.5,
        "penstock_move_last_pause_seconds": 0.03,
        "penstock_move_last_marker_seconds": 0.004,
    }
