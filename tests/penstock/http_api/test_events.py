"""Events over HTTP: none that is kept is missed, and a watcher that does not read costs nobody anything."""

import asyncio
import random
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.core.job_events import CheckpointCommitted, Notice, StateChanged, Stuck, WellAgain
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.http_api import broadcast as broadcast_module
from penstock.http_api import patience, server
from penstock.http_api.access import Tokens
from penstock.http_api.broadcast import Broadcast, FellBehindError
from penstock.http_api.event_log import EventLog
from penstock.http_api.event_messages import KINDS, EventMessage, Missed, decode_message, resumed_number
from penstock.http_api.server import ApiEndpoint
from penstock.jobs_client.address import parse_address
from penstock.jobs_client.client import JobClient
from penstock.jobs_client.errors import RequestRefusedError, TokenMissingError
from tests.penstock.http_api.served_jobs import READ_TOKEN, StillJob, port_of, request
from tests.penstock.recovery.checkpoint_jobs import LONG_S, running


def client_of(endpoint: ApiEndpoint, token: str | None = None) -> JobClient:
    assert endpoint.url is not None
    return JobClient(parse_address(endpoint.url, token))


def kept(messages: list[EventMessage]) -> list[EventMessage]:
    return [message for message in messages if message.id is not None]


@pytest.fixture
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TICK_S", 0.005)


def test_a_log_keeps_the_last_and_counts_what_is_gone() -> None:
    """Against the list of all, for random lengths and positions."""
    draw = random.Random(7)
    for _ in range(300):
        length, added = draw.randint(1, 6), draw.randint(0, 15)
        log, everything = EventLog(length), []
        for number in range(1, added + 1):
            log.add(CheckpointCommitted(number), number)
            everything.append(number)
        at = draw.randint(0, added)
        wanted = everything[at:][-length:]
        assert [item.number for item in log.since(at)] == wanted
        assert log.missed(at) == len(everything[at:]) - len(wanted)


def test_who_comes_back_at_any_moment_misses_nothing_that_is_kept() -> None:
    """Watchers that read, stop and come back at random have every event once, in order, or are told how many not."""
    draw = random.Random(11)
    for _ in range(200):
        broadcast = Broadcast("run", EventLog(draw.randint(1, 8)))
        asyncio.run(come_back(broadcast, draw))


async def come_back(broadcast: Broadcast, draw: random.Random) -> None:
    received, at = 0, 0
    for _ in range(draw.randint(1, 10)):
        for _ in range(draw.randint(0, 6)):
            broadcast.add(CheckpointCommitted(broadcast.log.last + 1), 0)
        begin = resumed_number("run", "0" if at == 0 else f"run-{at}")
        assert begin == at
        stream = broadcast.follow(begin, 0)
        while at < broadcast.log.last:
            for message in decoded(await anext(stream)):
                if isinstance(message.event, Missed):
                    assert message.event.events is not None
                    at += message.event.events
                    received += message.event.events
                else:
                    assert message.event == CheckpointCommitted(at + 1) and message.id == f"run-{at + 1}"
                    at, received = at + 1, received + 1
        await stream.aclose()
    assert received == broadcast.log.last


def decoded(data: bytes) -> list[EventMessage]:
    messages = []
    for block in data.split(b"\n\n"):
        fields = dict(line.split(b": ", 1) for line in block.splitlines())
        if b"event" in fields:
            message_id = fields.get(b"id")
            message = decode_message(
                fields[b"event"].decode(), None if message_id is None else message_id.decode(), fields[b"data"]
            )
            assert message is not None
            messages.append(message)
    return messages


def test_who_falls_behind_while_it_watches_is_dropped() -> None:
    async def watch() -> None:
        broadcast = Broadcast("run", EventLog(3))
        stream = broadcast.follow(0, 0)
        broadcast.add(Notice("first"), 0)
        assert len(decoded(await anext(stream))) == 1
        for number in range(4):
            broadcast.add(Notice(str(number)), 0)
        with pytest.raises(FellBehindError):
            await anext(stream)

    asyncio.run(watch())


@pytest.mark.parametrize("last_id", ["run", "run-", "-1", "run--1", "other-3", "run-x", "run-" + "9" * 30, "run-²", ""])
def test_ids_of_others_are_none_of_the_run(last_id: str) -> None:
    assert resumed_number("run", last_id) is None


