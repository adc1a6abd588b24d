"""A log of whole rows in memory: record batches as they arrived, addressed by row id."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.model.errors import BugError, SchemaError
from penstock.state.kernels import rows as kernels
from penstock.state.kernels.rows import COLUMN_FIELDS, COLUMNS
from penstock.state.keys.arrays import read_only
from penstock.state.store import Locate, Positions, RowLog
from penstock.state.tables.budget import Account
from penstock.state.tables.image import ID, POSITION
from penstock.state.tables.row_gather import column_addresses, gather

Ids = NDArray[np.int64]

# Chunks at the end that are smaller than a tier become one when there are so many: each row is copied a few times.
_RUN_CHUNKS = 8
_TIERS_ROWS = (64, 512, 4_096)
# Removals leave small chunks anywhere; with too many of them neighbours are merged up to this size.
_MERGED_ROWS = 65_536
_SPARE_CHUNKS = 64
# Neighbours up to this size are dumped as one: a batch of its own takes longer to read than so many rows.
_DUMPED_ROWS = 16_384
# Removing so few ranges of ids cuts chunks instead of marking rows.
_FEW_RANGES = 16
# A batch that keeps this much more memory alive than it needs (a slice of a larger one) is copied.
_TOLERATED_BYTES = 65_536


@dataclass(slots=True)
class _Chunk:
    """Rows with ascending ids: ``first`` and those behind it, or ``ids``. ``alive`` is None while all are kept."""

    rows: pa.RecordBatch
    first: int
    ids: Ids | None = None
    alive: NDArray[np.bool_] | None = None
    positions: Positions | None = None

    @property
    def bytes(self) -> int:
        beside = 0 if self.positions is None else self.positions.nbytes
        return int(self.rows.get_total_buffer_size()) + beside

    def entry(self) -> list[int]:
        ids = 0 if self.ids is None else self.ids.ctypes.data
        alive = 0 if self.alive is None else self.alive.ctypes.data
        return [self.first, self.rows.num_rows, ids, alive, *column_addresses(self.rows)]

    def last(self) -> int:
        return self.first + self.rows.num_rows - 1 if self.ids is None else int(self.ids[-1])

    def live_ids(self) -> Ids:
        ids = self.ids
        if ids is None:
            ids = np.arange(self.first, self.first + self.rows.num_rows, dtype=np.int64)
        return ids if self.alive is None else ids[self.alive]

    def live_rows(self) -> pa.RecordBatch:
        return self.rows if self.alive is None else self.rows.filter(pa.array(self.alive))

    def live_positions(self) -> Positions | None:
        if self.positions is None or self.alive is None:
            return self.positions
        return self.positions[self.alive]

    def live_count(self) -> int:
        return self.rows.num_rows if self.alive is None else int(np.count_nonzero(self.alive))


class MemoryRowLog(RowLog):
    """Rows of one schema. Small chunks are merged; a chunk of which over half is gone is packed."""

    def __init__(self, schema: pa.Schema, account: Account, locate: Locate | None = None) -> None:
        self.schema = schema
        self._locate = locate
        self._account = account
        self._chunks: list[_Chunk] = []
        self._entries = np.zeros((_RUN_CHUNKS, COLUMNS + COLUMN_FIELDS * len(schema)), np.int64)
        self._next = 0
        self._live = 0

    def append(self, rows: pa.RecordBatch, positions: Positions | None = None) -> Ids:
        """Store rows and return their ids, consecutive and ascending.

        Raises:
            SchemaError: the rows have another schema.
            StateBudgetError: no room; then nothing was stored.
        """
        if not rows.schema.equals(self.schema):
            raise SchemaError(f"a log of rows ({self.schema}) was given others ({rows.schema}).")
        ids = np.arange(self._next, self._next + rows.num_rows, dtype=np.int64)
        if rows.num_rows:
            chunk = _Chunk(_unshared(rows), self._next, positions=None if self._locate else positions)
            self._account.charge(chunk.bytes)
            self._replace(len(self._chunks), [chunk])
            self._next += rows.num_rows
            self._live += rows.num_rows
            for tier in _TIERS_ROWS:
                self._merge_run(tier)
        return ids

    def take(self, ids: Ids, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return these rows, in this order, repeats allowed; every id must be live."""
        names = list(self.schema.names if columns is None else columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        if len(ids) == 0:
            return pa.RecordBatch.from_pylist([], schema=schema)
        chunks, rows = self._find(ids)
        if chunks[0] == chunks[-1] and _consecutive(rows) and (chunks == chunks[0]).all():
            batch = self._chunks[chunks[0]].rows.slice(rows[0], len(rows))
            arrays = [batch.column(name) for name in names]
        else:
            indices = [self.schema.get_field_index(name) for name in names]
            batches = [chunk.rows for chunk in self._chunks]
            arrays = gather(batches, self._entries[: len(batches)], chunks, rows, indices)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def remove(self, ids: Ids) -> None:
        """Remove rows, each given once; a chunk goes with its last row and is packed when over half of it is gone."""
        if len(ids) == 0 or self._cut(ids):
            return
        chunks, rows = self._find(ids)
        order = np.argsort(chunks, kind="stable")
        bounds = np.flatnonzero(np.diff(chunks[order])) + 1
        for positions in np.split(order, bounds):
            _forget(self._chunks[chunks[positions[0]]], rows[positions])
        self._live -= len(ids)
        chunks_left = []
        for chunk in self._chunks:
            live = chunk.live_count()
            if 2 * live >= chunk.rows.num_rows:
                chunks_left.append(chunk)
            elif live:
                chunks_left.append(self._merged([chunk]))
            else:
                self._account.charge(-chunk.bytes)
        if len(chunks_left) > 2 * (self._live // _MERGED_ROWS) + _SPARE_CHUNKS:
            chunks_left = [self._merged(run) if len(run) > 1 else run[0] for run in _runs(chunks_left, _MERGED_ROWS)]
        self._replace(0, chunks_left)

    def live(self) -> Ids:
        """Return the ids of all rows kept, ascending."""
        parts = [chunk.live_ids() for chunk in self._chunks]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def dump(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows with their ids and positions, neighbouring small chunks as one."""
        if not self._chunks:
            schema = self._dumped()
            yield pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        yield from self.dump_from(0)

    def dump_from(self, first: int) -> Iterator[pa.RecordBatch]:
        """Yield, as `dump` does, the rows from this id on; nothing if there are none."""
        schema = self._dumped()
        for run in _runs([chunk for chunk in self._chunks if chunk.last() >= first], _DUMPED_ROWS):
            rows, ids, positions = _together(run)
            start = int(np.searchsorted(ids, first))
            rows = rows.slice(start)
            if rows.num_rows:
                if self._locate is not None:
                    located = self._locate(rows)
                else:
                    located = np.zeros(rows.num_rows, np.uint32) if positions is None else positions[start:]
                columns = [pa.array(ids[start:]), pa.array(located), *rows.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def rows(self) -> int:
        """Return the number of rows kept."""
        return self._live

    def has_gaps(self) -> bool:
        """Return whether the ids of the rows are not 0 and on, each once."""
        return self._live != self._next

    def bytes_used(self) -> int:
        """Return the bytes held."""
        return self._account.used_bytes

    def _dumped(self) -> pa.Schema:
        return pa.schema([pa.field(ID, pa.int64()), pa.field(POSITION, pa.uint32()), *self.schema])

    def _cut(self, ids: Ids) -> bool:
        """Remove ids that form a few ascending ranges by cutting chunks; return whether that was possible."""
        breaks = np.flatnonzero(np.diff(ids) != 1) + 1
        if len(breaks) >= _FEW_RANGES:
            return False
        starts = ids[np.concatenate([[0], breaks])]
        ends = ids[np.concatenate([breaks - 1, [len(ids) - 1]])] + 1
        if (starts[1:] < ends[:-1]).any():
            return False
        chunks_left: list[_Chunk] = []
        removed_rows = 0
        for chunk in self._chunks:
            pieces = _pieces(chunk, starts, ends)
            if pieces is None:
                return False
            chunks_left.extend(pieces)
            removed_rows += chunk.rows.num_rows - sum(piece.rows.num_rows for piece in pieces)
        if removed_rows != len(ids):
            raise BugError(f"{len(ids) - removed_rows} rows were removed that are not kept.")
        self._account.charge(sum(chunk.bytes for chunk in chunks_left) - sum(chunk.bytes for chunk in self._chunks))
        self._live -= removed_rows
        self._replace(0, chunks_left)
        return True

    def _find(self, ids: Ids) -> tuple[Ids, Ids]:
        """Return the chunk of each id and its row there."""
        chunks, rows = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
        failed = 0
        if self._chunks:
            entries = read_only(self._entries[: len(self._chunks)])
            failed = kernels.find_rows(read_only(ids), entries, chunks, rows)
        if failed >= 0:
            raise BugError(f"row {ids[failed]} was asked for but is not kept.")
        return chunks, rows

    def _merge_run(self, tier_rows: int) -> None:
        start = len(self._chunks)
        while start and self._chunks[start - 1].rows.num_rows < tier_rows:
            start -= 1
        if len(self._chunks) - start >= _RUN_CHUNKS:
            self._replace(start, [self._merged(self._chunks[start:])])

    def _merged(self, chunks: list[_Chunk]) -> _Chunk:
        """Return the live rows of neighbouring chunks as one chunk, which is charged in their place."""
        rows, ids, positions = _together(chunks)
        merged = _Chunk(rows, int(ids[0]), None if _consecutive(ids) else ids, positions=positions)
        self._account.charge(merged.bytes - sum(chunk.bytes for chunk in chunks))
        return merged

    def _replace(self, start: int, chunks: list[_Chunk]) -> None:
        """Put these chunks in the place of all from `start` on."""
        self._chunks[start:] = chunks
        end = len(self._chunks)
        if end > len(self._entries):
            entries = np.zeros((2 * end, self._entries.shape[1]), np.int64)
            entries[:start] = self._entries[:start]
            self._entries = entries
        for index in range(start, end):
            self._entries[index] = self._chunks[index].entry()


def _pieces(chunk: _Chunk, starts: Ids, ends: Ids) -> list[_Chunk] | None:
    """Return the rest of a chunk without the ranges: itself, one piece, nothing, or None in all other cases."""
    first, end = chunk.first, chunk.first + chunk.rows.num_rows
    if chunk.ids is not None or chunk.alive is not None:
        # Ids of a packed chunk lie anywhere behind its first.
        last = int(chunk.ids[-1]) if chunk.ids is not None else end - 1
        return [chunk] if bool(((ends <= first) | (starts > last)).all()) else None
    touched = np.flatnonzero((starts < end) & (ends > first))
    if not len(touched):
        return [chunk]
    if len(touched) > 1:
        return None
    cut_from, cut_to = max(first, int(starts[touched[0]])), min(end, int(ends[touched[0]]))
    if cut_from > first and cut_to < end:
        return None
    kept_from, kept_to = (cut_to, end) if cut_from == first else (first, cut_from)
    if kept_from == kept_to:
        return []
    remaining = slice(kept_from - first, kept_to - first)
    positions = None if chunk.positions is None else chunk.positions[remaining]
    return [_Chunk(_unshared(chunk.rows.slice(remaining.start, kept_to - kept_from)), kept_from, positions=positions)]


def _forget(chunk: _Chunk, rows: Ids) -> None:
    if chunk.alive is None:
        chunk.alive = np.ones(chunk.rows.num_rows, np.bool_)
    rows_left = np.count_nonzero(chunk.alive) - len(rows)
    chunk.alive[rows] = False
    if np.count_nonzero(chunk.alive) != rows_left:
        raise BugError("a row was removed twice in one call.")


def _runs(chunks: list[_Chunk], most_rows: int) -> list[list[_Chunk]]:
    """Split chunks into runs of neighbours that together have so many rows at most, or of one."""
    runs: list[list[_Chunk]] = []
    size = most_rows
    for chunk in chunks:
        live = chunk.live_count()
        if size + live > most_rows:
            runs.append([])
            size = 0
        runs[-1].append(chunk)
        size += live
    return runs


def _together(chunks: list[_Chunk]) -> tuple[pa.RecordBatch, Ids, Positions | None]:
    """Return the live rows of neighbouring chunks, their ids, and their positions if some are known.

    Rows without a key have the position 0 after a load, and none before.
    """
    live = [chunk.live_rows() for chunk in chunks]
    rows = live[0] if len(live) == 1 else pa.concat_batches(live)
    chunk_positions = [chunk.live_positions() for chunk in chunks]
    positions = None
    if any(part is not None for part in chunk_positions):
        blank = [np.zeros(part.num_rows, np.uint32) for part in live]
        positions = np.concatenate(
            [zero if part is None else part for part, zero in zip(chunk_positions, blank, strict=True)]
        )
    return rows, np.concatenate([chunk.live_ids() for chunk in chunks]), positions


def _unshared(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Copy rows that would keep much more memory alive than they need."""
    held_bytes = rows.get_total_buffer_size()
    if held_bytes <= _TOLERATED_BYTES or held_bytes <= 2 * rows.nbytes:
        return rows
    return rows.take(pa.array(np.arange(rows.num_rows)))


def _consecutive(ids: Ids) -> bool:
    return bool(ids[-1] - ids[0] == len(ids) - 1 and (np.diff(ids) == 1).all())
