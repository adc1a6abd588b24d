"""The sort keys of a row as one binary value and back, so that a bag can hold whole rows.

Called by ``extremes_updating.py``. Layout: the words of all levels, then the byte length of every text,
8 bytes each; then the texts.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.accumulators.arrays import Words
from penstock.engine.accumulators.ordering import Keys


def pack(keys: Keys) -> pa.Array:
    """Return one binary per row; equal rows give equal bytes."""
    texts = [key for key in keys if not isinstance(key, np.ndarray)]
    words = [key for key in keys if isinstance(key, np.ndarray)]
    words += [pc.binary_length(text).to_numpy(zero_copy_only=False).astype(np.int64) for text in texts]
    count, width = len(words[0]), 8 * len(words)
    bounds = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    head = np.ascontiguousarray(np.stack(words, axis=1))
    packed = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(head)])
    if not texts:
        return packed
    return pc.binary_join_element_wise(packed, *(text.cast(pa.binary()) for text in texts), b"")


def unpack(packed: pa.Array, text_types: Sequence[pa.DataType | None]) -> Keys:
    """Undo `pack` for values without nulls; ``text_types`` has one entry a level, None for
    words.
    """
    kinds = [kind for kind in text_types if kind is not None]
    starts = np.frombuffer(packed.buffers()[1], np.int32, count=len(packed), offset=4 * packed.offset).astype(np.int64)
    ends = starts + 8 * len(text_types)
    head = _slices(packed, starts, ends).buffers()[2]
    words = np.frombuffer(head, np.int64, count=len(packed) * len(text_types)).reshape(len(packed), -1)
    lengths = iter(words[:, len(text_types) - len(kinds) :].T)
    columns = iter(words.T)
    keys: Keys = []
    for kind in text_types:
        if kind is None:
            keys.append(np.ascontiguousarray(next(columns)))
        else:
            starts, ends = ends, ends + next(lengths)
            keys.append(_slices(packed, starts, ends).cast(kind))
    return keys


def _slices(packed: pa.Array, starts: Words, ends: Words) -> pa.Array:
    """Return the bytes [starts[i], ends[i]) of the data under ``packed``; they lie in ascending
    order.
    """
    count = len(starts)
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = ends
    bounds[-1] = ends[-1]
    interleaved = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), packed.buffers()[2]])
    return interleaved.take(pa.array(np.arange(0, 2 * count, 2)))
