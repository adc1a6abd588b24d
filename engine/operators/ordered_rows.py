"""Rows in event-time order: what reduce and count windows wait for before they fold (docs/design/data-path.md 3).

Ties are decided by a total order over the row's own columns, never by arrival.
"""

from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.accumulators.ordering import SortColumn, is_ordered, is_text
from penstock.engine.core.contract import LATE, Emission, RowCounters
from penstock.engine.core.elements import Batch
from penstock.engine.kernels.order import mark_ties
from penstock.engine.operators.row_chunks import ChunkRows, RowChunks
from penstock.state.keys.arrays import Ints, read_only
from penstock.state.store import Locate, StateStore


class OrderedRows:
    """A buffer that gives rows back in the order of event time."""

    def __init__(self, store: StateStore, name: str, fields: pa.Schema, locate: Locate | None = None) -> None:
        """Open the log ``name`` for rows of these fields, located by ``locate``; rows it already holds wait again."""
        self._waiting = RowChunks(store, name, fields, locate=locate)

    def __len__(self) -> int:
        return len(self._waiting)

    def due_us(self) -> int | None:
        """Return the least ``before_us`` for which `release` has rows, None if none wait."""
        first_us = self._waiting.first()
        return None if first_us is None else first_us + 1

    def add(self, rows: pa.RecordBatch, times_us: Ints) -> None:
        """Let rows wait until their times have been passed."""
        self._waiting.add(rows, times_us)

    def admit(self, batch: Batch, times_us: Ints, passed_us: int, counters: RowCounters) -> Iterator[Emission]:
        """Let the rows with event time >= ``passed_us`` wait and emit the others as late; count all of them."""
        rows, times_us = yield from without_late(batch, times_us, passed_us, counters)
        counters.folded += rows.num_rows
        self.add(rows, times_us)

    def release(self, before_us: int, rows_at_once: int) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield the rows with event time < ``before_us`` and their times, in order of time, and drop them.

        About ``rows_at_once`` come at a time; rows of one time always come together. What order they have among
        themselves is for `tie_order` to say, once their keys are known.
        """
        waiting = ChunkRows.concat(self._waiting.below(before_us)).in_order()
        self._waiting.forget_below(before_us)
        ids, times_us = waiting.ids, waiting.at
        start = 0
        while start < ids.size:
            last = min(start + rows_at_once, ids.size) - 1
            stop = int(np.searchsorted(times_us, times_us[last], side="right"))
            rows = self._waiting.take(ids[start:stop])
            self._waiting.remove(ids[start:stop])
            yield rows, times_us[start:stop]
            start = stop


def without_late(
    batch: Batch, times_us: Ints, passed_us: int, counters: RowCounters, output: str = LATE
) -> Generator[Emission, None, tuple[pa.RecordBatch, Ints]]:
    """Return the rows whose event time is >= ``passed_us``, with their times; count and emit the others as late."""
    late = times_us < passed_us
    if not late.any():
        return batch.rows, times_us
    late_rows = batch.rows.filter(pa.array(late))
    counters.late += late_rows.num_rows
    yield output, batch.with_rows(late_rows)
    return batch.rows.filter(pa.array(~late)), times_us[~late]


def tie_order(rows: pa.RecordBatch, times_us: Ints, groups: Ints, group_count: int) -> Ints | None:
    """Return the permutation that sorts rows of one time and group by their columns; None: they are in order.

    ``times_us`` ascends and ``groups`` are in [0, group_count). Rows without such a twin keep their place.
    """
    tied = mark_ties(read_only(times_us), read_only(groups), group_count)
    return break_ties(rows, np.flatnonzero(tied), times_us, groups) if tied.any() else None


def break_ties(rows: pa.RecordBatch, tied: Ints, times_us: Ints, groups: Ints) -> Ints:
    """Return a permutation of the rows that sorts those of equal (time, group) among themselves by their columns.

    ``tied`` lists the rows that have an equal, ascending; all others keep their place, and so does each tie.
    """
    positions = tied[np.lexsort((groups[tied], times_us[tied]))]
    tie = _numbered([times_us[positions], groups[positions]])
    chosen = positions.copy()
    open_ = np.arange(tied.size)
    for column in rows.columns:
        keys = sort_keys(column.take(pa.array(chosen[open_])))
        order = np.lexsort((*reversed(keys), tie[open_]))
        chosen[open_] = chosen[open_][order]
        tie[open_] = _numbered([tie[open_], *(key[order] for key in keys)])
        # Each tie's rows are neighbours, so a row is settled once it differs from both.
        differs = np.diff(tie[open_]) != 0
        open_ = open_[~(np.append(True, differs) & np.append(differs, True))]
        if not open_.size:
            break
    permutation = np.arange(rows.num_rows)
    permutation[positions] = chosen
    return permutation


def sort_keys(column: pa.Array) -> list[Ints]:
    """Return arrays whose lexicographic order, first array first, is a total order of the column's values.

    Equal values get equal keys; nulls come first. Values of types without an order of their own (lists, maps) are
    compared element by element, structs field by field.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return []
    if pa.types.is_dictionary(kind):
        return sort_keys(column.dictionary_decode())
    if pa.types.is_struct(kind):
        # `flatten` hands the struct's own nulls down to its fields.
        return [_validity(column), *(key for child in column.flatten() for key in sort_keys(child))]
    if pa.types.is_nested(kind):
        return [_validity(column), _rank(_encode_lists(column))]
    if is_ordered(kind) and not is_text(kind):
        words = [np.asarray(key) for key in SortColumn(kind).keys(column)]
    elif pa.types.is_interval(kind):
        raw = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :][: 2 * len(column)]
        words = [raw[::2], raw[1::2]]
    else:
        words = [_rank(column)]
    if not column.null_count:
        return words
    valid = _validity(column)
    return [valid, *(np.where(valid, word, 0) for word in words)]


def _validity(column: pa.Array) -> Ints:
    valid: Ints = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return valid


def _rank(column: pa.Array) -> Ints:
    ranks = pc.rank(column, tiebreaker="dense")
    words: Ints = ranks.to_numpy(zero_copy_only=False).astype(np.int64)
    return words


def _encode_lists(column: pa.Array) -> pa.Array:
    """Write each list as bytes that sort like its elements: their ranks, big endian."""
    elements, lengths = list_elements(column)
    keys = sort_keys(elements)
    count = int(lengths.sum())
    ranks = np.zeros(count, np.int64)
    if keys:
        order = np.lexsort(tuple(reversed(keys)))
        ranks[order] = _numbered([key[order] for key in keys])
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int64) * 8
    data = ranks.astype(">i8")
    return pa.Array.from_buffers(pa.large_binary(), len(column), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def list_elements(column: pa.Array) -> tuple[pa.Array, Ints]:
    """Return the elements of all lists of a column, one behind the other, and how many each has; null has none.

    The elements of a map are structs of key and value.
    """
    kind = column.type
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return column.flatten(), lengths.astype(np.int64, copy=False)


def _numbered(keys: list[Ints]) -> Ints:
    """Number rows sorted by ``keys`` from 0 on, equal rows alike."""
    changes = np.zeros(keys[0].size, np.int64)
    for key in keys:
        changes[1:] |= np.diff(key) != 0
    return np.cumsum(changes)
