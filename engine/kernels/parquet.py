"""Compiled loops over Parquet pages: headers, levels, dictionary indices and text. Called by `parquet_chunk`.

Every loop checks the bounds of what it reads and writes, because files may be damaged; -1 means that one is.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.copy_bytes import copy_bytes
from penstock.state.intrinsics import address, inlined, load64
from penstock.state.jit import jit

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Indices = NDArray[np.int32]

KIND, SIZE, PACKED_SIZE, VALUES, ENCODING, LEVEL_BYTES, PACKED = range(7)
"""What `read_header` finds out about a page.

Its kind (0 data, 2 dictionary, 3 data of version 2), its bytes before and after compression (the header not counted),
values, encoding, the bytes of levels that stand uncompressed before the data (version 2 only), and whether the data is
compressed.
"""

HEADER_FIELDS = 7

_MOST_GROUPS = 1 << 32


@inlined
def _varint(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned number of up to 63 bits and where the next byte is; -1 for a number that does not end."""
    value = 0
    shift = 0
    while at < end and shift < 63:
        byte = np.int64(source[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, -1


@inlined
def _skip_value(source: Bytes, at: int, end: int, kind: int) -> int:
    """Return where a thrift value that is no struct ends; -1 if it does not or is a collection."""
    if kind == 1 or kind == 2:
        return at
    if kind == 3:
        return at + 1
    if kind == 7:
        return at + 8
    if kind in (4, 5, 6):
        return _varint(source, at, end)[1]
    if kind == 8:
        size, at = _varint(source, at, end)
        return at + size if at >= 0 and size <= end - at else -1
    return -1


@jit
def read_header(source: Bytes, end: int, page: Ints) -> int:
    """Read the page header at the beginning of ``source[:end]`` into ``page``; return where it ends.

    Returns -1 if it is not understood or does not end before ``end``.
    """
    page[:] = 0
    page[PACKED] = 1
    at = 0
    # The ids of the last field at each depth; field 5, 7 or 8 of the header holds what depends on the kind.
    outer = 0
    last = 0
    depth = 0
    while True:
        if at >= end:
            return -1
        head = np.int64(source[at])
        at += 1
        kind = head & 15
        if kind == 0:
            if depth == 0:
                break
            depth -= 1
            last = outer
            continue
        if head >> 4:
            field = last + (head >> 4)
        else:
            field, at = _varint(source, at, end)
            if at < 0:
                return -1
            field = (field >> 1) ^ -(field & 1)
        last = field
        if kind == 12:
            if depth == 0:
                outer = field
            depth += 1
            last = 0
            continue
        value = np.int64(kind == 1)
        if kind == 5:
            value, at = _varint(source, at, end)
            value = (value >> 1) ^ -(value & 1)
        else:
            at = _skip_value(source, at, end, kind)
        if at < 0:
            return -1
        if depth == 0 and 1 <= field <= 3:
            page[field - 1] = value
        elif depth == 1 and field == 1:
            page[VALUES] = value
        elif depth == 1 and field == (4 if outer == 8 else 2):
            page[ENCODING] = value
        elif depth == 1 and outer == 8 and (field == 5 or field == 6):
            page[LEVEL_BYTES] += value
        elif depth == 1 and outer == 8 and field == 7:
            page[PACKED] = value
    if min(page[PACKED_SIZE], page[SIZE], page[VALUES], page[LEVEL_BYTES]) < 0:
        return -1
    if page[LEVEL_BYTES] > min(page[PACKED_SIZE], page[SIZE]):
        return -1
    return at


@jit
def all_defined(source: Bytes, at: int, end: int, count: int) -> bool:
    """Return whether the definition levels in [at, end) of a flat column say that ``count`` values are not null."""
    seen = 0
    while seen < count:
        head, at = _varint(source, at, end)
        if at < 0:
            return False
        if head & 1 == 0:
            if at >= end or source[at] != 1 or head == 0:
                return False
            seen += head >> 1
            at += 1
            continue
        size = head >> 1
        if size == 0 or size > end - at:
            return False
        for place in range(size):
            wanted = min(8, count - seen)
            if wanted > 0 and source[at + place] & ((1 << wanted) - 1) != (1 << wanted) - 1:
                return False
            seen += 8
        at += size
    return True


@jit
def unpack_indices(source: Bytes, at: int, end: int, width: int, indices: Indices) -> int:
    """Decode as many numbers of ``width`` bits as ``indices`` holds from runs and bit-packed groups; 0 or -1."""
    if width < 0 or width > 31:
        return -1
    count = indices.size
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    begin = address(source)
    done = 0
    while done < count:
        head, at = _varint(source, at, end)
        if at < 0 or head < 2:
            return -1
        if head & 1 == 0:
            size = (width + 7) // 8
            if size > end - at:
                return -1
            value = np.int64(0)
            for place in range(size):
                value |= np.int64(source[at + place]) << (8 * place)
            run = min(head >> 1, count - done)
            indices[done : done + run] = value
            done += run
            at += size
            continue
        groups = head >> 1
        if groups > _MOST_GROUPS:
            return -1
        # The last group may be cut off where the numbers it would hold are not needed.
        run = min(groups, (count - done + 7) // 8) * 8
        run = min(run, count - done)
        if (run * width + 7) // 8 > end - at:
            return -1
        # A number is read with the eight bytes from its first on; the last few by single bits.
        near_end = max(0, min(run, (end - at - 8) * 8 // max(width, 1)))
        for place in range(near_end):
            bit = place * width
            word = load64(begin + at + (bit >> 3)) >> np.uint64(bit & 7)
            indices[done + place] = np.int32(word & mask)
        for place in range(near_end, run):
            value = np.int64(0)
            for low in range(width):
                bit = place * width + low
                value |= np.int64((source[at + (bit >> 3)] >> (bit & 7)) & 1) << low
            indices[done + place] = value
        done += run
        at += min(groups * width, end - at)
    return 0


@jit
def gather_numbers(indices: Indices, first: int, count: int, dictionary: Ints, out: Ints, to: int) -> int:
    """Put ``count`` dictionary values into ``out`` from ``to`` on; 0 or -1."""
    size = np.uint32(dictionary.size)
    for place in range(count):
        index = np.uint32(indices[first + place])
        if index >= size:
            return -1
        out[to + place] = dictionary[index]
    return 0


@jit
def text_starts(source: Bytes, at: int, end: int, starts: Indices) -> int:
    """Find the texts of a dictionary, each after its length of four bytes; 0 or -1.

    Text ``i`` is ``source[starts[i] : starts[i + 1] - 4]``, so ``starts`` has one item more than there are texts.
    """
    for place in range(starts.size):
        starts[place] = at + 4
        if place == starts.size - 1:
            break
        if at + 4 > end:
            return -1
        size = np.int64(source[at]) | np.int64(source[at + 1]) << 8
        size |= np.int64(source[at + 2]) << 16 | np.int64(source[at + 3]) << 24
        at += 4
        if size > end - at:
            return -1
        at += size
    return 0


@jit
def text_bytes(indices: Indices, first: int, count: int, starts: Indices) -> int:
    """Return how many bytes ``count`` dictionary texts take together, or -1."""
    size = np.uint32(starts.size - 1)
    total = -4 * count
    for place in range(count):
        index = np.uint32(indices[first + place])
        if index >= size:
            return -1
        total += np.int64(starts[index + np.uint32(1)]) - np.int64(starts[index])
    return total


@jit
def gather_text(
    indices: Indices,
    first: int,
    count: int,
    starts: Indices,
    dictionary: Bytes,
    offsets: Indices,
    to: int,
    data: Bytes,
) -> None:
    """Append ``count`` dictionary texts after the text that ends at ``offsets[to]``.

    `text_bytes` has checked the indices, and ``data`` has room for what it returned.
    """
    end = np.int64(offsets[to])
    # Short texts are copied in one step of a fixed size, where neither array ends before it.
    from_limit, to_limit = dictionary.size - 64, data.size - 64
    for place in range(count):
        index = indices[first + place]
        begin = np.int64(starts[index])
        size = np.int64(starts[index + 1]) - 4 - begin
        if size <= 32 and begin <= from_limit and end <= to_limit:
            copy_bytes(data, end, dictionary, begin, 32)
        elif size <= 64 and begin <= from_limit and end <= to_limit:
            copy_bytes(data, end, dictionary, begin, 64)
        else:
            copy_bytes(data, end, dictionary, begin, size)
        end += size
        offsets[to + 1 + place] = end


@jit
def plain_text(source: Bytes, at: int, limit: int, count: int, offsets: Indices, to: int, data: Bytes) -> int:
    """Append the ``count`` texts in ``source[at:limit]``, each after its length, behind the end at ``offsets[to]``.

    Returns where the next text begins, or -1.
    """
    end = np.int64(offsets[to])
    begin = address(source)
    for place in range(count):
        if at + 4 > limit:
            return -1
        if at + 8 <= limit:
            size = np.int64(load64(begin + at) & np.uint64(0xFFFFFFFF))
        else:
            size = np.int64(source[at]) | np.int64(source[at + 1]) << 8
            size |= np.int64(source[at + 2]) << 16 | np.int64(source[at + 3]) << 24
        at += 4
        if size > limit - at or size > data.size - end:
            return -1
        copy_bytes(data, end, source, at, size)
        at += size
        end += size
        offsets[to + 1 + place] = end
    return at
