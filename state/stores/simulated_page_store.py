"""Page stores on a simulated disk: the contract of `page_store` with scripted, repeatable faults.

Flushed pages lie in segments that never change, a list names the valid segments, and every record carries a checksum:
torn, flipped or missing bytes are errors here as they are in RocksDB. The simulated executor opens such stores.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.model.errors import BugError, RetryableError, StateCorruptionError, StateIoError
from penstock.model.failpoints import failpoint
from penstock.state.files.durable_files import DurableFiles
from penstock.state.stores.page_segments import (
    DamagedBytesError,
    Extent,
    decode_list,
    decode_segment,
    encode_list,
    encode_segment,
    read_page,
)
from penstock.state.stores.page_store import (
    DEFAULT_MEMORY_BYTES,
    Page,
    PageStore,
    PageStores,
    PageStoreStatistics,
    check_memory,
)

_LIST = "SEGMENTS"
_MOST_SEGMENTS = 6
_SCAN_PAGES = 16


class SimulatedPageStores(PageStores):
    """Page stores on a simulated disk, or on other durable files; directories are paths on them, behind ``root``.

    The disk decides about faults: it is full at its capacity, flips bits at its rate, and its `crash` loses what was
    not synced. After a crash drop the stores and restore.
    """

    def __init__(self, files: DurableFiles, root: Path = Path()) -> None:
        """Keep the files; ``root`` is what their paths are relative to."""
        self._files = files
        self._root = root

    def create(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> "SimulatedPageStore":
        """Open an empty store whose files lie in ``directory``."""
        check_memory(memory_bytes)
        if self._files.exists(f"{directory.relative_to(self._root).as_posix()}/{_LIST}"):
            raise BugError(f"a new page store was to be made in {directory}, which holds one already.")
        store = SimulatedPageStore(self._files, self._root, directory, memory_bytes)
        store.write_list({})
        return store

    def restore(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> "SimulatedPageStore":
        """Open the files of a copy, or of a store whose process died."""
        check_memory(memory_bytes)
        store = SimulatedPageStore(self._files, self._root, directory, memory_bytes)
        store.read_list()
        return store


class SimulatedPageStore(PageStore):
    """One store: pages not yet flushed in a dictionary, the others in segments, and where each of them lies."""

    def __init__(self, files: DurableFiles, root: Path, directory: Path, memory_bytes: int) -> None:
        self._files = files
        self._root = root
        self._directory = directory.relative_to(root).as_posix()
        self._memory_bytes = memory_bytes
        self._unflushed: dict[bytes, bytes | None] = {}
        self._unflushed_bytes = 0
        self._extents: dict[bytes, Extent] = {}
        self._lengths: dict[int, int] = {}
        self._open = True

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the page of each key; each segment is read from the disk once a call."""
        self._check_open()
        pages: list[bytes | None] = []
        segments: dict[int, bytes] = {}
        for key in keys:
            extent = self._extents.get(key)
            if key in self._unflushed or extent is None:
                pages.append(self._unflushed.get(key))
                continue
            if extent.segment not in segments:
                segments[extent.segment] = self._read(_segment_name(extent.segment))
            with self._explained("read a page"):
                pages.append(read_page(segments[extent.segment], extent, key))
        return pages

    def put_many(self, pages: Sequence[Page]) -> None:
        """Store pages; they are flushed when they fill the memory."""
        self._check_open()
        for key, value in pages:
            self._set(key, value)
            if self._unflushed_bytes > self._memory_bytes:
                self.flush()

    def scan(self, start: bytes, end: bytes) -> Iterator[Page]:
        """Yield the pages with start <= key < end, ascending; a few are read at a time."""
        self._check_open()
        keys = sorted(self._keys(start, end))
        for first in range(0, len(keys), _SCAN_PAGES):
            some = keys[first : first + _SCAN_PAGES]
            for key, value in zip(some, self.get_many(some), strict=True):
                if value is not None:
                    yield key, value

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Delete the pages with start <= key < end."""
        self._check_open()
        for key in self._keys(start, end):
            self._set(key, None)

    def flush(self) -> None:
        """Write a segment, then the list that has it; merge the segments when there are too many."""
        self._check_open()
        failpoint("pages.flush.begin")
        if self._unflushed:
            number = max(self._lengths, default=0) + 1
            data, extents = encode_segment(number, self._unflushed)
            self._write_segment(number, data, self._lengths)
            for key, extent in extents.items():
                self._place(key, extent)
            self._unflushed.clear()
            self._unflushed_bytes = 0
        if len(self._lengths) > _MOST_SEGMENTS:
            self._merge()
        failpoint("pages.flush.done")

    def copy_to(self, directory: Path) -> list[str]:
        """Flush, and copy the files; the list comes last."""
        self.flush()
        failpoint("pages.snapshot.flushed")
        target = directory.relative_to(self._root).as_posix()
        if self._files.list(target):
            raise BugError(f"a snapshot was to be made in {directory}, which exists.")
        names = sorted([*map(_segment_name, self._lengths), _LIST])
        for name in names:
            data = self._read(name)
            with self._explained(f"make a snapshot in {directory}"):
                self._files.write(f"{target}/{name}", data)
        failpoint("pages.snapshot.done")
        return names

    def set_memory(self, memory_bytes: int) -> None:
        """Change the memory for pages not yet flushed."""
        self._check_open()
        check_memory(memory_bytes)
        self._memory_bytes = memory_bytes
        if self._unflushed_bytes > memory_bytes:
            self.flush()

    def statistics(self) -> PageStoreStatistics:
        """Return present sizes and counts since the store was opened; there is no cache to measure."""
        self._check_open()
        return PageStoreStatistics(sum(self._lengths.values()), self._unflushed_bytes)

    def close(self) -> None:
        """Discard unflushed pages."""
        self._open = False
        self._unflushed.clear()

    def write_list(self, lengths: dict[int, int]) -> None:
        """Write the list of valid segments."""
        with self._explained("write its list of segments"):
            self._files.write(f"{self._directory}/{_LIST}", encode_list(lengths))
        self._lengths = lengths

    def read_list(self) -> None:
        """Find the pages of the valid segments, and check every byte of them.

        Raises:
            StateCorruptionError: a file is missing or damaged.
        """
        with self._explained("read its list of segments"):
            self._lengths = decode_list(self._read(_LIST))
        for number, length in self._lengths.items():
            data = self._read(_segment_name(number))
            with self._explained(f"open its segment {number}"):
                if len(data) != length:
                    raise DamagedBytesError(f"it has {len(data):,} bytes instead of {length:,}")
                for key, extent in decode_segment(number, data):
                    self._place(key, extent)

    def _merge(self) -> None:
        """Write all pages into one segment, and remove the others once no list has them."""
        before = list(self._lengths)
        number = max(before) + 1
        keys = sorted(self._extents)
        data, extents = encode_segment(number, dict(zip(keys, self.get_many(keys), strict=True)))
        self._write_segment(number, data, {})
        self._extents = {key: extent for key, extent in extents.items() if extent is not None}
        with self._explained("remove merged segments"):
            self._files.delete(*(f"{self._directory}/{_segment_name(old)}" for old in before))

    def _write_segment(self, number: int, data: bytes, others: dict[int, int]) -> None:
        with self._explained("write a segment"):
            self._files.write(f"{self._directory}/{_segment_name(number)}", data)
        failpoint("pages.flush.segment")
        self.write_list({**others, number: len(data)})

    def _read(self, name: str) -> bytes:
        with self._explained(f"read its file {name}"):
            return self._files.read(f"{self._directory}/{name}")

    def _keys(self, start: bytes, end: bytes) -> set[bytes]:
        return {key for keys in (self._unflushed, self._extents) for key in keys if start <= key < end}

    def _set(self, key: bytes, value: bytes | None) -> None:
        before = self._unflushed.get(key)
        self._unflushed_bytes += len(value or b"") - len(before or b"")
        self._unflushed[key] = value

    def _place(self, key: bytes, extent: Extent | None) -> None:
        if extent is None:
            self._extents.pop(key, None)
        else:
            self._extents[key] = extent

    def _check_open(self) -> None:
        if not self._open:
            raise BugError(f"the page store in {self._directory} was used after it was closed.")

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Translate errors of the disk, and damaged bytes, into the errors of the contract."""
        where = f"the page store in {self._directory} could not {doing}"
        try:
            yield
        except (DamagedBytesError, FileNotFoundError) as error:
            raise StateCorruptionError(
                f"{where}, its files are damaged: {error}. Restore the last checkpoint that verifies."
            ) from error
        except RetryableError as error:
            if isinstance(error, StateIoError):
                raise
            raise StateIoError(f"{where}: {error} Then restart from the last checkpoint.") from error


def _segment_name(number: int) -> str:
    return f"{number:06}.pages"
