"""Reads files of one record per line by chunks: whole chunks by the format's vectorised decoder, bad ones line by line.

Shared by the JSON lines and CSV sources, which bring a `LineDecoder`. A record costs exactly one row or one raw record;
it is a line, or several where a `QuotedDecoder` allows line breaks in quoted values.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.engine.connectors.files.chunks import CHUNK_BYTES, Chunk, chunks_of, next_chunk
from penstock.engine.connectors.files.positions import FileMark, mark
from penstock.engine.connectors.partitions import FilePartition
from penstock.engine.connectors.text.chunk_text import ChunkText, read_after_lines, read_lines, read_quoted
from penstock.engine.connectors.text.quoted_records import Quoting, Records
from penstock.engine.connectors.time_range import time_error, unusable_times
from penstock.model.connectors import ENDED, RawRecord, Read, Reader
from penstock.model.errors import UserError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The bytes that some programs write at the beginning of UTF-8."""

PIECE_LINES = 256
"""How many lines are tried together once a chunk holds a bad one."""


class LineDecoder(ABC):
    """Decodes lines of one format into rows of one schema. What becomes of a line never depends on its neighbours."""

    blank: bytes
    """Bytes that a line may consist of and still be no record."""

    def start_file(self, path: Path) -> int:
        """Get ready for a file and return at which byte its records begin. The default skips a byte order mark.

        Raises:
            UserError: the file does not fit the schema.
        """
        with path.open("rb") as file:
            return len(BYTE_ORDER_MARK) if file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0

    @abstractmethod
    def decode_block(self, block: bytes) -> pa.RecordBatch | None:
        """Decode lines at once; None unless every line that is not blank is exactly one good row."""

    @abstractmethod
    def decode_each(self, lines: Sequence[bytes]) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
        """Decode lines that are not blank; return the good rows, and index and error of every other line in order."""


class QuotedDecoder(LineDecoder):
    """Decodes records whose quoted values may hold line breaks."""

    quoting: Quoting

    @abstractmethod
    def decode_records(self, block: bytes, records: Records) -> pa.RecordBatch | None:
        """Decode the records of a block at once; None unless every one is exactly one good row."""


@dataclass(slots=True)
class DecodedRecords:
    """Decoded records of a chunk. ``errors`` are (index among the records, reason); all others are ``rows``."""

    rows: pa.RecordBatch
    errors: list[tuple[int, str]]
    first_record: int

    @property
    def records(self) -> int:
        """Rows and errors together."""
        return int(self.rows.num_rows) + len(self.errors)


class LinePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file, the byte at which one of its chunks starts (None: at the end of the last), and the records read of it.

    ``first`` is the byte at which the first of them begins, where it may be another than that of the chunk's first
    line; a position without it, of which records were read, counts lines.
    """

    mark: FileMark
    chunk: int | None
    records: int
    first: int | None = None


class LineReader(Reader):
    """Reads the chunks of one partition in order. Position: `LinePosition`."""

    def __init__(
        self, partition: FilePartition, decoder: LineDecoder, time: str | None, position: LinePosition | None
    ) -> None:
        """Take the files; ``time`` is the event time column, whose null or impossible values make bad records.

        Raises:
            UserError: a file cannot be read, or the position is none of its chunks.
        """
        self._partition = partition
        self._mark = mark(partition, partition.files[0]) if position is None else position.mark
        self._chunks = chunks_of(partition)
        self._decoder = decoder
        self._time = time
        self._next = 0
        self._read = 0
        self._first: int | None = None
        self._quoted = decoder if isinstance(decoder, QuotedDecoder) else None
        self._spans_lines = False
        self._path: Path | None = None
        self._first_byte = 0
        self._text: ChunkText | None = None
        self._pieces: Iterator[DecodedRecords] = iter(())
        self._piece: DecodedRecords | None = None
        self._open = False
        if position is not None:
            self._resume(position)

    def read(self, max_rows: int) -> Read:
        """Return what is left of the decoded piece, or decode the next one."""
        while True:
            piece = self._current()
            if piece is None:
                return ENDED
            if piece.records:
                return self._take(piece, max_rows)
            self._piece = None

    def position(self) -> dict[str, Any]:
        """Return the chunk and how many of its records were read."""
        chunk = self._chunks[self._next] if self._next < len(self._chunks) else None
        if chunk is not None and str(chunk.path) != self._mark.file:
            self._mark = mark(self._partition, chunk.path)
        at = LinePosition(self._mark, None if chunk is None else chunk.start, self._read, self._first)
        position: dict[str, Any] = msgspec.to_builtins(at)
        return position

    def close(self) -> None:
        """Forget the chunk; no file stays open between reads."""
        self._piece, self._pieces, self._text = None, iter(()), None

    def _resume(self, position: LinePosition) -> None:
        if position.chunk is None:
            self._next = len(self._chunks)
            return
        wanted = (position.mark.file, position.chunk)
        places = [(str(chunk.path), chunk.start) for chunk in self._chunks]
        if wanted not in places:
            raise UserError(f"no chunk of {wanted[0]!r} begins at byte {wanted[1]}: the position is none of this file")
        self._next = places.index(wanted)
        self._read, self._first = position.records, position.first

    def _current(self) -> DecodedRecords | None:
        """Return the piece to read from, None at the end of the partition."""
        while self._piece is None:
            if not self._open:
                if self._next >= len(self._chunks):
                    return None
                self._open_chunk(self._chunks[self._next])
            piece = next(self._pieces, None)
            if piece is None:
                self._close_chunk()
            elif piece.first_record + piece.records > self._read:
                self._piece = _after(piece, self._read - piece.first_record)
        return self._piece

    def _open_chunk(self, chunk: Chunk) -> None:
        if chunk.path != self._path:
            self._path = chunk.path
            self._first_byte = self._decoder.start_file(chunk.path)
        if self._quoted is None:
            self._text = read_lines(chunk, self._first_byte)
        else:
            if self._read and self._first is None:
                self._text = read_after_lines(chunk, self._first_byte, self._read)
                self._read = 0
            else:
                self._text = read_quoted(chunk, self._first_byte, self._quoted.quoting, self._first)
            self._first = self._text.start
        self._pieces = self._decode(self._text)
        self._open = True

    def _close_chunk(self) -> None:
        """Go on to the next chunk; where its first record begins is known if it follows this one in the file."""
        assert self._text is not None
        done = self._chunks[self._next]
        self._open = False
        self._next += 1
        self._read = 0
        follows = self._next < len(self._chunks) and self._chunks[self._next] == next_chunk(done)
        self._first = self._text.after if follows else None

    def _decode(self, text: ChunkText) -> Iterator[DecodedRecords]:
        if not text.block:
            return
        rows = self._decode_whole(text)
        if rows is not None:
            piece = self._timed(DecodedRecords(rows, [], 0))
            if not piece.errors:
                # Many partitions may hold a decoded chunk each; only errors need its text.
                text.block = b""
            yield piece
            return
        lines = [line for _, line in text.lines(self._decoder.blank)]
        complete = lines[:-1] if text.too_long else lines
        for first in range(0, len(complete), PIECE_LINES):
            yield self._timed(self._decode_piece(complete[first : first + PIECE_LINES], first))
        if text.too_long:
            rows, _ = self._decoder.decode_each([])
            yield DecodedRecords(rows, [(0, f"the line is longer than {CHUNK_BYTES} bytes")], len(complete))

    def _decode_whole(self, text: ChunkText) -> pa.RecordBatch | None:
        """Decode a chunk at once: as lines, or as records if it has quotation marks and is not one row a line."""
        decoder = self._quoted if text.quoted else None
        by_lines = decoder is None or not self._spans_lines
        rows = self._decoder.decode_block(text.block) if by_lines and not text.too_long else None
        if decoder is None or rows is not None:
            return rows
        records = text.cut_records(decoder.quoting)
        self._spans_lines = records.broken > 0
        if text.too_long or records.unclosed.any() or (by_lines and not self._spans_lines):
            return None
        return decoder.decode_records(text.block, records)

    def _decode_piece(self, lines: list[bytes], first: int) -> DecodedRecords:
        rows = self._decoder.decode_block(b"\n".join(lines) + b"\n")
        if rows is not None:
            return DecodedRecords(rows, [], first)
        good, errors = self._decoder.decode_each(lines)
        return DecodedRecords(good, errors, first)

    def _timed(self, piece: DecodedRecords) -> DecodedRecords:
        """Turn rows without a usable event time into errors."""
        if self._time is None or not piece.rows.num_rows:
            return piece
        times = piece.rows.column(self._time)
        bad = unusable_times(times)
        if bad is None:
            return piece
        taken = np.array([index for index, _ in piece.errors], np.int64)
        records = np.delete(np.arange(piece.records), taken)
        missing = np.asarray(times.is_null())
        added = [(int(records[row]), time_error(self._time, bool(missing[row]))) for row in np.flatnonzero(bad)]
        return DecodedRecords(piece.rows.filter(pa.array(~bad)), sorted([*piece.errors, *added]), piece.first_record)

    def _take(self, piece: DecodedRecords, max_rows: int) -> Read:
        """Cut off the first ``max_rows`` rows and the errors among them."""
        records = _records_with_rows(piece, max_rows)
        rows = piece.rows.slice(0, max_rows)
        errors = [item for item in piece.errors if item[0] < records]
        rejected = [self._raw(piece.first_record + index, reason) for index, reason in errors]
        self._piece = None if records == piece.records else _after(piece, records)
        self._read = piece.first_record + records
        return Read(rows if rows.num_rows else None, rejected=rejected)

    def _raw(self, record: int, reason: str) -> RawRecord:
        assert self._text is not None
        number, line = self._text.lines(self._decoder.blank)[record]
        return RawRecord(line, self._text.place(number), reason)


def _after(piece: DecodedRecords, records: int) -> DecodedRecords:
    """Return the piece without its first records."""
    if records <= 0:
        return piece
    errors = [(index - records, reason) for index, reason in piece.errors if index >= records]
    passed = records - (len(piece.errors) - len(errors))
    return DecodedRecords(piece.rows.slice(passed), errors, piece.first_record + records)


def _records_with_rows(piece: DecodedRecords, max_rows: int) -> int:
    """Return how many leading records hold the first ``max_rows`` rows; all of them if there are no more rows."""
    if piece.rows.num_rows <= max_rows:
        return piece.records
    # Row number r is record r plus the errors before it: find the least count of records with max_rows rows.
    rows_before_error = [index - order for order, (index, _) in enumerate(piece.errors)]
    return max_rows + bisect_right(rows_before_error, max_rows - 1)
