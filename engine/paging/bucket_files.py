"""Buckets as files of a checkpoint: images of each (`part_files`), and the index of those of an instance.

`images_cut` writes them, `restore.state_assignment` and `checkpoint.reader` read them. The first image of a bucket may
be followed by others with what was appended to its logs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from penstock.engine.core.contract import Notes
from penstock.engine.paging.key_ranges import Span
from penstock.engine.paging.part_files import decode_part
from penstock.model.errors import CheckpointError
from penstock.state.checkpoints.manifest import FileEntry
from penstock.state.tables.image import StoreDump, dump_of

INDEX_FILE = "buckets"
"""The name of an instance's file that lists its buckets."""


class IndexedBucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bucket in the index: the names of the files of its images, in order, and their bytes together.

    ``image`` stands for them if it is small.
    """

    low: int
    high: int
    files: tuple[str, ...]
    image_bytes: int
    notes: dict[str, Any]
    image: bytes | None = None

    @property
    def span(self) -> Span:
        """The bucket's positions."""
        return Span(self.low, self.high)


@dataclass(slots=True, eq=False)
class KeptImage:
    """One image of a bucket: ``data`` until checkpoints have it as the file ``entry``; neither: it is written anew.

    ``inline``: it lies in the index, and never becomes a file.
    """

    name: str
    bytes: int
    data: pa.Buffer | None = field(repr=False)
    entry: FileEntry | None = None
    inline: bool = False


@dataclass(slots=True, eq=False)
class KeptBucket:
    """A bucket as a checkpoint keeps it.

    ``bytes`` are those of the images that it did not have before. ``log_rows`` is what `MemoryStore.rows_of_logs` was
    of it, and ``changes`` what `MemoryStore.changes` was.
    """

    images: tuple[KeptImage, ...]
    bytes: int
    log_rows: Mapping[str, int] | None
    changes: int | None

    @property
    def is_safe(self) -> bool:
        """True if all of it are files of checkpoints."""
        return all(image.entry is not None for image in self.images)


def image_name(low: int, number: int) -> str:
    """Return the name of the file of a bucket's image: the number counts from 0."""
    return f"bucket-{low}-{number}"


def encode_index(buckets: Iterable[tuple[Span, KeptBucket, Notes]]) -> bytes:
    """Return the index of buckets, sorted."""
    return msgspec.msgpack.encode([_indexed(*bucket) for bucket in sorted(buckets, key=lambda item: item[0])])


def read_index(
    entries: Sequence[FileEntry], read: Callable[[FileEntry], bytes], where: str
) -> list[IndexedBucket] | None:
    """Return the index among the files of an instance; None: it has none. ``where`` names it in errors.

    Raises:
        CheckpointError: a file is missing or damaged, or it is no index of these files.
    """
    index = next((entry for entry in entries if entry.name == INDEX_FILE), None)
    if index is None:
        return None
    try:
        buckets = msgspec.msgpack.decode(read(index), type=list[IndexedBucket])
    except (msgspec.DecodeError, ValueError) as error:
        raise CheckpointError(f"{where}: the list of buckets cannot be read: {error}.") from None
    missing = {name for bucket in buckets for name in bucket.files} - {entry.name for entry in entries}
    if missing:
        raise CheckpointError(
            f"{where}: the list of buckets has files that are not there: {', '.join(sorted(missing))}."
        )
    return buckets


def read_images(
    bucket: IndexedBucket, entries: Sequence[FileEntry], read: Callable[[FileEntry], bytes], where: str
) -> StoreDump | None:
    """Return what a bucket of the index of these files held; None: nothing.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    by_name = {entry.name: entry for entry in entries}
    rows: list[tuple[str, pa.RecordBatch]] = []
    for data in (bucket.image,) if bucket.image is not None else (read(by_name[name]) for name in bucket.files):
        part = decode_part(data, f"{where}, bucket at position {bucket.low}")
        rows += ((table, batch) for table, batches in part.batches.items() for batch in batches)
    return dump_of(rows)


def _indexed(span: Span, kept: KeptBucket, notes: Notes) -> IndexedBucket:
    files = tuple(image.name for image in kept.images if not image.inline)
    inline = next((image.data for image in kept.images if image.inline), None)
    size = sum(image.bytes for image in kept.images)
    return IndexedBucket(span.low, span.high, files, size, dict(notes), None if inline is None else inline.to_pybytes())
