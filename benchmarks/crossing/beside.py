"""Rows that come while the loop is busy: received by a thread of their own, or by the loop between two steps."""

import select
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.benchmarks.crossing.bare import CAPACITY_BYTES
from penstock.benchmarks.crossing.links import open_link
from penstock.benchmarks.crossing.pair import Figures, Request
from penstock.benchmarks.crossing.rows import SCHEMA, source_rows
from penstock.engine.core.elements import Batch, EndOfStream
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.linked import LinkedChannels
from penstock.engine.transport.picked_rows import Picks
from penstock.state.keys.partition import partition

WARM_UP_S = 0.3
_HELD_LOOPS = 1_500
_STEP_ROWS = 32_768


class BusyLoop:
    """Steps of some hundred microseconds, in kernels and Arrow without the interpreter lock, and in Python with it."""

    def __init__(self) -> None:
        """Make what it works on."""
        random = np.random.default_rng(1)
        self._hashes = random.integers(0, 1 << 63, _STEP_ROWS).astype(np.uint64)
        self._owners = np.arange(128, dtype=np.int32) % 2
        self._values = pa.array(random.random(_STEP_ROWS))
        self.steps = 0

    def step(self) -> None:
        """Do one."""
        first, _ = partition(self._hashes, self._owners, 2)
        pc.sum(pc.take(self._values, pa.array(first), boundscheck=False))
        held = 0
        for number in range(_HELD_LOOPS):
            held += number & 3
        self.steps += 1


def receive_beside(side: int, request: Request) -> Iterator[Figures]:
    """Send batches of ``rows`` rows, ``rows_per_s`` (0: as many as go) for ``seconds``, to side 1, whose loop is busy.

    Side 1 reports milliseconds from when a batch was due to when its loop takes it (``p50_ms``, ``p99_ms``), the rows
    of a second of the clock, and the steps of a second of CPU.
    """
    link = open_link(request["link"], side, Path(request["meeting"]), SCHEMA)
    channels = LinkedChannels(link)
    if side == 0:
        sender = channels.sender(0, "crossing", CAPACITY_BYTES)
        rows, picks = source_rows(request["rows"])
        yield {}
        cpu_s = time.process_time()
        _pace(channels, sender, rows, picks, request)
        figures = {"cpu_s": time.process_time() - cpu_s}
        sender.put(EndOfStream())
        link.end()
    else:
        receiver = channels.receiver(0, "crossing", CAPACITY_BYTES)
        loop = BusyLoop()
        loop.step()
        yield {}
        figures = _work(channels, receiver, loop)
        link.end()
    while not link.has_ended() or link.has_unsent():
        link.flush()
        select.select([link], [], [], 0.001)
        channels.turn()
    yield figures
    link.close()


def work_alone(side: int, request: Request) -> Iterator[Figures]:
    """Report the steps of a second of CPU of a loop that receives nothing."""
    loop = BusyLoop()
    yield {}
    begun_s, cpu_s = time.perf_counter(), time.process_time()
    while time.perf_counter() - begun_s < request["seconds"]:
        loop.step()
    yield {"steps_per_cpu_s": loop.steps / (time.process_time() - cpu_s)}


def _pace(channels: LinkedChannels, sender: SendingHalf, rows: pa.RecordBatch, picks: Picks, request: Request) -> None:
    rate = request["rows_per_s"]
    begun_ns = time.monotonic_ns()
    until_ns = begun_ns + int((WARM_UP_S + request["seconds"]) * 1e9)
    for number in count():
        due_ns = time.monotonic_ns() if not rate else begun_ns + number * request["rows"] * 1_000_000_000 // rate
        if due_ns > until_ns:
            return
        while (early_ns := due_ns - time.monotonic_ns()) > 0 or not sender.has_room():
            select.select([channels.link], [], [], min(0.005, max(early_ns, 0) / 1e9) or 0.005)
            channels.turn()
        sender.put(Batch(rows, ingest_ns=due_ns), picks)
        channels.turn()


def _work(channels: LinkedChannels, receiver: ReceivingHalf, loop: BusyLoop) -> Figures:
    ages_ms: list[float] = []
    rows, begun_ns = 0, time.monotonic_ns()
    counted_ns: int | None = None
    while True:
        loop.step()
        channels.turn()
        now_ns = time.monotonic_ns()
        if counted_ns is None and now_ns - begun_ns > WARM_UP_S * 1e9:
            counted_ns, counted_cpu_s, counted_steps = now_ns, time.process_time(), loop.steps
        while len(receiver):
            element = receiver.take()
            if isinstance(element, EndOfStream):
                assert counted_ns is not None
                return {
                    "p50_ms": float(np.quantile(ages_ms, 0.5)),
                    "p99_ms": float(np.quantile(ages_ms, 0.99)),
                    "rows_per_s": rows / ((now_ns - counted_ns) / 1e9),
                    "steps_per_cpu_s": (loop.steps - counted_steps) / (time.process_time() - counted_cpu_s),
                    "rows": rows,
                    "cpu_s": time.process_time() - counted_cpu_s,
                    "steps": loop.steps - counted_steps,
                }
            if isinstance(element, Batch) and counted_ns is not None:
                rows += element.rows.num_rows
                ages_ms.append((now_ns - element.ingest_ns) / 1e6)