def test_a_running_job_tells_its_checkpoints_and_its_end(tmp_path: Path) -> None:
    messages: list[EventMessage] = []
    with ExitStack() as stack:
        handle = stack.enter_context(running(tmp_path, metrics_port=0))
        assert handle.metrics_url is not None
        client = JobClient(parse_address(handle.metrics_url))
        events = stack.enter_context(client.events("0"))
        handle.savepoint("first", LONG_S)
        watching = threading.Thread(target=lambda: messages.extend(events))
        watching.start()
        handle.stop()
        watching.join(LONG_S)
    told = [message.event for message in kept(messages)]
    states = [event.after for event in told if isinstance(event, StateChanged)]
    assert states == ["restoring", "running", "stopping", "finished"]
    epochs = [event.epoch for event in told if isinstance(event, CheckpointCommitted)]
    assert epochs == [1, 2]
    assert any(isinstance(event, Notice) and event.text.startswith("BEGUN: ") for event in told)
    numbers = [int((message.id or "").rpartition("-")[2]) for message in kept(messages)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_metrics_come_between_the_events_and_are_not_kept(quick_ticks: None) -> None:
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        endpoint.show(StillJob(lambda: replace(no_metrics("items"), source_rows=3)))
        with client_of(endpoint).events() as events:
            message = next(events)
        assert (message.kind, message.id) == ("metrics", None)
        assert isinstance(message.event, JobMetrics) and message.event.source_rows == 3


def test_who_comes_back_over_http_gets_the_rest() -> None:
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        endpoint.show(StillJob())
        client = client_of(endpoint)
        for number in range(3):
            endpoint.tell(Notice(str(number)))
        with client.events("0") as events:
            first = next(events)
        assert first.event == Notice("0")
        with client.events(first.id) as events:
            assert [next(events).event, next(events).event] == [Notice("1"), Notice("2")]
        with client.events("elsewhere-7") as events:
            assert [next(events).event, next(events).event] == [Missed(None), Notice("0")]


def test_a_stuck_loop_is_told_once_and_its_recovery(quick_ticks: None) -> None:
    ages = iter([0, 61 * 10**9, 62 * 10**9])
    last = 0

    def read() -> JobMetrics:
        nonlocal last
        last = next(ages, 0)
        return replace(no_metrics("items"), loop_age_ns=last)

    with ApiEndpoint("127.0.0.1", 0) as endpoint, client_of(endpoint).events() as events:
        endpoint.show(StillJob(read))
        found = [next(message for message in events if message.id is not None).event for _ in range(2)]
    assert [type(event) for event in found] == [Stuck, WellAgain]


def test_a_client_that_does_not_read_is_cut_off_and_counted(quick_ticks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.2)
    with ApiEndpoint("127.0.0.1", 0) as endpoint:
        endpoint.show(StillJob())
        with socket.create_connection(("127.0.0.1", port_of(endpoint.url)), timeout=LONG_S) as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            silent.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port_of(endpoint.url)}\r\n\r\n".encode())
            assert silent.recv(12) == b"HTTP/1.1 200"
            line = Notice("x" * 100_000)
            until(lambda: endpoint.tell(line), lambda: status(endpoint)["dropped_watchers"] == 1)
        assert status(endpoint)["watchers"] == 0


def status(endpoint: ApiEndpoint) -> dict[str, int]:
    found: dict[str, int] = request(endpoint.url, "GET", "/v1/status")[1]
    return found


def until(step: Callable[[], object], condition: Callable[[], bool]) -> None:
    while not condition():
        step()


def test_no_more_watch_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.http_api.event_stream.MOST_WATCHERS", 2)
    assert broadcast_module.MOST_WATCHERS > 2
    with ApiEndpoint("127.0.0.1", 0) as endpoint, ExitStack() as stack:
        endpoint.show(StillJob())
        client = client_of(endpoint)
        for _ in range(2):
            stack.enter_context(client.events())
        with pytest.raises(RequestRefusedError) as refused, client.events():
            pass
        assert refused.value.code == "too_many"
        stack.close()
        until(lambda: None, lambda: status(endpoint)["watchers"] == 0)
        with client.events():
            pass


def test_events_need_the_token() -> None:
    with ApiEndpoint("127.0.0.1", 0, Tokens(READ_TOKEN)) as endpoint:
        with pytest.raises(TokenMissingError), client_of(endpoint).events():
            pass
        with client_of(endpoint, READ_TOKEN).events():
            pass


def test_kinds_that_are_not_known_are_passed_over() -> None:
    assert decode_message("news of tomorrow", None, b"{}") is None
    assert len(set(KINDS.values())) == len(KINDS)
