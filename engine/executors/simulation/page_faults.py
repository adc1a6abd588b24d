"""Faults below the simulated page stores: files that are cut short, bits that flip, writes that find the disk full.

Page files are scratch: whatever happens to them fails an attempt or a checkpoint, and never what comes out
(docs/design/keyed-state.md 3). Made by `world`, for each seed.
"""

from collections.abc import Iterator
from pathlib import Path

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.history import History
from penstock.model.errors import RetryableError
from penstock.state.files.durable_files import CHUNK_BYTES, Content, chunks_of
from penstock.state.files.local_files import LocalFiles
from penstock.state.files.private_files import make_private_folder

FULL, TORN, FLIPPED, MISREAD = "full", "torn", "flipped", "misread"
KINDS = (FULL, TORN, FLIPPED, MISREAD)
"""A write fails; a file has lost its end, or got a bit flipped, for good; a bit flips while a file is read."""

MOST_FAULTS = 3
"""After so many a run is left alone."""


class PageFaults:
    """Decides over the page files of one run, that takes about ``turns`` turns."""

    def __init__(self, dice: Dice, history: History, turns: int, *, happen: bool) -> None:
        """Draw nothing unless faults may ``happen``."""
        self.struck = 0
        """Faults that happened."""
        self.damaged = 0
        """Those of them after which bytes were read or stored that nobody had written."""
        self._dice = dice
        self._history = history
        self._turns = max(turns, 1)
        self._left = dice.between(0, MOST_FAULTS) if happen else 0
        self._next: str | None = None

    def at_turn(self) -> None:
        """Maybe let the next write or read go wrong."""
        if self._left and self._next is None and self._dice.chance(4.0 / self._turns):
            self._next = self._dice.choose(KINDS)

    def write(self, content: bytes) -> bytes:
        """Return what comes to lie in a file that these bytes are written to.

        Raises:
            RetryableError: the disk is full.
        """
        if self._strikes(FULL):
            raise RetryableError("cannot write page files: No space left on device; the simulation says so.")
        if content and self._strikes(TORN):
            return content[: self._dice.below(len(content))]
        if content and self._strikes(FLIPPED):
            return self._flip(content)
        return content

    def read(self, content: bytes) -> bytes:
        """Return what is read of a file that holds these bytes."""
        return self._flip(content) if content and self._strikes(MISREAD) else content

    def _strikes(self, kind: str) -> bool:
        if self._next != kind:
            return False
        self._next = None
        self._left -= 1
        self.struck += 1
        self.damaged += kind != FULL
        self._history.event(f"FAULT page files: {kind}")
        return True

    def _flip(self, content: bytes) -> bytes:
        flipped, bit = bytearray(content), self._dice.below(8 * len(content))
        flipped[bit // 8] ^= 1 << bit % 8
        return bytes(flipped)


class PageFiles(LocalFiles):
    """Files in a local folder, with these faults. Nothing is synced: no page file is read by another process."""

    def __init__(self, folder: Path, faults: PageFaults) -> None:
        """Keep both."""
        super().__init__(folder)
        self._faults = faults

    def write(self, path: str, content: Content) -> int:
        """Write, or what a fault leaves of it; the bytes are those that were asked for."""
        data = b"".join(chunks_of(content))
        left = self._faults.write(data)
        target = self.base / path
        make_private_folder(target.parent)
        target.write_bytes(left)
        return len(data)

    def chunks(self, path: str) -> Iterator[bytes]:
        """Return what is there, or what a fault makes of it."""
        data = self._faults.read((self.base / path).read_bytes())
        for start in range(0, len(data), CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES]

    def delete(self, *paths: str) -> None:
        """Delete files."""
        for path in paths:
            (self.base / path).unlink(missing_ok=True)
