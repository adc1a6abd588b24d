"""Rows that wait for the watermark: whole batches in a row log, with each row's place on an int64 axis beside them.

The axis is a time or a pane number. Adding a batch costs nothing per row but the copy of its place; used by the window
join (panes) and by `ordered_rows` (times).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.state.store import StateStore

AT = "$at"
"""The log's column that holds each row's place, so that the index can be rebuilt from the log."""

_MERGE_ROWS = 65_536

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows that wait: their ids in the log and their places, of one length."""

    ids: Ints
    at: Ints


@dataclass(frozen=True, slots=True)
class _Chunk:
    ids: Ints
    at: Ints
    low: int
    high: int


class RowChunks:
    """Rows that wait. `below` shows those whose place is below a limit; `forget_below` and `remove` let go of them."""

    def __init__(self, store: StateStore, name: str, fields: pa.Schema) -> None:
        """Open the log ``name`` of the store for rows of these fields; rows it already holds wait again."""
        self._log = store.log(name, fields.append(pa.field(AT, pa.int64(), nullable=False)))
        self._fields = fields
        self._chunks: list[_Chunk] = []
        ids = self._log.live()
        if ids.size:
            self._add_chunk(ids, self._log.take(ids, [AT]).column(0).to_numpy())

    def __len__(self) -> int:
        return sum(chunk.ids.size for chunk in self._chunks)

    def add(self, rows: pa.RecordBatch, at: Ints) -> None:
        """Keep rows of the declared fields; at[i] is the place of row i."""
        if rows.num_rows == 0:
            return
        at = np.ascontiguousarray(at)
        places = pa.Array.from_buffers(pa.int64(), at.size, [None, pa.py_buffer(at)])
        schema = self._fields.append(pa.field(AT, pa.int64(), nullable=False))
        ids = self._log.append(pa.RecordBatch.from_arrays([*rows.columns, places], schema=schema))
        self._add_chunk(ids, at)

    def first(self) -> int | None:
        """Return the smallest place, None when nothing waits."""
        return min((chunk.low for chunk in self._chunks), default=None)

    def below(self, limit: int) -> Waiting:
        """Return the rows whose place is < ``limit``, in order of arrival."""
        parts = [part for chunk in self._chunks if (part := _split(chunk, limit)[0]) is not None]
        if not parts:
            return Waiting(np.empty(0, np.int64), np.empty(0, np.int64))
        if len(parts) == 1:
            return Waiting(parts[0].ids, parts[0].at)
        return Waiting(
            np.concatenate([part.ids for part in parts]), np.concatenate([part.at for part in parts])
        )

    def forget_below(self, limit: int) -> None:
        """Let the rows whose place is < ``limit`` no longer wait; the log keeps them until `remove`."""
        self._chunks = [part for chunk in self._chunks if (part := _split(chunk, limit)[1]) is not None]

    def take(self, ids: Ints, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return these rows in this order, by default all declared columns."""
        return self._log.take(ids, self._fields.names if columns is None else columns)

    def drop_below(self, limit: int) -> None:
        """Drop the rows whose place is < ``limit``, from the log too."""
        ids = self.below(limit).ids
        self.forget_below(limit)
        self.remove(ids)

    def remove(self, ids: Ints) -> None:
        """Drop rows that no longer wait from the log."""
        if ids.size:
            self._log.remove(ids)

    def _add_chunk(self, ids: Ints, at: Ints) -> None:
        self._chunks.append(_Chunk(ids, at, int(at.min()), int(at.max())))
        # Merging neighbours of like size keeps the list short when batches are small, at a constant cost per row.
        while len(self._chunks) > 1:
            older, newer = self._chunks[-2:]
            if newer.ids.size < older.ids.size or older.ids.size + newer.ids.size > _MERGE_ROWS:
                return
            self._chunks[-2:] = [
                _Chunk(
                    np.concatenate([older.ids, newer.ids]),
                    np.concatenate([older.at, newer.at]),
                    min(older.low, newer.low),
                    max(older.high, newer.high),
                )
            ]


def _split(chunk: _Chunk, limit: int) -> tuple[_Chunk | None, _Chunk | None]:
    """Cut a chunk into what lies below the limit and what does not."""
    if chunk.high < limit:
        return chunk, None
    if chunk.low >= limit:
        return None, chunk
    below = chunk.at < limit
    return _select(chunk, below), _select(chunk, ~below)


def _select(chunk: _Chunk, rows: NDArray[np.bool_]) -> _Chunk:
    at = chunk.at[rows]
    return _Chunk(chunk.ids[rows], at, int(at.min()), int(at.max()))
