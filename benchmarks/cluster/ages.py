"""How old rows are when they come to the sink, over time: counted in steps of age, for each tenth of a second."""

from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import penstock as ps
from penstock.model.key_groups import Owners
from penstock.state.keys.batch_keys import KeyCodec

SLOT_NS = 100_000_000
"""Rows that come within so long of each other are counted together."""

STEPS = 160
"""Ages are counted by this many steps, ten of which make a tenfold: from 0.1 ms on."""

COUNTED_ROWS = 16_384
"""Rows are counted when so many have come."""

FIRST_MS = 0.1
OTHERS, MOVED = 0, 1
"""Rows of keys that stay where they are, and of those that move."""

Counts = NDArray[np.int64]
"""int64[slots, 2, STEPS]: rows by the tenth of a second, by `OTHERS` or `MOVED`, and by their age."""


class AgesOverTime(ps.Sink):
    """Counts rows that came with their time ``due_ns`` and their key ``k``; each writer leaves a file."""

    def __init__(self, folder: Path, giver: int, owners: Owners) -> None:
        """Write below ``folder``; keys whose groups are those of ``giver`` by the table are the ones that move."""
        self._folder, self._giver, self._owners = folder, giver, owners

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> ps.Writer:
        """Begin to count."""
        return _AgesWriter(self._folder / f"{uuid4().hex}.npz", self._giver, self._owners)


class _AgesWriter(ps.Writer):
    def __init__(self, path: Path, giver: int, owners: Owners) -> None:
        self._path, self._giver, self._owners = path, giver, owners
        self._codec = KeyCodec([pa.int64()])
        self._counts: dict[int, Counts] = {}
        self._noted: list[tuple[int, pa.RecordBatch]] = []
        self._noted_rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Note rows as they stand now; what an update takes back is none."""
        self._noted.append((_now_ns(), rows))
        self._noted_rows += rows.num_rows
        if self._noted_rows >= COUNTED_ROWS:
            self._count()

    def _count(self) -> None:
        """Count what was noted, at once: an aggregate of many buckets writes a few rows at a time."""
        noted, self._noted, self._noted_rows = self._noted, [], 0
        if not noted:
            return
        rows = pa.concat_batches([batch for _, batch in noted])
        now_ns = np.repeat([at_ns for at_ns, _ in noted], [batch.num_rows for _, batch in noted])
        is_there = np.asarray(rows.column("weight")) > 0
        now_ns = now_ns[is_there]
        steps = steps_of((now_ns - rows.column("due_ns").to_numpy()[is_there]) / 1e6)
        hashes = self._codec.hash([rows.column("k")])[is_there]
        groups = ((hashes >> np.uint64(32)) * np.uint64(len(self._owners))) >> np.uint64(32)
        moves = (self._owners[groups.astype(np.int64)] == self._giver).astype(np.int64)
        slots = now_ns // SLOT_NS
        for slot in np.unique(slots).tolist():
            counts, own = self._counts.setdefault(slot, np.zeros((2, STEPS), np.int64)), slots == slot
            counts += np.bincount(moves[own] * STEPS + steps[own], minlength=2 * STEPS).reshape(2, STEPS)

    def close(self) -> None:
        """Write what was counted."""
        self._count()
        slots = sorted(self._counts)
        counts = np.array([self._counts[slot] for slot in slots]).reshape(len(slots), 2, STEPS)
        np.savez(self._path, slots=np.array(slots, np.int64), counts=counts)

    abort = close


def _now_ns() -> int:
    import time

    return time.monotonic_ns()


def steps_of(ages_ms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the step of each age."""
    steps = np.floor(10 * np.log10(np.maximum(ages_ms, FIRST_MS) / FIRST_MS)).astype(np.int64)
    return np.asarray(np.minimum(steps, STEPS - 1), np.int64)


def read_ages(folder: Path) -> tuple[NDArray[np.int64], Counts]:
    """Return the numbers of tenths of a second, ascending and without a gap, and what came in each."""
    files = [np.load(path) for path in sorted(folder.glob("*.npz"))]
    slots = np.concatenate([file["slots"] for file in files])
    first, last = int(slots.min()), int(slots.max())
    counts = np.zeros((last - first + 1, 2, STEPS), np.int64)
    for file in files:
        np.add.at(counts, file["slots"] - first, file["counts"])
    return np.arange(first, last + 1), counts


def quantile_ms(counts: NDArray[np.int64], share: float) -> float | None:
    """Return a quantile of ages that are counted by step, the middle of its step; None: there are none."""
    total = int(counts.sum())
    if not total:
        return None
    step = int(np.searchsorted(np.cumsum(counts), share * total))
    return float(FIRST_MS * 10 ** ((step + 0.5) / 10))
