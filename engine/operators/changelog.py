"""Changelogs: what changed between two results as rows of weight +1 and -1, and which rows cancel."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.engine.kernels.changes import remaining_changes
from penstock.engine.operators.ordered_rows import sort_keys
from penstock.engine.operators.pending_changes import Changes
from penstock.model.schema import WEIGHT
from penstock.state.keys.arrays import Ints, Mask, read_only
from penstock.state.keys.batch_keys import MAX_KEY_COLUMNS, KeyCodec
from penstock.state.store import Slots
from penstock.state.tables.grouping import KeyGrouper

_WEIGHT_FIELD = pa.field(WEIGHT, pa.int8(), nullable=False)


def weights_of(rows: pa.RecordBatch) -> NDArray[np.int8]:
    """Return the weights of a changelog's rows; do not write to the array."""
    column = rows.column(WEIGHT)
    if not len(column):
        return np.zeros(0, np.int8)
    return np.frombuffer(column.buffers()[1], np.int8, len(column), column.offset)


def with_weights(rows: pa.RecordBatch, weights: NDArray[np.int8]) -> pa.RecordBatch:
    """Return the rows with these weights as the last column."""
    column = pa.Array.from_buffers(pa.int8(), len(weights), [None, pa.py_buffer(weights)])
    return rows.append_column(_WEIGHT_FIELD, column)


def consolidate(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Cancel +1 and -1 of equal rows of a changelog; retractions come first in what is left.

    Weights are never added up: what remains twice is there twice. NaN equals itself and null equals null.
    """
    weights = weights_of(rows)
    if not len(weights) or weights.min() == weights.max():
        return rows
    groups, count = _number_equal(rows.columns[:-1], len(weights))
    remaining = np.empty(len(weights), np.int64)
    net = np.zeros(count, np.int64)
    left = remaining_changes(read_only(groups), read_only(weights), net, remaining)
    return rows.take(pa.array(remaining[:left]))


def changes_between(
    changes: Changes,
    alive: Mask,
    rows_of: Callable[[Slots], pa.RecordBatch],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the changelog from what slots have shown to what they show now: ``rows_of`` those that are ``alive``.

    Rows that did not change are left out. A slot's retraction comes before its insert and, if ``batch_rows`` is
    above 1, in the same batch.
    """
    step = max(1, batch_rows // 2)
    removals = int(np.searchsorted(changes.shown_at, 0))
    if removals > step or not len(changes.touched):
        for start in range(0, removals, batch_rows):
            assert changes.shown is not None
            rows = changes.shown.slice(start, min(batch_rows, removals - start))
            yield with_weights(rows, np.full(rows.num_rows, -1, np.int8))
    for start in range(0, len(changes.touched), step):
        touched = changes.touched[start : start + step]
        living = alive[start : start + step]
        first, stop = np.searchsorted(changes.shown_at, (start, start + step))
        if start == 0 and removals <= step:
            first = 0
        inserts = rows_of(touched[living])
        if changes.shown is None or first == stop:
            parts = [inserts]
            retracted = 0
        else:
            shown = changes.shown.slice(first, stop - first)
            at = changes.shown_at[first:stop] - start
            retracts, inserts = _without_unchanged(shown, at, living, inserts)
            retracted = retracts.num_rows
            parts = [retracts, inserts]
        weights = np.ones(retracted + inserts.num_rows, np.int8)
        weights[:retracted] = -1
        if not len(weights):
            continue
        whole = with_weights(pa.concat_batches(parts) if retracted else inserts, weights)
        for cut in range(0, len(weights), batch_rows):
            yield whole.slice(cut, batch_rows)


def same_values(one: pa.Array, other: pa.Array) -> Mask:
    """Return where two columns of one type have equal values; NaN equals itself and null equals null."""
    kind = one.type
    if _is_odd(kind) or pt.is_floating(kind):
        return _same_keys(sort_keys(pa.concat_arrays([one, other])), len(one))
    equal = pc.equal(one, other)
    if equal.null_count:
        both = pc.and_(one.is_null(), other.is_null())
        equal = pc.if_else(equal.is_null(), both, equal)
    mask: Mask = equal.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask


def _without_unchanged(
    shown: pa.RecordBatch,
    at: Ints,
    living: Mask,
    inserts: pa.RecordBatch,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Leave out the shown rows, and the inserts of the same places ``at`` (below 0: gone), that are equal."""
    compared = np.flatnonzero((at >= 0) & living[at])
    insert_of = (np.cumsum(living) - 1)[at[compared]]
    before, now = pa.array(compared), pa.array(insert_of)
    same = np.ones(len(compared), np.bool_)
    for old, new in zip(shown.columns, inserts.columns, strict=True):
        # Mostly a count has changed, and what stands behind it need not be looked at.
        same &= same_values(old.take(before), new.take(now))
        if not same.any():
            break
    if not same.any():
        return shown, inserts
    retracted = np.ones(shown.num_rows, np.bool_)
    retracted[compared[same]] = False
    inserted = np.ones(inserts.num_rows, np.bool_)
    inserted[insert_of[same]] = False
    return shown.filter(pa.array(retracted)), inserts.filter(pa.array(inserted))


def _same_keys(keys: Sequence[Ints], count: int) -> Mask:
    same = np.ones(count, np.bool_)
    for key in keys:
        same &= key[:count] == key[count:]
    return same


def _number_equal(columns: Sequence[pa.Array], rows: int) -> tuple[Ints, int]:
    """Number rows such that equal ones, and only those, have equal numbers: (number of each row, how many)."""
    parts = [part for column in columns for part in _as_keys(column)]
    groups = np.zeros(rows, np.int64)
    count = 1
    grouper = KeyGrouper()
    for start in range(0, len(parts), MAX_KEY_COLUMNS - 1):
        chosen = [pa.array(groups), *parts[start : start + MAX_KEY_COLUMNS - 1]]
        chosen = chosen[1:] if start == 0 else chosen
        keys = KeyCodec([part.type for part in chosen]).encode(chosen)
        groups, firsts = grouper.group(keys)
        count = len(firsts)
    return groups, count


def _as_keys(column: pa.Array) -> list[pa.Array]:
    """Return columns that can be keys and that are equal where, and only where, this one is."""
    if _is_odd(column.type):
        return [pa.array(key) for key in sort_keys(column)]
    return [column]


def _is_odd(kind: pa.DataType) -> bool:
    """Return whether neither Arrow nor a key compares values of this type."""
    return bool(pt.is_nested(kind) or pt.is_null(kind) or pt.is_interval(kind))
