"""Cuts text into records whose quoted values may hold line breaks, and finds where one begins in the middle of a file.

Called by `line_reader` and the CSV source, for chunks that have quotation marks and do not decode line by line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from penstock.engine.connectors.files import chunks as file_chunks
from penstock.engine.kernels.quoted_records import find_records, flaws, last_certain_line

_FIRST_WINDOW_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Records:
    """Ranges of records in text, with their line breaks; ``unclosed`` are lines whose quoted value does not end."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    unclosed: NDArray[np.bool_]
    complete: int
    """Where the first record begins that may go on behind the text."""
    broken: int
    """How many hold line breaks, at the most: records behind these may be counted."""

    def of(self, text: bytes) -> list[bytes]:
        """Return the records of the text, without the line breaks at their ends."""
        ranges = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [text[start:end].removesuffix(b"\n").removesuffix(b"\r") for start, end in ranges]

    def lines(self, text: bytes) -> list[int]:
        """Return how many lines of the text end before each record."""
        breaks = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        numbers: list[int] = np.searchsorted(breaks, self.starts).tolist()
        return numbers


class Quoting:
    """The rules that separate records of one delimiter. A record of several lines has `record_bytes` bytes at the most.

    A line whose quoted value does not end within that, or ends before anything but a delimiter or a line break, is a
    record of its own: an unclosed quotation mark costs one line.
    """

    def __init__(self, delimiter: str) -> None:
        """Take a delimiter of one byte; another one separates nothing."""
        encoded = delimiter.encode()
        self._delimiter = encoded[0] if len(encoded) == 1 else -1

    def records(self, text: bytes, *, final: bool) -> Records:
        """Return the records of text that begins with one; ``final`` if nothing follows it."""
        lines = text.count(b"\n") + 1
        starts, ends, unclosed = np.empty(lines, np.int64), np.empty(lines, np.int64), np.empty(lines, np.bool_)
        count, complete, broken = find_records(
            np.frombuffer(text, np.uint8), self._delimiter, record_bytes(), final, starts, ends, unclosed
        )
        return Records(starts[:count], ends[:count], unclosed[:count], complete, broken)

    def flaws(self, records: Sequence[bytes]) -> NDArray[np.int8]:
        """Return the flaw of each record, or 0, as the kernel `flaws` does."""
        sizes = np.fromiter((len(record) + 1 for record in records), np.int64, len(records))
        text = np.frombuffer(b"\n".join(records) + b"\n", np.uint8)
        return flaws(text, np.cumsum(sizes) - sizes, self._delimiter)

    def complete(self, path: Path, begin: int, lines: bytes) -> tuple[bytes, Records]:
        """Return the text and the records that begin in ``lines``, which are whole and stand at ``begin`` of a file."""
        head = self.records(lines, final=False)
        if head.complete == len(lines):
            return lines, head
        with path.open("rb", buffering=0) as file:
            file.seek(begin + len(lines))
            more = file_chunks.read_fully(file, record_bytes())
        rest = self.records(lines[head.complete :] + more, final=len(more) < record_bytes())
        count = int(np.searchsorted(rest.starts, len(lines) - head.complete))
        starts, ends = (
            np.concatenate((before, after[:count] + head.complete))
            for before, after in ((head.starts, rest.starts), (head.ends, rest.ends))
        )
        end = max(len(lines), int(ends[-1]) if len(ends) else 0)
        unclosed = np.concatenate((head.unclosed, rest.unclosed[:count]))
        return lines + more[: end - len(lines)], Records(starts, ends, unclosed, end, head.broken + rest.broken)

    def first_record(self, path: Path, first_byte: int, line: int) -> int:
        """Return where the first record begins at or behind ``line``, where a line does; as if read from the beginning.

        What no record can reach over is looked for backwards from there; the records of the file begin at
        ``first_byte``. Blank lines may stand between ``line`` and the record.
        """
        with path.open("rb", buffering=0) as file:
            at = self._certain(file, first_byte, line)
            while at < line:
                file.seek(at)
                # So far that every record that begins before the line ends in it.
                size = min(line - at, file_chunks.CHUNK_BYTES) + record_bytes()
                text = file_chunks.read_fully(file, size)
                records = self.records(text, final=len(text) < size)
                over = int(np.searchsorted(records.ends, line - at, side="right"))
                if over < len(records.ends):
                    start, end = int(records.starts[over]), int(records.ends[over])
                    return line if at + start >= line else at + end
                if records.complete == 0:
                    at = file_chunks.line_start(file, at + 1, line)
                else:
                    at += records.complete
        return max(at, line)

    def _certain(self, file: BinaryIO, first_byte: int, line: int) -> int:
        """Return a line start at or before ``line`` that begins a record, near it if there is one."""
        window, ahead = _FIRST_WINDOW_BYTES, min(_FIRST_WINDOW_BYTES, record_bytes())
        upto = line
        while upto > first_byte:
            low = max(first_byte, upto - window)
            file.seek(low)
            text = np.frombuffer(file_chunks.read_fully(file, upto - low + ahead), np.uint8)
            reaches = ahead == record_bytes()
            offset = int(last_certain_line(text, upto - low, self._delimiter, reaches))
            if offset > 0:
                return low + offset
            if reaches:
                upto = low
            window, ahead = min(4 * window, file_chunks.CHUNK_BYTES), record_bytes()
        return first_byte


def record_bytes() -> int:
    """Return how many bytes a record of several lines has at the most: a quarter of a chunk."""
    return file_chunks.CHUNK_BYTES // 4
