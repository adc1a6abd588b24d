"""The arrays that kernels take: one layout for each type, large ones on huge pages."""

import math
import mmap
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

Scalar = TypeVar("Scalar", bound=np.generic)

_HUGE_PAGE_BYTES = 2 * 1024 * 1024
_HUGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE")


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


def zeros(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return zeros; a large array gets huge pages, which random access needs, and its own mapping.

    NumPy asks for huge pages only after the allocator may have touched recycled small ones.
    """
    count = shape if isinstance(shape, int) else math.prod(shape)
    size = count * np.dtype(dtype).itemsize
    if not _HUGE_PAGES or size < 2 * _HUGE_PAGE_BYTES:
        return np.zeros(shape, dtype)
    memory = mmap.mmap(-1, size + _HUGE_PAGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    mapped = np.frombuffer(memory, np.uint8)
    start = -mapped.ctypes.data % _HUGE_PAGE_BYTES
    array: NDArray[Any] = mapped[start : start + size].view(dtype).reshape(shape)
    return array


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
