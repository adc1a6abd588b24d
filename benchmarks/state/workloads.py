"""Workloads whose state is larger than its budget, each a pipeline over rows that are made as they are read.

The microworkloads are those of Justin's evaluation: reads, writes and updates of 1 KB values under uniform keys.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.dsl.job import Job

VALUE_BYTES = 1_000
_WARMING_KEYS = 1_000
_calls = itertools.count()
BATCH_ROWS = 131_072


@dataclass
class Counted:
    """The result of a workload: rows, and the sum of a column. ``began_s``: when what is measured began, if later.

    ``filled`` counts the keys that were written before; once all of them are, ``ready`` is set.
    """

    rows: int = 0
    total: int = 0
    filled: int = 0
    began_s: float | None = None
    ready: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Workload:
    """``build`` adds the pipeline to a job, of which ``rows`` are measured; ``expected``: is what came out right?"""

    name: str
    rows: int
    build: Callable[[Job, Counted], None]
    expected: Callable[[Counted], bool]


def keyed_counts(keys: int, rows: int) -> Workload:
    """Count uniform keys; the last counts add up to the rows."""

    def build(job: Job, counted: Counted) -> None:
        def sink(batch: pa.RecordBatch) -> None:
            counted.rows += batch.num_rows
            weights = batch.column("weight").to_numpy()
            counted.total += int((batch.column("n").to_numpy() * weights).sum())

        source = ps.read_iterable(_keys(keys, rows), schema=pa.schema({"k": pa.int64()}), job=job).name("keys")
        counts = source.key_by("k").agg(n=ps.count()).name("counts")
        counts.for_each_batch(sink, mode="changelog").name("out")

    return Workload(f"counts of {keys:,} keys", rows, build, lambda counted: counted.total == rows)


def inner_join(keys: int, rows: int) -> Workload:
    """Join two sides for ever; every pair must come."""

    def build(job: Job, counted: Counted) -> None:
        left = ps.read_iterable(_keys(keys, rows), schema=pa.schema({"k": pa.int64()}), job=job).name("left")
        right = ps.read_iterable(_keys(keys, rows, seed=2), schema=pa.schema({"k": pa.int64()}), job=job).name("right")
        left.join(right, on="k").name("pairs").for_each_batch(_counting(counted)).name("out")

    def expected(counted: Counted) -> bool:
        left, right = (np.concatenate([np.asarray(b["k"]) for b in _keys(keys, rows, seed)()]) for seed in (1, 2))
        sides = [np.bincount(side, minlength=keys).astype(np.int64) for side in (left, right)]
        return counted.rows == int((sides[0] * sides[1]).sum())

    return Workload(f"join of {keys:,} keys", 2 * rows, build, expected)


def sessions(keys: int, rows: int) -> Workload:
    """Sessions that are all open until the end: one a key that came."""

    def build(job: Job, counted: Counted) -> None:
        schema = pa.schema({"k": pa.int64(), "t": pa.timestamp("us")})
        source = ps.read_iterable(_timed(keys, rows), schema=schema, time="t", watermark="1s", job=job).name("events")
        windows = source.key_by("k").window(ps.session("1h"))
        windows.agg(n=ps.count()).name("sessions").for_each_batch(_counting(counted, "n")).name("out")

    return Workload(f"sessions of {keys:,} keys", rows, build, lambda counted: counted.total == rows)


def micro(kind: str, keys: int, rows: int, *, fills: bool = False) -> Workload:
    """Justin's Read, Write or Update of 1 KB values; all keys are there before, for Write a few unless it ``fills``."""
    processes: Mapping[str, type[ps.BatchProcess]] = {"read": _Read, "write": _Write, "update": _Update}
    before = _WARMING_KEYS if kind == "write" and not fills else keys

    def build(job: Job, counted: Counted) -> None:
        def sink(batch: pa.RecordBatch) -> None:
            counted.total += int(batch.column("keys").to_numpy().sum())
            counted.filled += int(batch.column("filled").to_numpy().sum())
            if counted.filled >= before:
                counted.ready.set()

        source = ps.read_iterable(
            _filled(keys, rows, before, counted), schema=pa.schema({"k": pa.int64(), "fill": pa.bool_()}), job=job
        ).name("operations")
        state = {"keys": "int64", "filled": "int64"}
        done = source.key_by("k").process(processes[kind], state, order="arrival").name("state")
        done.for_each_batch(sink).name("out")

    # A key of a batch is reached once, however many of its rows ask for it.
    return Workload(kind, rows, build, lambda counted: 0 < counted.total <= rows)


class _Micro(ps.BatchProcess):
    value = ps.value_state(bytes)

    def process(self, batch: pa.RecordBatch, context: Any) -> dict[str, Any]:
        count = len(context.keys["k"])
        if batch.column("fill")[0].as_py():
            self.value.scatter(_values(count))
            return {"keys": np.array([0]), "filled": np.array([count])}
        return {"keys": np.array([self.operate(count)]), "filled": np.array([0])}

    def operate(self, keys: int) -> int:
        raise NotImplementedError


class _Read(_Micro):
    def operate(self, keys: int) -> int:
        read = self.value.gather()
        return int(len(read) - read.null_count)


class _Write(_Micro):
    def operate(self, keys: int) -> int:
        self.value.scatter(_values(keys))
        return keys


class _Update(_Micro):
    def operate(self, keys: int) -> int:
        read = self.value.gather()
        self.value.scatter(_values(keys))
        return int(len(read) - read.null_count)


def _values(count: int) -> pa.Array:
    # No two are alike, as values are not: whoever compared them would not write what did not change.
    data = np.full((count, VALUE_BYTES // 8), 7, np.int64)
    data[:, 0] = next(_calls)
    data[:, 1] = np.arange(count)
    offsets = np.arange(count + 1, dtype=np.int32) * VALUE_BYTES
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _counting(counted: Counted, column: str | None = None) -> Callable[[pa.RecordBatch], None]:
    def sink(batch: pa.RecordBatch) -> None:
        counted.rows += batch.num_rows
        if column is not None:
            counted.total += int(batch.column(column).to_numpy().sum())

    return sink


def _sizes(rows: int) -> Iterator[tuple[int, int]]:
    for first in range(0, rows, BATCH_ROWS):
        yield first, min(BATCH_ROWS, rows - first)


def _keys(keys: int, rows: int, seed: int = 1) -> Callable[[], Iterator[pa.RecordBatch]]:
    def make() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(seed)
        for _, size in _sizes(rows):
            yield pa.record_batch({"k": random.integers(0, keys, size)})

    return make


def _timed(keys: int, rows: int) -> Callable[[], Iterator[pa.RecordBatch]]:
    def make() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(1)
        for first, size in _sizes(rows):
            times = pa.array(np.arange(first, first + size) * 10, pa.timestamp("us"))
            yield pa.record_batch({"k": random.integers(0, keys, size), "t": times})

    return make


def _filled(keys: int, rows: int, before: int, counted: Counted) -> Callable[[], Iterator[pa.RecordBatch]]:
    def make() -> Iterator[pa.RecordBatch]:
        for first, size in _sizes(before):
            yield pa.record_batch({"k": np.arange(first, first + size), "fill": np.ones(size, np.bool_)})
        # Rows that wait are of no batch yet: those to be measured must neither join them nor pay for them.
        counted.ready.wait()
        counted.began_s = time.perf_counter()
        for batch in _keys(keys, rows)():
            yield batch.append_column("fill", pa.array(np.zeros(batch.num_rows, np.bool_)))

    return make
