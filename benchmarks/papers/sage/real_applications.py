"""Applications that Sage sizes on real parts: rows from Kafka, each of which takes memory, CPU, a thread, or a call.

What a row takes stands in the options, so that one application lacks memory of state, another cores, another task
managers. Each row is written with how late it was worked off.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import penstock as ps
from penstock.benchmarks.papers.real.application import Application, Counted, Setting

_MODULE = "penstock.benchmarks.papers.sage.real_applications"
WORK, SERVICE = f"{_MODULE}:work", f"{_MODULE}:service"
ROWS = {"rows": f"{_MODULE}:rows"}
"""The topic, and what makes its messages."""

HELD = {"rows": f"{_MODULE}:every_key"}
"""What makes a message of every key, so that all state is there when the load begins."""

QUERY = "worked"
"""What the operator is called that works, and the sink behind it."""

READERS = 4
"""Instances that read, so that what works is a task of its own."""

KEYS = 2_000
_POOL = 20_000
_HELD = {"key": int, "late_ms": int, "at_ns": int}


def rows() -> list[bytes]:
    """Return rows of keys in an order in which each comes as often."""
    return [json.dumps({"key": number * 7919 % KEYS}).encode() for number in range(_POOL)]


def every_key() -> list[bytes]:
    """Return a row of each key."""
    return [json.dumps({"key": key}).encode() for key in range(KEYS)]


def work(setting: Setting) -> Application:
    """Return rows that are worked at; options: seconds ``cpu_s``, ``wait_s``, and ``held`` bytes of state of a key."""
    job = ps.Job()
    options = setting.options
    worked = _read(setting, job).parallelism(READERS).key_by("key").process(
        worker(options.get("cpu_s", 0.0), options.get("wait_s", 0.0), options.get("held", 0)), _HELD, order="arrival"
    )  # fmt: skip
    worked.name(QUERY).write_parquet(setting.folder / QUERY).name("out")
    return Application(job, {QUERY: Counted(QUERY, setting.topics)})


def worker(cpu_s: float, wait_s: float, held: int) -> type[ps.Process]:
    """Return what works at rows for so long, and keeps so many bytes of each key."""

    class Works(ps.Process):
        kept = ps.value_state(bytes)

        def process(self, row: dict[str, Any], context: Any) -> dict[str, Any]:
            late_ms = _late_ms(row["at"])
            if held:
                count = int.from_bytes((self.kept.get() or b"")[:8], "big") + 1
                self.kept.set(count.to_bytes(8, "big").ljust(held, b"."))
            time.sleep(wait_s)
            until_s = time.thread_time() + cpu_s
            while time.thread_time() < until_s:
                pass
            return {"key": row["key"], "late_ms": late_ms, "at_ns": time.monotonic_ns()}

    return Works


def service(setting: Setting) -> Application:
    """Return rows for each of which a service is asked over HTTP, which answers after ``latency_s``.

    After ``slow_s`` it does so from ``from_s`` of its life to ``to_s``; these are options.
    """
    job = ps.Job()
    options = setting.options
    address = serve(options["latency_s"], options["slow_s"], options["from_s"], options["to_s"])

    async def ask(row: dict[str, Any]) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            answer = await reader.read()
        finally:
            writer.close()
        if not answer.startswith(b"HTTP/1.0 200"):
            raise ValueError(f"the service answers {answer[:40]!r}")
        return {"key": row["key"], "late_ms": _late_ms(row["at"]), "at_ns": time.monotonic_ns()}

    asked = _read(setting, job).map_async(ask, _HELD, capacity=CALLS, timeout="30s").name(QUERY)
    asked.write_parquet(setting.folder / QUERY).name("out")
    return Application(job, {QUERY: Counted(QUERY, setting.topics)})


CALLS = 4
"""Calls at a time of an instance."""


def serve(
    latency_s: float, slow_s: float, from_s: float, to_s: float, now_s: Callable[[], float] = time.monotonic
) -> tuple[str, int]:
    """Start an HTTP server in a thread, which ends with this process; return where it is. ``now_s`` is its clock."""
    listens = threading.Event()
    at: list[tuple[str, int]] = []
    began_s = now_s()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(slow_s if from_s <= now_s() - began_s < to_s else latency_s)
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    async def listen() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        at.append(server.sockets[0].getsockname()[:2])
        listens.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(listen()), name="service", daemon=True).start()
    listens.wait()
    return at[0]


def _late_ms(at: datetime) -> int:
    return round((time.time() - at.timestamp()) * 1_000)


def _read(setting: Setting, job: ps.Job) -> ps.Stream:
    """Read the topic, dated by the times at which its messages were written."""
    read = ps.read_kafka(
        setting.topics[0], kafka=setting.kafka, schema={"key": int}, metadata={"timestamp": "at"}, time="at",
        watermark="500ms", until=setting.until, job=job,
    )  # fmt: skip
    return read.name("rows")
