"""The text of one chunk of a file, cut into records. Called by `line_reader`."""

from dataclasses import dataclass
from pathlib import Path

from penstock.engine.connectors.files.chunks import Chunk, count_lines, read_chunk
from penstock.engine.connectors.text.quoted_records import Quoting, Records, record_bytes


@dataclass(slots=True)
class ChunkText:
    """The lines of a chunk, or its records once `cut_records` was called; they begin at byte ``start`` of the file."""

    path: Path
    start: int
    block: bytes
    too_long: bool
    """Whether the last line was cut because it is longer than a chunk."""
    after: int | None
    """Where the first record behind the chunk begins, None if that is not known."""
    records: Records | None = None
    _numbered: list[tuple[int, bytes]] | None = None
    _lines_before: int | None = None

    @property
    def quoted(self) -> bool:
        """True if there is a quotation mark."""
        return b'"' in self.block

    def cut_records(self, quoting: Quoting) -> Records:
        """Find the records that begin in the chunk, and read on to the end of the last."""
        if self.too_long:
            # No record of several lines is as long as the line that was cut.
            self.records = quoting.records(self.block[: self.block.rfind(b"\n") + 1], final=True)
        else:
            self.block, self.records = quoting.complete(self.path, self.start, self.block)
            self.after = self.start + len(self.block)
        return self.records

    def lines(self, blank: bytes) -> list[tuple[int, bytes]]:
        """Return the records with the number of lines before each; lines of nothing but ``blank`` are none.

        The last one is the line that was cut, if it was.
        """
        if self._numbered is None:
            if self.records is None:
                self._numbered = self._lines(blank)
            else:
                numbers = self.records.lines(self.block)
                self._numbered = list(zip(numbers, self.records.of(self.block), strict=True))
                if self.too_long:
                    end = self.block.rfind(b"\n") + 1
                    self._numbered.append((self.block.count(b"\n"), self.block[end:]))
        return self._numbered

    def place(self, number: int) -> str:
        """Return file and line, of a line by the number of those before it in the chunk."""
        if self._lines_before is None:
            self._lines_before = count_lines(self.path, self.start)
        return f"{self.path}:{self._lines_before + number + 1}"

    def _lines(self, blank: bytes) -> list[tuple[int, bytes]]:
        lines = self.block.removesuffix(b"\n").split(b"\n")
        cut = len(lines) - 1 if self.too_long else -1
        return [
            (number, line.removesuffix(b"\r"))
            for number, line in enumerate(lines)
            if line.strip(blank) or number == cut
        ]


def read_lines(chunk: Chunk, first_byte: int) -> ChunkText:
    """Return the lines of a chunk of a file whose records are lines and begin at ``first_byte``."""
    block, start, too_long = read_chunk(chunk, first_byte)
    return ChunkText(chunk.path, start, block, too_long, None)


def read_quoted(chunk: Chunk, first_byte: int, quoting: Quoting, begin: int | None) -> ChunkText:
    """Return the lines of a chunk from its first record on, which stands at ``begin`` if that is known."""
    block, start, too_long = read_chunk(chunk, first_byte, begin)
    if begin is None and block and start > first_byte and not _unquoted(block):
        first = quoting.first_record(chunk.path, first_byte, start)
        if first != start:
            begin = first
            block, start, too_long = read_chunk(chunk, first_byte, begin)
    if not block:
        # Where a line ends that begins before the chunk is not known; where a record does, is.
        return ChunkText(chunk.path, start, block, False, begin)
    return ChunkText(chunk.path, start, block, too_long, None if too_long else start + len(block))


def read_after_lines(chunk: Chunk, first_byte: int, lines: int) -> ChunkText:
    """Return the text of a chunk behind so many lines that are not blank: earlier versions counted lines as records."""
    block, start, too_long = read_chunk(chunk, first_byte)
    at = 0
    while lines and at < len(block):
        end = block.find(b"\n", at) + 1 or len(block)
        lines -= bool(block[at:end].strip(b"\r\n"))
        at = end
    if at == len(block) and (too_long or not block):
        return ChunkText(chunk.path, start + at, b"", False, None)
    return ChunkText(chunk.path, start + at, block[at:], too_long, None if too_long else start + len(block))


def _unquoted(block: bytes) -> bool:
    """Return whether no record from before can hold the block's beginning: it would have to end with a mark."""
    return len(block) >= record_bytes() and block.find(b'"', 0, record_bytes()) < 0
