"""Ways to bring picked rows into shared memory: the kernel that writes there, or Arrow's ``take`` and a copy."""

import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.benchmarks.crossing.pair import Figures, Request
from penstock.benchmarks.crossing.rows import SCHEMA, source_rows
from penstock.engine.transport.batch_body import BatchCodec
from penstock.engine.transport.picked_rows import put_together
from penstock.engine.transport.ring import make_ring

_REPEATS = 9
_ROWS = 2_000_000


def fill(side: int, request: Request) -> Iterator[Figures]:
    """Report nanoseconds of CPU for each picked row of 24 bytes, the best of several: by way."""
    rows, picks = source_rows(request["rows"])
    ring = make_ring(32 << 20)
    codec = BatchCodec(SCHEMA)

    def kernel() -> None:
        codec.encode(rows, picks).write(ring.memory)

    def kernel_then_message() -> None:
        _copy(put_together([(rows, picks)]).serialize())

    def arrow_then_copy() -> None:
        at = 0
        for column in pc.take(rows, pa.array(picks), boundscheck=False).columns:
            values = np.frombuffer(column.buffers()[1], np.uint8)
            ring.memory[at : at + values.size] = values
            at += values.size

    def arrow_then_message() -> None:
        _copy(pc.take(rows, pa.array(picks), boundscheck=False).serialize())

    def _copy(message: pa.Buffer) -> None:
        ring.memory[: message.size] = np.frombuffer(message, np.uint8)

    yield {}
    ways: dict[str, Callable[[], None]] = {
        "kernel into the ring": kernel,
        "kernel, message, copy": kernel_then_message,
        "take, copy": arrow_then_copy,
        "take, message, copy": arrow_then_message,
    }
    best = dict.fromkeys(ways, float("inf"))
    calls = max(1, _ROWS // request["rows"])
    for _ in range(_REPEATS):
        for name, way in ways.items():
            begun_ns = time.process_time_ns()
            for _ in range(calls):
                way()
            best[name] = min(best[name], (time.process_time_ns() - begun_ns) / calls / request["rows"])
    yield best
    ring.close()
