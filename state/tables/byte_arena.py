"""Byte strings one after another in one array, packed again when half of it is garbage."""

import numpy as np
from numpy.typing import NDArray

from penstock.state.keys.arrays import zeros
from penstock.state.keys.batch_keys import gather_bytes
from penstock.state.tables.budget import Account
from penstock.state.tables.index_kernels import GARBAGE, USED

_SMALLEST_BYTES = 1_024
_OWN_MAPPING_BYTES = 4 << 20


class ByteArena:
    """Bytes addressed by (start, length); whoever owns the addresses keeps them and packs.

    ``usage`` is int64[2]: bytes given out from the front of ``data``, and how many of them are garbage. Kernels write
    both; everything else goes through the methods.
    """

    def __init__(self, account: Account) -> None:
        self.data = np.zeros(0, np.uint8)
        self.usage = np.zeros(2, np.int64)
        self._account = account

    @property
    def room(self) -> int:
        """Bytes that can still be given out."""
        return len(self.data) - int(self.usage[USED])

    @property
    def worth_packing(self) -> bool:
        """Whether half of the bytes given out are garbage."""
        used = int(self.usage[USED])
        return used >= _SMALLEST_BYTES and 2 * int(self.usage[GARBAGE]) >= used

    def reserve(self, extra_bytes: int) -> None:
        """Make room for that many bytes behind those given out."""
        needed = int(self.usage[USED]) + extra_bytes
        if needed > len(self.data):
            self._resize(max(needed, 2 * len(self.data), _SMALLEST_BYTES))

    def pack(self, starts: NDArray[np.int64], lengths: NDArray[np.int64], extra_bytes: int = 0) -> NDArray[np.int64]:
        """Keep only these byte strings, with room for `extra_bytes` more; return their new starts."""
        data, offsets = gather_bytes(self.data, starts, lengths)
        self.usage[:] = offsets[-1], 0
        size = max(2 * len(data), len(data) + extra_bytes, _SMALLEST_BYTES)
        if size <= len(self.data) <= 2 * size:
            # Fresh memory costs more than writing to it.
            self.data[: len(data)] = data
        else:
            self._resize(size, data)
        return offsets[:-1]

    def discard(self, bytes_: int) -> None:
        """Count that many of the allocated bytes as garbage."""
        self.usage[GARBAGE] += bytes_

    def clear(self) -> None:
        """Remove everything; the memory stays allocated for reuse."""
        self.usage[:] = 0

    def _resize(self, size: int, content: NDArray[np.uint8] | None = None) -> None:
        content = self.data[: self.usage[USED]] if content is None else content
        self._account.charge(size - len(self.data))
        # A large one's own mapping goes back to the system with it; the allocator would keep and splinter it.
        self.data = np.empty(size, np.uint8) if size < _OWN_MAPPING_BYTES else zeros(size, np.uint8)
        self.data[: len(content)] = content
