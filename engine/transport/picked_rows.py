"""Rows picked from several batches, put together in one step: what an input gate makes of the shares that wait."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import read_only

Picks = NDArray[np.int32]

Part = tuple[pa.RecordBatch, Picks | None]
"""Rows, and the numbers of those that are meant (None: all)."""


def put_together(parts: Sequence[Part]) -> pa.RecordBatch:
    """Return the rows of all parts, one part after the other; each value is copied once."""
    first, picks = parts[0]
    if len(parts) == 1:
        return first if picks is None else pc.take(first, pa.array(picks), boundscheck=False)
    counts = [rows.num_rows if picks is None else picks.size for rows, picks in parts]
    columns = [_column(parts, counts, place) for place in range(first.num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=first.schema)


def _column(parts: Sequence[Part], counts: Sequence[int], place: int) -> pa.Array:
    pieces = [rows.column(place) for rows, _ in parts]
    kind = pieces[0].type
    if not _is_word(kind) or any(piece.null_count for piece in pieces):
        taken = [
            piece if picks is None else pc.take(piece, pa.array(picks), boundscheck=False)
            for piece, (_, picks) in zip(pieces, parts, strict=True)
        ]
        return pa.concat_arrays(taken)
    words = np.empty(sum(counts), np.int64)
    at = 0
    for piece, (_, picks), count in zip(pieces, parts, counts, strict=True):
        source = np.frombuffer(piece.buffers()[1], np.int64)[piece.offset : piece.offset + len(piece)]
        if picks is None:
            words[at : at + count] = source
        else:
            pick(read_only(source), read_only(picks), words[at : at + count])
        at += count
    return pa.Array.from_buffers(kind, words.size, [None, pa.py_buffer(words)])


def _is_word(kind: pa.DataType) -> bool:
    """Return whether values are 8 bytes each."""
    return bool(pt.is_primitive(kind) and kind.bit_width == 64)


@jit
def pick(source: NDArray[np.signedinteger], picks: Picks, target: NDArray[np.signedinteger]) -> None:
    """Write the picked values of the source to the target, whatever integers they are."""
    for i in range(picks.size):
        target[i] = source[np.uint32(picks[i])]
