"""The arrays that kernels take: one layout for each type, large ones on huge pages."""

import math
import mmap
import threading
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

Scalar = TypeVar("Scalar", bound=np.generic)

_HUGE_PAGE_BYTES = 2 * 1024 * 1024
_HUGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE")

_FROM_RESERVE_BYTES = 1 << 18
_LINE_BYTES = 64


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return the array read-only and C-contiguous, the same memory unless it was not contiguous.

    Arrow's memory is read-only, and a kernel is compiled once for read-only and once for writable arrays: every input
    goes through here, so that there is one compilation. Absent inputs are the empty arrays below.
    """
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


class Reserve:
    """Zeros that the system has made ready before they are needed, for the large arrays that are made next.

    Memory that no process had for a while takes up to 2 ms a MB when it is first touched where machines are virtual.
    Any thread may call it.
    """

    def __init__(self) -> None:
        """Have nothing ready."""
        self._lock = threading.Lock()
        self._left = NO_BYTES

    def fill(self, size: int) -> None:
        """Have so many bytes ready, in place of what is left; other threads of the interpreter go on meanwhile."""
        memory = _mapped(size) if _HUGE_PAGES else np.empty(size, np.uint8)
        memory.fill(0)
        with self._lock:
            self._left = memory

    def clear(self) -> None:
        """Give back what is left."""
        with self._lock:
            self._left = NO_BYTES

    def take(self, size: int) -> Bytes | None:
        """Return so many bytes, None: so much is not ready."""
        if not self._left.size:
            return None
        with self._lock:
            if self._left.size < size:
                return None
            taken, self._left = self._left[:size], self._left[-(-size // _LINE_BYTES) * _LINE_BYTES :]
            return taken


def zeros(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return zeros; a large array gets huge pages, which random access needs, and its own mapping.

    NumPy asks for huge pages only after the allocator may have touched recycled small ones.
    """
    count = shape if isinstance(shape, int) else math.prod(shape)
    size = count * np.dtype(dtype).itemsize
    memory = RESERVE.take(size) if size >= _FROM_RESERVE_BYTES else None
    if memory is None:
        if not _HUGE_PAGES or size < 2 * _HUGE_PAGE_BYTES:
            return np.zeros(shape, dtype)
        memory = _mapped(size)
    array: NDArray[Any] = memory.view(dtype).reshape(shape)
    return array


def _mapped(size: int) -> Bytes:
    """Return a mapping of so many zeros on huge pages."""
    memory = mmap.mmap(-1, size + _HUGE_PAGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    mapped = np.frombuffer(memory, np.uint8)
    start = -mapped.ctypes.data % _HUGE_PAGE_BYTES
    return mapped[start : start + size]


def grown(array: NDArray[Scalar], used: int, size: int) -> NDArray[Scalar]:
    """Return an array at least ``size`` long that begins with the first ``used`` entries; twice as long, if it grows.

    Behind them it is zero where it has grown.
    """
    if len(array) >= size:
        return array
    longer = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


NO_BYTES: Bytes = read_only(np.zeros(0, np.uint8))
NO_NULLS: NDArray[np.uint32] = read_only(np.zeros(0, np.uint32))
NO_INTEGERS: Ints = read_only(np.zeros(0, np.int64))

RESERVE = Reserve()
"""That of this process."""
