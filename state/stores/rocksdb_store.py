"""Page stores in RocksDB, by rocksdict: the contract of `page_store` on real files, and the only user of rocksdict.

Measured with pages of 64 KB (half of it random), 256 MB of them in 8 MB of memory, on two busy cores; the figures are
beside the options in `_options`. Called through `RocksDbStores` by whoever opens page stores.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from penstock.model.errors import BugError, PenstockError, StateCorruptionError, StateIoError
from penstock.model.failpoints import failpoint
from penstock.state.files.private_files import make_private_folder
from penstock.state.stores.page_store import (
    DEFAULT_MEMORY_BYTES,
    SCAN_CHUNK_BYTES,
    SMALLEST_MEMORY_BYTES,
    Page,
    PageStore,
    PageStores,
    PageStoreStatistics,
    check_memory,
)

# rocksdict holds the GIL while it writes a batch: 1 MB is about a millisecond.
_WRITE_BATCH_BYTES = 1 << 20
_RECORD_BYTES = 16
_SMALLEST_BLOB_BYTES = 4 << 10
_MEMTABLES = 2
# The shares of blob files at which collecting their garbage begins and ends.
_MUCH_GARBAGE, _KEPT_GARBAGE = 0.5, 0.4
_OPEN_FILES = 256


class RocksDbStores(PageStores):
    """Page stores in RocksDB; with ``direct_reads`` past the page cache of the system, so that it hides no miss."""

    def __init__(self, *, direct_reads: bool = False) -> None:
        """Make stores that read so; not every file system can read directly."""
        self._direct_reads = direct_reads

    def create(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> "RocksDbStore":
        """Open an empty store whose files lie in ``directory``."""
        if (directory / "CURRENT").exists():
            raise BugError(f"a new page store was to be made in {directory}, which holds one already.")
        with _explained("make a store", directory):
            make_private_folder(directory)
        return RocksDbStore(directory, memory_bytes, new=True, direct_reads=self._direct_reads)

    def restore(self, directory: Path, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> "RocksDbStore":
        """Open the files of a copy, or of a store that was closed or whose process died."""
        if not (directory / "CURRENT").is_file():
            raise StateCorruptionError(
                f"{directory} is no snapshot of a page store: its file CURRENT is missing; restore another checkpoint."
            )
        return RocksDbStore(directory, memory_bytes, new=False, direct_reads=self._direct_reads)


class RocksDbStore(PageStore):
    """One RocksDB database without a write-ahead log: pages that are not flushed die with the process.

    Memtables take at most two thirds of the memory and are charged to the block cache, which holds index and filter
    blocks too, so the capacity of the cache bounds all of it. Several threads may call at once, except `close`.
    """

    def __init__(self, directory: Path, memory_bytes: int, new: bool, *, direct_reads: bool = False) -> None:
        check_memory(memory_bytes)
        self._directory = directory
        self._memory_bytes = memory_bytes
        self._unflushed_bytes = 0
        self._collecting = False
        self._cache = Cache(memory_bytes)
        self._memtables = WriteBufferManager.new_write_buffer_manager_with_cache(
            _memtable_bytes(memory_bytes) * _MEMTABLES, False, self._cache
        )
        options = _options(self._cache, self._memtables, memory_bytes, new)
        options.set_use_direct_reads(direct_reads)
        with _explained("open a store", directory):
            self._db = Rdict(str(directory), options)
        writing = WriteOptions()
        writing.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute; the stub says a method
        self._db.set_write_options(writing)
        self._scanning = ReadOptions()
        # A scan reads each block once; it must not push out those that gets come back to.
        self._scanning.fill_cache(False)  # type: ignore[call-arg]  # the stub forgets the argument

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the page of each key, None where there is none."""
        with _explained("read pages", self._directory):
            pages: list[bytes | None] = self._db.get(list(keys))  # type: ignore[assignment]
        return pages

    def put_many(self, pages: Sequence[Page]) -> None:
        """Store pages, in batches of at most 1 MB."""
        with _explained("write pages", self._directory):
            for batch in _batches(pages, min(_WRITE_BATCH_BYTES, _memtable_bytes(self._memory_bytes))):
                self._make_room(batch.size_in_bytes())
                self._db.write(batch)

    def scan(self, start: bytes, end: bytes) -> Iterator[Page]:
        """Yield the pages with start <= key < end, ascending; read ahead by about 1 MB."""
        at: bytes | None = start
        while at is not None:
            pages, at = self._scan_chunk(at, end)
            yield from pages

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Delete the pages with start <= key < end."""
        # RocksDB takes an inverted range, and then fails every later flush.
        if start < end:
            with _explained("delete pages", self._directory):
                self._db.delete_range(start, end)

    def flush(self) -> None:
        """Return when everything put and deleted so far is durable."""
        failpoint("pages.flush.begin")
        with _explained("flush pages", self._directory):
            self._unflushed_bytes = 0
            self._db.flush()
        failpoint("pages.flush.done")

    def copy_to(self, directory: Path) -> list[str]:
        """Flush, and make ``directory`` a durable copy of the store by hard links."""
        if directory.exists():
            raise BugError(f"a snapshot was to be made in {directory}, which exists.")
        # With empty memtables the checkpoint holds the GIL for 2 ms instead of 60.
        self.flush()
        failpoint("pages.snapshot.flushed")
        with _explained(f"make a snapshot in {directory}", self._directory):
            make_private_folder(directory.parent)
            Checkpoint(self._db).create_checkpoint(str(directory))
            names = sorted(path.name for path in directory.iterdir())
        failpoint("pages.snapshot.done")
        return names

    def check(self, directory: Path, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        """Read pages back from the files of a copy; RocksDB compares every block and blob with its checksum.

        The copy is opened with a cache of its own, so that nothing is answered from memory.
        """
        if not ranges:
            return
        options = Options(raw_mode=True)
        blocks = BlockBasedOptions()
        blocks.set_block_cache(Cache(SMALLEST_MEMORY_BYTES))
        options.set_block_based_table_factory(blocks)
        options.set_keep_log_file_num(1)
        with _explained(f"check the snapshot in {directory}", self._directory):
            copy = Rdict(str(directory), options, access_type=AccessType.read_only())
            try:
                for start, end in ranges:
                    iterator = copy.iter(self._scanning)
                    iterator.seek(start)
                    while iterator.valid() and iterator.key() < end:
                        iterator.value()
                        iterator.next()
                    iterator.status()
                    del iterator
            finally:
                copy.close()

    def set_memory(self, memory_bytes: int) -> None:
        """Change the memory for memtables and block cache."""
        check_memory(memory_bytes)
        with _explained("change the memory", self._directory):
            self._db.set_options({"write_buffer_size": str(2 * _memtable_bytes(memory_bytes))})
            self._memtables.set_buffer_size(_memtable_bytes(memory_bytes) * _MEMTABLES)
            self._cache.set_capacity(memory_bytes)
        self._memory_bytes = memory_bytes

    def statistics(self) -> PageStoreStatistics:
        """Return present sizes and counts since the store was opened; takes about half a millisecond."""
        with _explained("measure a store", self._directory):
            files = ("rocksdb.total-sst-files-size", "rocksdb.total-blob-file-size")
            bytes_on_disk = sum(self._db.property_int_value(name) or 0 for name in files)
        return PageStoreStatistics(bytes_on_disk, self._cache.get_usage())

    def close(self) -> None:
        """Release files and memory; RocksDB flushes first."""
        with _explained("close a store", self._directory), suppress(DbClosedError):
            self._db.close()

    def _make_room(self, batch_bytes: int) -> None:
        """Flush before a batch that would fill the memtable; wait while the previous memtable is being flushed.

        A write that finds all memtables full waits for the disk and holds the GIL meanwhile; a flush lets go of it: the
        longest stall of another thread while 64 MB are put falls from 32-60 to 19-24 ms.
        """
        if self._unflushed_bytes + batch_bytes > _memtable_bytes(self._memory_bytes):
            self._unflushed_bytes = 0
            self._db.flush(wait=bool(self._db.property_int_value("rocksdb.num-immutable-mem-table")))
            self._collect_garbage()
        self._unflushed_bytes += batch_bytes

    def _collect_garbage(self) -> None:
        """Let compactions move live data out of the oldest blob files while too much of all blob files is garbage."""
        garbage = self._db.property_int_value("rocksdb.live-blob-file-garbage-size") or 0
        files = self._db.property_int_value("rocksdb.live-blob-file-size") or 0
        collecting = garbage > files * (_KEPT_GARBAGE if self._collecting else _MUCH_GARBAGE)
        if collecting != self._collecting:
            self._db.set_options({"enable_blob_garbage_collection": str(collecting).lower()})
            self._collecting = collecting

    def _scan_chunk(self, start: bytes, end: bytes) -> tuple[list[Page], bytes | None]:
        """Return about 1 MB of pages from ``start`` on, and the key to go on from (None: there are no more).

        An iterator of RocksDB ends at a corrupt block as it does after the last key, and only its status tells; and the
        database stays locked for as long as one exists. Therefore none outlives this method, nor its status unread.
        """
        pages: list[Page] = []
        following: bytes | None = None
        room = SCAN_CHUNK_BYTES
        with _explained("scan pages", self._directory):
            iterator = self._db.iter(self._scanning)
            try:
                iterator.seek(start)
                while iterator.valid() and (key := iterator.key()) < end:
                    if room <= 0:
                        following = key
                        break
                    value = iterator.value()
                    pages.append((key, value))
                    room -= len(key) + len(value)
                    iterator.next()
                iterator.status()
            finally:
                del iterator
        return pages, following


def _batches(pages: Sequence[Page], most_bytes: int) -> Iterator[WriteBatch]:
    """Yield batches of at most so many bytes, or of one page that is larger."""
    batch = WriteBatch(raw_mode=True)
    for key, value in pages:
        if not batch.is_empty() and batch.size_in_bytes() + len(key) + len(value) + _RECORD_BYTES > most_bytes:
            yield batch
            batch = WriteBatch(raw_mode=True)
        batch.put(key, value)
    yield batch


def _options(cache: Cache, memtables: WriteBufferManager, memory_bytes: int, new: bool) -> Options:
    """Return the options of a store whose memory is bounded by ``cache``."""
    options = Options(raw_mode=True)
    options.create_if_missing(new)
    options.set_write_buffer_manager(memtables)
    options.set_write_buffer_size(2 * _memtable_bytes(memory_bytes))
    options.set_max_write_buffer_number(_MEMTABLES)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(1)
    options.set_stats_dump_period_sec(0)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_bloom_filter(10, False)
    blocks.set_format_version(5)
    options.set_block_based_table_factory(blocks)
    # MB/s of pages put in order, put again at random (twice), got by 16 at random, scanned; bytes written for each byte
    # put, bytes on disk for each byte kept:
    #   in tables      497  225  144  2,354  2,389  3.7  3.0    with lz4  378   80   59  2,218  2,780  3.7  1.0
    #   in blob files  449  272  260    956  1,061  1.9  1.2    with lz4  307  195  183  1,132  1,235  1.4  1.1
    # What compaction writes must be uploaded with the next checkpoint, and state is rewritten as often as it is read:
    # hence blob files. Whoever makes the pages knows better which of their columns are worth compressing.
    # Files are collected when half of them is garbage, see `_collect_garbage`. If they always were, every compaction
    # would move what lives in the oldest quarter of them: 9.8 GB were written of 2.2 GB put by sweeps over buckets of
    # 5 MB, whose files are wholly garbage by themselves soon after.
    options.set_compression_type(DBCompressionType.none())
    options.set_enable_blob_files(True)
    options.set_min_blob_size(_SMALLEST_BLOB_BYTES)
    options.set_blob_compression_type(DBCompressionType.none())
    options.set_blob_file_size(64 << 20)
    options.set_enable_blob_gc(False)
    options.set_blob_gc_age_cutoff(0.25)
    options.set_blob_gc_force_threshold(_KEPT_GARBAGE)
    return options


def _memtable_bytes(memory_bytes: int) -> int:
    """Return the bytes put before a flush; RocksDB itself would flush at twice as many."""
    return memory_bytes // 3


@contextmanager
def _explained(doing: str, directory: Path) -> Iterator[None]:
    """Translate errors of rocksdict and the file system into those of the contract."""
    try:
        yield
    except DbClosedError as error:
        raise BugError(f"the page store in {directory} was asked to {doing} after it was closed.") from error
    except OSError as error:
        raise _io_error(doing, directory, error) from error
    except Exception as error:
        # Whatever RocksDB says arrives as a bare Exception that begins with its status; anything else is not its word.
        if type(error) is not Exception:
            raise
        raise _explanation(doing, directory, error) from error


def _explanation(doing: str, directory: Path, error: Exception) -> PenstockError:
    message = str(error)
    if message.startswith("IO error") and "No such file" not in message:
        return _io_error(doing, directory, error)
    return StateCorruptionError(
        f"the page store in {directory} could not {doing}, its files are damaged: {message}. "
        "Restore the last checkpoint that verifies, and look after the disk."
    )


def _io_error(doing: str, directory: Path, error: Exception) -> StateIoError:
    return StateIoError(
        f"the page store in {directory} could not {doing}, the disk failed: {error}. "
        "Make room or repair it, then restart from the last checkpoint."
    )
