"""The contract of page stores, which hold keyed state that does not fit in memory (docs/design/keyed-state.md 3).

Pages are values of bytes under keys of bytes; `rocksdb_store` keeps them in RocksDB, `simulated_page_store` on a disk
with scripted faults. State that spills and checkpoints call it, one store for each operator instance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.model.errors import OptionError

DEFAULT_MEMORY_BYTES = 8 << 20
SMALLEST_MEMORY_BYTES = 1 << 20
SCAN_CHUNK_BYTES = 1 << 20

Page = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class PageStoreStatistics:
    """Sizes of a page store now.

    ``bytes_on_disk`` counts files that deleted pages still occupy. ``memory_bytes`` is what it holds of its memory:
    pages not yet flushed and cached blocks.
    """

    bytes_on_disk: int
    memory_bytes: int


class PageStore(Protocol):
    """Pages of bytes under keys of bytes, in the order of their keys.

    Pages are durable after `flush` and no earlier. Any thread may call, one call at a time (a scan is a call for
    each page it yields). After a `StateIoError` or `StateCorruptionError` nothing that was not flushed may be relied
    on: close the store and restore the last copy.

    Every method raises:
        StateCorruptionError: bytes on disk are not those that were written.
        StateIoError: the disk failed or is full.
        BugError: the store is closed.
    """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the page of each key, None where there is none; keys may repeat. Sorted keys are read faster."""

    def put_many(self, pages: Sequence[Page]) -> None:
        """Store pages, replacing those of the same key; of a key that repeats the last one counts.

        Not atomic: after an error any of them may be stored.
        """

    def scan(self, start: bytes, end: bytes) -> Iterator[Page]:
        """Yield the pages with start <= key < end, ascending by key; all of them, or an error in their midst.

        Pages put or deleted while a scan is under way may or may not be seen by it.
        """

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Delete the pages with start <= key < end."""

    def flush(self) -> None:
        """Return when everything put and deleted so far is durable."""

    def copy_to(self, directory: Path) -> list[str]:
        """Flush, and make ``directory``, which must not exist, a durable copy of the store.

        Files are shared with the store (hard links) where they never change again, so they must not be written to.

        Returns:
            The names of the files in ``directory``, ascending; files of equal name and size of later copies of the
            same store may still differ in content.

        Raises:
            BugError: ``directory`` exists.
        """

    def check(self, directory: Path, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        """Read the pages with start <= key < end of these ranges back from the files of a copy.

        It detects damage to pages between their write and the copy at once, not when they are needed. The default
        has nothing to check, as for stores whose files hold no more than what a digest was made of when it was written.

        Raises:
            StateCorruptionError: bytes are not those that were written.
        """
        return

    def set_memory(self, memory_bytes: int) -> None:
        """Change the memory for pages not yet flushed and cached blocks (with indexes and filters), at once.

        Raises:
            OptionError: it is less than 1 MB.
        """

    def has_room(self) -> bool:
        """Return whether `put_many` begins to write at once: one that writes behind its caller may have to wait."""
        return True

    def stalled_ns(self) -> int:
        """Return how long those who write have waited for what was written before: 0 unless it is done behind them."""
        return 0

    def statistics(self) -> PageStoreStatistics:
        """Return present sizes and counts since the store was opened."""

    def close(self) -> None:
        """Release files and memory; unflushed pages may or may not be lost. Closing again does nothing."""


class PageStores(Protocol):
    """A factory of page stores, which hides the implementation from those who open them."""

    def create(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> PageStore:
        """Open an empty store whose files lie in ``directory``, which is made if it is absent.

        Raises:
            BugError: ``directory`` holds a store.
            OptionError: the memory is less than 1 MB.
            StateIoError: the disk failed or is full.
        """

    def restore(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> PageStore:
        """Open the files of a copy, or of a store that was closed or whose process died.

        ``directory`` belongs to the store from now on, so pass a copy of one that is to be kept. The caller has
        compared every file with its digest: no seal covers all files together, and a copy cut in the wrong place
        may open as a store without pages.

        Raises:
            OptionError: the memory is less than 1 MB.
            StateCorruptionError: files are missing or are not those of a copy.
            StateIoError: the disk failed or is full.
        """


def check_memory(memory_bytes: int) -> None:
    """Check that the memory suffices for a store.

    Raises:
        OptionError: it is less than 1 MB.
    """
    if memory_bytes < SMALLEST_MEMORY_BYTES:
        raise OptionError(f"a page store was given {memory_bytes:,} bytes of memory; give it at least 1 MB.")
