"""Reads the archives of topics in Spark: the rows that a stream's source makes of the messages in them.

Which files have which offsets is in the manifests; what else lies there is not looked at. Called by `kafka_reading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.connectors.kafka.encoded import byte_lists
from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.model.errors import UserError
from penstock.replay.archive import MAKER
from penstock.replay.archive_files import ArchiveFiles
from penstock.replay.archive_manifest import ArchiveManifest
from penstock.replay.kafka_batches import scan_batch, scan_schema
from penstock.replay.kafka_slices import OffsetRange
from penstock.replay.spark_types import spark_schema

_KINDS = {None: 0, "create": 1, "append": 2}


@dataclass(frozen=True, slots=True)
class TopicArchive:
    """The archive of one topic as its manifest says now."""

    files: ArchiveFiles
    manifest: ArchiveManifest

    def paths(self, ranges: Sequence[OffsetRange]) -> list[str]:
        """Return what Spark calls the files with messages of ranges."""
        paths: dict[str, None] = {}
        for item in ranges:
            stop = item.stop.offset + (1 if item.stop.rows else 0)
            paths |= dict.fromkeys(self.manifest.files(item.partition, item.start.offset, stop))
        return [self.files.spark_path(path) for path in paths]


def open_archive(url: str, topic: str) -> TopicArchive:
    """Return the archive of a topic below an address.

    Raises:
        UserError: there is none.
    """
    files = ArchiveFiles(url, topic)
    manifest = files.manifest()
    if not manifest.runs:
        raise UserError(
            f"there is no archive of topic {topic!r} in {url}: make one by penstock archive {topic} --out {url}"
        )
    return TopicArchive(files, manifest)


def scan_archive(
    session: SparkSession, archive: TopicArchive, maker: RowMaker, ranges: Sequence[OffsetRange], *, errors: bool
) -> DataFrame:
    """Return what the archive has of ranges, all of which lie in it; nothing is read yet."""
    schema = spark_schema(scan_schema(maker.schema, errors=errors))
    paths = archive.paths(ranges)
    if not paths:
        return session.createDataFrame([], schema)
    # A file may be cut into parts, of which each has its messages in order.
    rows = session.read.schema(spark_schema(MAKER.schema)).option("recursiveFileLookup", "true").parquet(*paths)
    return rows.mapInArrow(_decoding(archive.manifest.topic, maker, ranges, errors), schema)


def _decoding(
    topic: str, maker: RowMaker, ranges: Sequence[OffsetRange], errors: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that workers call; it is sent with all that it needs."""
    by_partition: dict[int, list[OffsetRange]] = {}
    for item in sorted(ranges, key=lambda item: item.start):
        by_partition.setdefault(item.partition, []).append(item)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own = maker.fresh()
        for batch in batches:
            for part in _runs(batch):
                messages = _messages(topic, part)
                for item in by_partition.get(messages.partition, ()):
                    rows = _decoded_rows(own, messages, item, errors)
                    if rows is not None:
                        yield rows

    return decode


def _decoded_rows(maker: RowMaker, messages: Messages, item: OffsetRange, errors: bool) -> pa.RecordBatch | None:
    """Return what is wanted of those messages that lie in a range."""
    stop = item.stop.offset + (1 if item.stop.rows else 0)
    low, high = np.searchsorted(messages.offsets, [item.start.offset, stop]).tolist()
    if low >= high:
        return None
    inside = messages.slice(low, high)
    decoded = maker.make(inside)
    rejected = [reason for _, reason in decoded.errors]
    return scan_batch(_trimmed(decoded, inside.offsets, item), rejected, maker.schema, errors=errors)


def _trimmed(decoded: DecodedMessages, offsets: NDArray[np.int64], item: OffsetRange) -> pa.RecordBatch:
    """Leave out the rows of a first message before the range, and of a last one behind it."""
    if not (item.start.rows or item.stop.rows) or not decoded.rows.num_rows:
        return decoded.rows
    of = offsets[decoded.row_of]
    ranks = np.arange(len(of)) - np.searchsorted(decoded.row_of, decoded.row_of)
    out = (of == item.start.offset) & (ranks < item.start.rows)
    out |= (of == item.stop.offset) & (ranks >= item.stop.rows)
    return decoded.rows.filter(pa.array(~out))


def _runs(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch where a partition, or its order, ends: Spark puts small files together."""
    if not batch.num_rows:
        return
    partitions, offsets = np.asarray(batch.column("partition")), np.asarray(batch.column("offset"))
    breaks = (partitions[1:] != partitions[:-1]) | (offsets[1:] <= offsets[:-1])
    cuts = [0, *(np.flatnonzero(breaks) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(cuts):
        yield batch.slice(start, end - start)


def _messages(topic: str, batch: pa.RecordBatch) -> Messages:
    """Return the messages that rows of an archive were made from."""
    keys = byte_lists(batch.column("key"))
    headers = [
        None if not item else [(header["key"], header["value"]) for header in item]
        for item in batch.column("headers").to_pylist()
    ]
    stamps = np.zeros(batch.num_rows, [("kind", np.int64), ("ms", np.int64)])
    stamps["kind"] = [_KINDS[kind] for kind in batch.column("timestamp_type").to_pylist()]
    stamps["ms"] = np.asarray(batch.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).fill_null(0))
    return Messages(
        topic,
        batch.column("partition")[0].as_py(),
        byte_lists(batch.column("value")),
        np.asarray(batch.column("offset")),
        stamps,
        None if keys.count(None) == len(keys) else keys,
        None if headers.count(None) == len(headers) else headers,
    )
