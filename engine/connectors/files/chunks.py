"""Cuts files of lines into chunks that can be read independently. Called by `line_reader` and the line sources.

A chunk holds the lines that begin in its byte range, so the last one may reach beyond it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from penstock.engine.connectors.partitions import FilePartition

CHUNK_BYTES = 4 << 20
"""Bytes of a chunk, and the longest line that is read. Part of every stored position: never change it."""

_STEP_BYTES = 1 << 16
_SHOWN_BYTES = 1 << 10


@dataclass(frozen=True, slots=True)
class Chunk:
    """The lines that begin in [start, start + CHUNK_BYTES) of a file."""

    path: Path
    start: int


def chunks_of(partition: FilePartition) -> list[Chunk]:
    """Return the chunks of a partition; shares of the same files take turns so that they advance together."""
    return [
        Chunk(path, start)
        for number, path in enumerate(partition.files)
        for index, start in enumerate(_starts(path))
        if partition.has(number, index)
    ]


def next_chunk(chunk: Chunk) -> Chunk:
    """Return the chunk that follows in the file, which may end before it."""
    return Chunk(chunk.path, chunk.start + CHUNK_BYTES)


def read_chunk(chunk: Chunk, first_byte: int, begin: int | None = None) -> tuple[bytes, int, bool]:
    """Return the bytes of a chunk's lines, where they begin, and whether the last line was cut because it is too long.

    ``first_byte`` is where the file's records begin; with ``begin``, the lines from there on are returned. A line that
    is too long keeps its first kilobyte.
    """
    end = chunk.start + CHUNK_BYTES
    with chunk.path.open("rb", buffering=0) as file:
        if begin is None:
            begin = first_byte if chunk.start <= first_byte else line_start(file, chunk.start, end)
        if begin >= end:
            return b"", begin, False
        file.seek(begin)
        block = read_fully(file, end - begin)
        if len(block) < end - begin or block.endswith(b"\n"):
            return block, begin, False
        rest, complete = _rest_of_line(file)
        if complete:
            return block + rest, begin, False
        last = block.rfind(b"\n") + 1
        return block[: last + _SHOWN_BYTES], begin, True


def count_lines(path: Path, end: int) -> int:
    """Return how many lines end before byte ``end``."""
    lines = 0
    with path.open("rb", buffering=0) as file:
        while end > 0:
            block = file.read(min(end, CHUNK_BYTES))
            if not block:
                break
            lines += block.count(b"\n")
            end -= len(block)
    return lines


def first_block(files: Iterable[Path]) -> tuple[Path, bytes] | None:
    """Return the first file that is not empty and the whole lines among its first megabyte; None if all are empty."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            block = read_fully(file, 1 << 20)
        if block.strip():
            return path, block[: block.rfind(b"\n") + 1] or block
    return None


def line_start(file: BinaryIO, start: int, end: int) -> int:
    """Return where the first line that begins in [start, end) begins; ``end`` if there is none."""
    at = start - 1
    file.seek(at)
    while at < end:
        block = file.read(_STEP_BYTES)
        if not block:
            return end
        index = block.find(b"\n")
        if index >= 0:
            return min(at + index + 1, end)
        at += len(block)
    return end


def read_fully(file: BinaryIO, size: int) -> bytes:
    """Read ``size`` bytes, or up to the end of the file."""
    block = file.read(size)
    if block is None or len(block) == size:
        return block or b""
    pieces = [block]
    missing = size - len(block)
    while missing and (block := file.read(missing)):
        pieces.append(block)
        missing -= len(block)
    return b"".join(pieces)


def _starts(path: Path) -> range:
    return range(0, path.stat().st_size, CHUNK_BYTES)


def _rest_of_line(file: BinaryIO) -> tuple[bytes, bool]:
    """Read on to the end of a line; False if it is longer than a chunk."""
    pieces: list[bytes] = []
    size = 0
    while size < CHUNK_BYTES:
        block = file.read(_STEP_BYTES)
        index = block.find(b"\n")
        pieces.append(block if index < 0 else block[: index + 1])
        if index >= 0 or not block:
            return b"".join(pieces), True
        size += len(block)
    return b"", False
