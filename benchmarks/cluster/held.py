"""How long a checkpoint of a large state without a budget holds an operator, in one process and on two task managers.

Counts for many keys, all of which change between two checkpoints; an operator is held from the barrier until the first
rows behind it are worked off. See `penstock.benchmarks.state.held`, which watches one process.
"""

import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.benchmarks.cluster.settings import EMBEDDED, TWO, Setting
from penstock.benchmarks.state.held import MB, watching
from penstock.dsl.handle import Handle
from penstock.dsl.job import Job

PATIENCE_S = 600.0
"""How long the next checkpoint is awaited."""

_LOOK_S = 0.2
_FULL = 0.9
"""A checkpoint counts whose state is this share of the largest: all keys had come before it."""


def measure(keys: int, checkpoints: int, interval: str = "2s") -> list[dict[str, float | str]]:
    """Return a line for each setting: p50, p99 and the longest time that an operator was held, in ms.

    So many ``checkpoints`` count of each operator, and those of all operators together.
    """
    return [_measured(setting, keys, checkpoints, interval) for setting in (EMBEDDED, TWO)]


def _measured(setting: Setting, keys: int, checkpoints: int, interval: str) -> dict[str, float | str]:
    with TemporaryDirectory(prefix="penstock-") as folder:
        notes = Path(folder) / "notes"
        notes.mkdir()
        job = Job()
        source = WatchedKeys(keys, setting.parallelism, notes)
        counted = ps.read(source, job=job).name("keys").key_by("k").agg(n=ps.count(), last=ps.max_("k")).name("counts")
        counted.write_black_hole(mode="changelog").name("out")
        handle = job.start(
            "held",
            directory=Path(folder) / "job",
            checkpoint_dir=Path(folder) / "checkpoints",
            checkpoint_interval=interval,
            **setting.options(),
        )
        try:
            by_process = _await_checkpoints(handle, notes, setting.parallelism, checkpoints)
        finally:
            handle.stop()
    held_ms = np.concatenate([[item["held_ms"] for item in full] for full in by_process])
    return {
        "setting": setting.name,
        "state_mb": sum(full[-1]["bytes"] for full in by_process) / MB,
        "checkpoints": float(min(map(len, by_process))),
        "p50_ms": float(np.quantile(held_ms, 0.5)),
        "p99_ms": float(np.quantile(held_ms, 0.99)),
        "longest_ms": float(held_ms.max()),
    }


def _await_checkpoints(handle: Handle, notes: Path, processes: int, count: int) -> list[list[dict[str, float]]]:
    """Return by process what was noted of checkpoints of the full state, once there are so many of each."""
    seen, until = 0, time.monotonic() + PATIENCE_S
    while True:
        by_process = [full_state(read_notes(file)) for file in sorted(notes.iterdir())]
        if len(by_process) == processes and all(len(full) >= count for full in by_process):
            return [full[:count] for full in by_process]
        noted = sum(map(len, by_process))
        if noted != seen:
            seen, until = noted, time.monotonic() + PATIENCE_S
        if time.monotonic() > until or not handle.running:
            handle.wait(0)
            raise TimeoutError(f"no checkpoint was taken in {PATIENCE_S:.0f} s")
        time.sleep(_LOOK_S)


def read_notes(file: Path) -> list[dict[str, float]]:
    """Return what a process has noted, a line of JSON for each cut; one that is not whole yet is left out."""
    return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def full_state(samples: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Return those samples behind which all keys had come: the state has grown as far as it does."""
    largest = max((item["bytes"] for item in samples), default=0)
    return [item for item in samples if item["bytes"] >= _FULL * largest]


class WatchedKeys(ps.Source):
    """All keys from 0 on, over and over, as fast as they are taken; whoever reads it is watched meanwhile."""

    bounded = False

    def __init__(self, keys: int, partitions: int, notes: Path) -> None:
        """Note what is seen in files below ``notes``, one for each process."""
        self.keys, self.count, self.notes = keys, partitions, notes

    @property
    def schema(self) -> pa.Schema:
        """A key."""
        return pa.schema([("k", pa.int64())])

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the partitions: each has every so many-th key."""
        return [str(number) for number in range(self.count)]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        """Begin at the first key."""
        return _WatchedKeysReader(self, int(partition))


@dataclass(slots=True)
class _Notes:
    """A list of samples that is a file."""

    path: Path

    def append(self, sample: dict[str, float]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(sample) + "\n")


class _WatchedKeysReader(ps.Reader):
    def __init__(self, source: WatchedKeys, first: int) -> None:
        self._source, self._first, self._read = source, first, 0
        self._watch = ExitStack()
        self._watch.enter_context(watching(_Notes(source.notes / str(os.getpid()))))

    def read(self, max_rows: int) -> ps.Read:
        """Return the next keys."""
        source = self._source
        mine = -(-(source.keys - self._first) // source.count)
        numbers = np.arange(self._read, self._read + max_rows) % mine
        self._read += max_rows
        return ps.Read(pa.record_batch([numbers * source.count + self._first], schema=source.schema))

    def position(self) -> int:
        """Return the rows read."""
        return self._read

    def close(self) -> None:
        """Watch no more."""
        self._watch.close()
