"""The server beside a job: slow and broken clients cost it little, and the job nothing."""

import asyncio
import http.client
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.core.job_events import Notice
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.http_api import server
from penstock.http_api.access import Tokens
from penstock.http_api.event_log import KEPT_EVENTS
from penstock.http_api.event_messages import Missed
from penstock.http_api.readings import Readings
from penstock.http_api.server import ApiEndpoint
from penstock.jobs_client.address import parse_address
from penstock.jobs_client.client import JobClient
from tests.penstock.http_api.served_jobs import ACTION_TOKEN, StillJob, port_of, request
from tests.penstock.recovery.checkpoint_jobs import LONG_S


@pytest.fixture
def endpoint() -> Iterator[ApiEndpoint]:
    with ApiEndpoint("127.0.0.1", 0, Tokens(act=ACTION_TOKEN)) as endpoint:
        endpoint.show(StillJob())
        yield endpoint


HEAD = b"POST /v1/stop HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer " + ACTION_TOKEN.encode() + b"\r\n"


@pytest.mark.parametrize(
    "sent", [b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost:", HEAD + b"Content-Length: 20\r\n\r\n{"], ids=str
)
def test_who_does_not_finish_a_request_is_cut_off(
    endpoint: ApiEndpoint, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience_s = server.PATIENCE_S
    monkeypatch.setattr(server, "PATIENCE_S", 0.2)
    with socket.create_connection(("127.0.0.1", port_of(endpoint.url)), timeout=LONG_S) as slow:
        slow.sendall(sent % port_of(endpoint.url) if b"%d" in sent else sent)
        with suppress(ConnectionResetError):
            assert slow.recv(1) == b""
    monkeypatch.setattr(server, "PATIENCE_S", patience_s)
    assert request(endpoint.url, "GET", "/health")[0] == 200


def test_a_connection_answers_one_request(endpoint: ApiEndpoint) -> None:
    line = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port_of(endpoint.url)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port_of(endpoint.url)), timeout=LONG_S) as connection:
        connection.sendall(line * 3)
        answer = b""
        while part := connection.recv(4_096):
            answer += part
    assert answer.count(b"HTTP/1.1 200") == 1


def test_headers_that_do_not_end_are_refused(endpoint: ApiEndpoint) -> None:
    with socket.create_connection(("127.0.0.1", port_of(endpoint.url)), timeout=LONG_S) as endless:
        endless.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * (server.MOST_HEADER_BYTES + 1))
        assert endless.recv(12) == b"HTTP/1.1 400"


def test_no_word_of_the_server_is_on_standard_error(endpoint: ApiEndpoint, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection(("127.0.0.1", port_of(endpoint.url)), timeout=LONG_S) as broken:
        broken.sendall(b"\x16\x03\x01\r\n\r\n")
        while broken.recv(4_096):
            pass
    request(endpoint.url, "GET", "/v1/nothing")
    endpoint.close()
    assert capfd.readouterr().err == ""


def test_events_that_come_after_the_end_go_nowhere() -> None:
    endpoint = ApiEndpoint("127.0.0.1", 0)
    endpoint.close()
    endpoint.tell(Notice("too late"))
    endpoint.show(StillJob())
    endpoint.close()


def test_many_who_ask_share_readings_that_are_no_older_than_their_question() -> None:
    """However many ask, one reads; and who asks after something has happened sees it."""
    now, reading, most = 0, 0, 0
    lock = threading.Lock()

    def read() -> JobMetrics:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        found = replace(no_metrics("items"), source_rows=now)
        with lock:
            reading -= 1
        return found

    async def ask(readings: Readings) -> None:
        nonlocal now
        now += 1
        asked = now
        assert (await readings.read()).source_rows >= asked

    async def ask_often() -> None:
        with ThreadPoolExecutor(4) as executor:
            readings = Readings(StillJob(read), executor)
            for _ in range(50):
                await asyncio.gather(*(ask(readings) for _ in range(20)))

    asyncio.run(ask_often())
    assert most == 1


def test_a_reading_that_hangs_holds_up_neither_events_nor_actions_nor_the_job() -> None:
    go_on = threading.Event()
    began = threading.Event()

    def read() -> JobMetrics:
        began.set()
        assert go_on.wait(LONG_S)
        return no_metrics("items")

    job = StillJob(read)
    with ApiEndpoint("127.0.0.1", 0, Tokens(act=ACTION_TOKEN)) as endpoint, ThreadPoolExecutor(1) as asking:
        endpoint.show(job)
        asked = asking.submit(request, endpoint.url, "GET", "/v1/status")
        assert began.wait(LONG_S) and endpoint.url is not None
        # What a job tells is out of its hands at once: were it not, this test would wait here for ever.
        for number in range(2 * KEPT_EVENTS):
            endpoint.tell(Notice(str(number)))
        with JobClient(parse_address(endpoint.url)).events("0") as events:
            assert next(events).event == Missed(KEPT_EVENTS)
            assert next(events).event == Notice(str(KEPT_EVENTS))
        assert request(endpoint.url, "POST", "/v1/stop", {}, ACTION_TOKEN)[0] == 202
        assert job.stops == [(False, None)] and not asked.done()
        go_on.set()
        assert asked.result(LONG_S)[0] == 200


ROWS = 400_000


def counted(folder: Path) -> Job:
    """Count the bids of a generator by channel and second."""
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=ROWS), watermark="1s", job=Job()).name("bids")
    counts = bids.key_by("channel").window(ps.tumbling("1s")).agg(n=ps.count(), total=ps.sum_("price"))
    counts.name("per channel").write_json(str(folder / "out")).name("out")
    return counts.job


def written(folder: Path) -> list[str]:
    """Return the rows that a run has written."""
    return sorted(line for file in (folder / "out").rglob("*.json*") for line in file.read_text().splitlines())


def test_a_job_that_everybody_asks_writes_what_it_writes_alone(tmp_path: Path) -> None:
    alone, asked = tmp_path / "alone", tmp_path / "asked"
    quiet = counted(alone).run("counted", directory=alone / "job")
    handle = counted(asked).start("counted", directory=asked / "job", metrics_port=0)
    over = threading.Event()
    answered: Counter[int] = Counter()

    def ask(path: str) -> None:
        while not over.is_set():
            try:
                answered[request(handle.metrics_url, "GET", path)[0]] += 1
            except (OSError, http.client.HTTPException):
                return

    threads = [
        threading.Thread(target=ask, args=(path,))
        for path in ("/metrics", "/v1/status", "/v1/metrics", "/v1/instances", "/v1/graph", "/openapi.json") * 2
    ]
    for thread in threads:
        thread.start()
    metrics = handle.wait(LONG_S)
    over.set()
    for thread in threads:
        thread.join()
    assert answered[200] > 0
    assert metrics.ledger == quiet.ledger
    assert written(asked) == written(alone) and written(alone)


def test_the_server_is_imported_when_a_port_is_asked_for() -> None:
    probe = (
        "import sys, penstock as ps; job = ps.Job(); ps.read_memory([{'n': 1}], job=job).print(); job.run('j'); "
        "print(*[name for name in ('starlette', 'uvicorn', 'anyio', 'h11', 'asyncio.base_events') "
        "if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=120, check=True)
    assert not {"starlette", "uvicorn", "h11"} & set(ran.stdout.splitlines()[-1].split())
