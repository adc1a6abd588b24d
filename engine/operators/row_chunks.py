"""Rows that wait for the watermark: whole batches in a row log, with each row's place on an int64 axis beside them.

The axis is a time or a pane number. Adding a batch costs next to nothing per row; used by the window join (panes) and
by `ordered_rows` (times).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.state.keys.arrays import Ints, Mask
from penstock.state.store import Locate, StateStore

_AT = pa.field("$at", pa.int64(), nullable=False)
_MERGE_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Rows that wait, in order of arrival: ids in the log, places, and the words kept beside them (else empty)."""

    ids: Ints
    at: Ints
    words: Ints

    @classmethod
    def concat(cls, parts: Sequence["ChunkRows"]) -> "ChunkRows":
        """Return the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        none = [np.empty(0, np.int64)]
        columns = zip(*((part.ids, part.at, part.words) for part in parts), strict=True) if parts else (none,) * 3
        return cls(*(np.concatenate(column) for column in columns))

    def take(self, rows: Ints | slice | Mask) -> "ChunkRows":
        """Return these rows."""
        return ChunkRows(self.ids[rows], self.at[rows], self.words[rows] if self.words.size else self.words)

    def in_order(self) -> "ChunkRows":
        """Return the rows by their places, those of one place in order of arrival."""
        if bool((self.at[1:] >= self.at[:-1]).all()):
            return self
        return self.take(np.argsort(self.at, kind="stable"))


@dataclass(frozen=True, slots=True)
class _Chunk:
    rows: ChunkRows
    low: int
    high: int
    ascending: bool


class RowChunks:
    """Rows that wait. `below` shows those whose place is below a limit; `forget_below` and `remove` let go of them."""

    def __init__(
        self,
        store: StateStore,
        name: str,
        fields: pa.Schema,
        words: Callable[[pa.RecordBatch], Ints] | None = None,
        locate: Locate | None = None,
    ) -> None:
        """Open the log ``name`` of the store for rows of these fields; rows it already holds wait again.

        ``words`` computes from rows what is to be kept beside them, one word a row. ``locate`` says where the keys of
        rows lie (None: they have no key), for a dump only.
        """
        self._fields = fields
        self._words = words
        self._log_fields = fields.append(_AT)
        self._log = store.log(name, self._log_fields, locate)
        self._chunks: list[_Chunk] = []
        live = self._log.live()
        for start in range(0, live.size, _MERGE_ROWS):
            ids = live[start : start + _MERGE_ROWS]
            rows = self._log.take(ids)
            self._add_chunk(self._beside(ids, rows.select(fields.names), rows.column(_AT.name).to_numpy()))

    def __len__(self) -> int:
        return sum(chunk.rows.ids.size for chunk in self._chunks)

    def add(self, rows: pa.RecordBatch, at: Ints) -> None:
        """Keep rows of the declared fields; at[i] is the place of row i."""
        if rows.num_rows == 0:
            return
        at = np.ascontiguousarray(at)
        places = pa.Array.from_buffers(pa.int64(), at.size, [None, pa.py_buffer(at)])
        ids = self._log.append(pa.RecordBatch.from_arrays([*rows.columns, places], schema=self._log_fields))
        self._add_chunk(self._beside(ids, rows, at))

    def first(self) -> int | None:
        """Return the smallest place at which a row waits, None if none does."""
        return min((chunk.low for chunk in self._chunks), default=None)

    def below(self, limit: int) -> list[ChunkRows]:
        """Return the rows whose place is < ``limit``, in parts."""
        return [part.rows for chunk in self._chunks if (part := _split(chunk, limit)[0]) is not None]

    def forget_below(self, limit: int) -> None:
        """Let the rows whose place is < ``limit`` no longer wait; the log keeps them until `remove`."""
        self._chunks = [part for chunk in self._chunks if (part := _split(chunk, limit)[1]) is not None]

    def drop_below(self, limit: int) -> None:
        """Drop the rows whose place is < ``limit``, from the log too."""
        ids = [part.ids for part in self.below(limit)]
        self.forget_below(limit)
        if ids:
            self.remove(ids[0] if len(ids) == 1 else np.concatenate(ids))

    def take(self, ids: Ints, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return these rows in this order, by default all declared columns."""
        return self._log.take(ids, self._fields.names if columns is None else columns)

    def remove(self, ids: Ints) -> None:
        """Drop rows that no longer wait from the log."""
        if ids.size:
            self._log.remove(ids)

    def _beside(self, ids: Ints, rows: pa.RecordBatch, at: Ints) -> ChunkRows:
        return ChunkRows(ids, at, np.empty(0, np.int64) if self._words is None else self._words(rows))

    def _add_chunk(self, rows: ChunkRows) -> None:
        self._chunks.append(_chunk(rows))
        # Merging neighbours of like size keeps the list short when batches are small, at a constant cost per row.
        while len(self._chunks) > 1:
            older, newer = (chunk.rows for chunk in self._chunks[-2:])
            if newer.ids.size < older.ids.size or older.ids.size + newer.ids.size > _MERGE_ROWS:
                return
            self._chunks[-2:] = [_chunk(ChunkRows.concat((older, newer)))]


def _chunk(rows: ChunkRows) -> _Chunk:
    at = rows.at
    if bool((at[1:] >= at[:-1]).all()):
        return _Chunk(rows, int(at[0]), int(at[-1]), True)
    return _Chunk(rows, int(at.min()), int(at.max()), False)


def _split(chunk: _Chunk, limit: int) -> tuple[_Chunk | None, _Chunk | None]:
    """Cut a chunk into what lies below the limit and what does not."""
    if chunk.high < limit:
        return chunk, None
    if chunk.low >= limit:
        return None, chunk
    if chunk.ascending:
        cut = int(np.searchsorted(chunk.rows.at, limit))
        return _select(chunk, slice(0, cut)), _select(chunk, slice(cut, None))
    below = chunk.rows.at < limit
    return _select(chunk, below), _select(chunk, ~below)


def _select(chunk: _Chunk, rows: slice | Mask) -> _Chunk:
    kept = chunk.rows.take(rows)
    if chunk.ascending:
        return _Chunk(kept, int(kept.at[0]), int(kept.at[-1]), True)
    return _Chunk(kept, int(kept.at.min()), int(kept.at.max()), False)
