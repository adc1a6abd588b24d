"""Checksums of a group's rows: zero once every insert has met its retraction, and only then may it be forgotten.

A row count of zero does not say so: a retraction may have come before its own insert and met another row's.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.engine.kernels.accumulate import add_deltas
from penstock.engine.operators.ordered_rows import list_elements
from penstock.state.kernels import byte_strings as kernels
from penstock.state.keys.arrays import Ints, read_only
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import INTEGER, ColumnSpec, KeyedTable, Slots

CHECKSUM = "checksum"
"""The sum of weight * hash of all rows of a group, modulo 2**64; zero for no rows and practically nothing else."""

CHECKSUM_COLUMN: ColumnSpec = INTEGER

Hashes = NDArray[np.uint64]


def add_to_checksums(
    table: KeyedTable,
    slots: Slots,
    columns: Sequence[pa.Array],
    times_us: Ints | None,
    weights: NDArray[np.int8],
) -> None:
    """Fold rows, given by everything that aggregates see of them, into the checksums of their slots (all >= 0)."""
    hashes = np.full(len(slots), kernels.mix(np.uint64(1)))
    for column in columns:
        kernels.fold_hashes(hashes, read_only(_hash(column)))
    if times_us is not None:
        kernels.fold_hashes(hashes, read_only(times_us).view(np.uint64))
    add_deltas(read_only(slots), read_only(hashes.view(np.int64) * weights), table.array(CHECKSUM))


def _hash(column: pa.Array) -> Hashes:
    """Hash values of any type; equal values have equal hashes in every batch."""
    kind = column.type
    if pt.is_null(kind):
        return np.full(len(column), kernels.NULL_HASH)
    if not pt.is_nested(kind):
        return KeyCodec([kind]).hash([column])
    if pt.is_struct(kind):
        hashes = np.full(len(column), kernels.mix(np.uint64(kind.num_fields)))
        for child in column.flatten():
            kernels.fold_hashes(hashes, read_only(_hash(child)))
    else:
        hashes = _hash_lists(column)
    hashes[column.is_null().to_numpy(zero_copy_only=False)] = kernels.NULL_HASH
    return hashes


def _hash_lists(column: pa.Array) -> Hashes:
    values, lengths = list_elements(column)
    ends = np.cumsum(lengths)
    elements = (np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)).view(np.uint64)
    kernels.fold_hashes(elements, read_only(_hash(values)))
    totals = np.append(np.uint64(0), np.cumsum(elements))
    hashes: Hashes = lengths.astype(np.uint64)
    kernels.fold_hashes(hashes, read_only(totals[ends] - totals[ends - lengths]))
    return hashes
