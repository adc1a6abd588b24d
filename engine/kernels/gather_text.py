"""Text looked up in a table. Called where dictionaries are decoded and by the Nexmark generator."""

import numpy as np

from penstock.engine.kernels.copy_bytes import copy_bytes
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints


@jit
def gather_text(codes: Ints, table_offsets: Ints, table: Bytes) -> tuple[Ints, Bytes]:
    """Return (offsets, data) of the strings of a table at ``codes``, each in [0, len(table_offsets) - 1)."""
    offsets = np.empty(codes.size + 1, np.int64)
    end = 0
    for i in range(codes.size):
        offsets[i] = end
        end += table_offsets[codes[i] + 1] - table_offsets[codes[i]]
    offsets[codes.size] = end
    data = np.empty(end, np.uint8)
    for i in range(codes.size):
        source = table_offsets[codes[i]]
        at = offsets[i]
        copy_bytes(data, at, table, source, offsets[i + 1] - at)
    return offsets, data
