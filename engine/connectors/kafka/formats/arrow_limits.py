"""The memory need of an Arrow IPC stream, from its headers, before anything is read or decompressed.

A reader of just so much of the flatbuffers (Message.fbs) as says how long things are; every place is checked, for the
bytes are anybody's. Called by the Arrow IPC decoder.
"""

import struct

MOST_ROWS = 1 << 24
MOST_BYTES = 512 << 20

_CONTINUATION = 0xFFFFFFFF
_DICTIONARY, _RECORDS = 2, 3
_MOST_MESSAGES = 100_000
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = 0, 1, 2, 3
_DICTIONARY_DATA = 1


class LimitError(ValueError):
    """The stream is damaged, or would take too much."""


def check_stream(content: memoryview) -> None:
    """Check the headers of a stream.

    Raises:
        LimitError: it would have more than `MOST_ROWS`, or more than `MOST_BYTES` when decompressed, or is damaged.
    """
    try:
        _check(content)
    except (struct.error, IndexError, OverflowError):
        raise LimitError("the Arrow message is cut off or damaged") from None


def _check(content: memoryview) -> None:
    place, total, rows = 0, 0, 0
    for _ in range(_MOST_MESSAGES):
        if place + 4 > len(content):
            return
        (length,) = struct.unpack_from("<I", content, place)
        place += 4
        if length == _CONTINUATION:
            (length,) = struct.unpack_from("<I", content, place)
            place += 4
        if length == 0:
            return
        header = content[place : place + length]
        place += length
        message = _Table.root(header)
        body = message.number(_BODY_LENGTH, "<q")
        if len(header) < length or not 0 <= body <= len(content) - place:
            raise LimitError("the Arrow message is cut off or damaged")
        kind = message.number(_HEADER_TYPE, "<B")
        if kind in (_DICTIONARY, _RECORDS):
            batch = message.table(_HEADER)
            if batch is not None and kind == _DICTIONARY:
                batch = batch.table(_DICTIONARY_DATA)
            if batch is None:
                raise LimitError("the Arrow message is damaged")
            rows = max(rows, _most_rows(batch))
            total += _size(batch, content[place : place + body])
        if rows > MOST_ROWS:
            raise LimitError(f"the Arrow message claims {rows:,} rows; {MOST_ROWS:,} are allowed")
        if total > MOST_BYTES:
            raise LimitError(f"the Arrow message takes {total:,} bytes unpacked; {MOST_BYTES:,} are allowed")
        place += body
    raise LimitError(f"the Arrow message has more than {_MOST_MESSAGES:,} parts")


def _most_rows(batch: "_Table") -> int:
    """Return the greatest length that is claimed, of the batch or of a column in it."""
    length = batch.number(_LENGTH, "<q")
    if length < 0:
        raise LimitError("the Arrow message is damaged")
    return max([length, *(claimed for claimed, _ in batch.pairs(_NODES))])


def _size(batch: "_Table", body: memoryview) -> int:
    """Return the bytes of a batch's buffers when they are decompressed."""
    if not batch.has(_COMPRESSION):
        return len(body)
    total = 0
    for offset, length in batch.pairs(_BUFFERS):
        if not length:
            continue
        if not 0 <= offset <= offset + length <= len(body) or length < 8:
            raise LimitError("the Arrow message is cut off or damaged")
        (unpacked,) = struct.unpack_from("<q", body, offset)
        if unpacked < -1:
            raise LimitError("the Arrow message is damaged")
        total += length if unpacked == -1 else unpacked
    return total


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: memoryview, place: int) -> None:
        if not 0 <= place <= len(data) - 4:
            raise LimitError("the Arrow message is damaged")
        self._data, self._place = data, place
        (back,) = struct.unpack_from("<i", data, place)
        self._vtable = place - back
        if not 0 <= self._vtable <= len(data) - 4:
            raise LimitError("the Arrow message is damaged")
        (self._vtable_size,) = struct.unpack_from("<H", data, self._vtable)

    @classmethod
    def root(cls, data: memoryview) -> "_Table":
        (place,) = struct.unpack_from("<I", data, 0)
        return cls(data, place)

    def has(self, field: int) -> bool:
        return self._at(field) is not None

    def number(self, field: int, form: str) -> int:
        place = self._at(field)
        if place is None:
            return 0
        (number,) = struct.unpack_from(form, self._data, place)
        return int(number)

    def table(self, field: int) -> "_Table | None":
        place = self._at(field)
        if place is None:
            return None
        (forward,) = struct.unpack_from("<I", self._data, place)
        return _Table(self._data, place + forward)

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structs of two int64."""
        place = self._at(field)
        if place is None:
            return []
        (forward,) = struct.unpack_from("<I", self._data, place)
        place += forward
        (count,) = struct.unpack_from("<I", self._data, place)
        if place + 4 + 16 * count > len(self._data):
            raise LimitError("the Arrow message is damaged")
        numbers = struct.unpack_from(f"<{2 * count}q", self._data, place + 4)
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def _at(self, field: int) -> int | None:
        """Return where a field is, None if it is not there."""
        entry = 4 + 2 * field
        if entry + 2 > self._vtable_size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._vtable + entry)
        return self._place + offset if offset else None
