"""The age of rows behind an exchange of all keys between two task managers: filter, key_by, map; at a steady rate."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.benchmarks.cluster.settings import EMBEDDED, TWO, TWO_TCP
from penstock.benchmarks.latency.steady import SteadySource
from penstock.dsl.job import Job

WARM_UP_S = 3.0
"""Rows that come before are not counted: kernels are loaded."""


class AgeSink(ps.Sink):
    """Writes the ages of rows into a folder, a file for each instance: those of all processes have one clock."""

    def __init__(self, folder: Path) -> None:
        """Write below ``folder``."""
        self._folder = folder

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> ps.Writer:
        """Begin a file."""
        return _AgeWriter(self._folder / f"{uuid4().hex}.npy")


class _AgeWriter(ps.Writer):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun_ns = time.monotonic_ns()
        self._ages: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Note how old each row is."""
        now_ns = time.monotonic_ns()
        if now_ns - self._begun_ns > WARM_UP_S * 1e9:
            self._ages.append(now_ns - rows.column("due_ns").to_numpy())

    def close(self) -> None:
        """Write what was noted."""
        np.save(self._path, np.concatenate([*self._ages, np.empty(0, np.int64)]))


class _Passing(ps.BatchProcess):
    """Puts out what it gets."""

    def process(self, batch: pa.RecordBatch, context: Any) -> pa.RecordBatch:
        """Put it out."""
        return batch


def measure(rows_per_s: int, seconds: float) -> Iterator[dict[str, float | str]]:
    """Yield a line for each setting: p50, p99 and the greatest age in ms."""
    for setting in (EMBEDDED, TWO, TWO_TCP):
        with TemporaryDirectory(prefix="penstock-") as folder:
            ages = Path(folder) / "ages"
            ages.mkdir()
            job = Job()
            source = SteadySource(rows_per_s // 2, 10_000, WARM_UP_S + seconds, partitions=2)
            rows = ps.read(source, job=job).filter(ps.col("key") % 2 == 0)
            mapped = rows.key_by("key").process(_Passing, schema={"key": int, "due_ns": int}, order="arrival")
            mapped.write(AgeSink(ages))
            job.run("latency", directory=folder, **setting.options())
            ages_ms = np.concatenate([np.load(file) for file in ages.glob("*.npy")]) / 1e6
        p50, p99 = np.quantile(ages_ms, 0.5), np.quantile(ages_ms, 0.99)
        yield {"setting": setting.name, "p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(ages_ms.max())}
