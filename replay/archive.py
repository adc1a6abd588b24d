"""Archives a Kafka topic as Parquet, so that a replay outlives its retention; each run goes on where the last ended.

Messages are kept as they are, bytes and all, in files by partition: any format is decoded when it is read. A run counts
once its manifest is written, whole; killed before, the next one does the same again. Called by ``penstock archive``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession, functions

from penstock.engine.connectors.kafka.formats.raw import RawValues
from penstock.engine.connectors.kafka.rows import RowMaker
from penstock.engine.connectors.kafka.settings import KafkaSettings
from penstock.engine.connectors.kafka.topics import check_name, parse_topics, partition_name
from penstock.model.errors import FatalError, OptionError, UserError
from penstock.replay.archive_files import ArchiveFiles
from penstock.replay.archive_manifest import ArchivedFile, ArchivedRange, ArchiveManifest
from penstock.replay.kafka_slices import MOST_OFFSETS, OffsetRange, cut, offset_range
from penstock.replay.kafka_source import TopicScan, scan_topics
from penstock.replay.offsets import TopicState, topic_state

COLUMNS: Mapping[str, str] = {
    name: name for name in ("partition", "offset", "timestamp", "timestamp_type", "key", "headers")
}
"""What is kept of a message beside its value."""

FOLDER = "kafka_partition"
"""What the folders of partitions are called: ``kafka_partition=3``; ``partition`` is a column of the files."""

MAKER = RowMaker(RawValues(pa.field("value", pa.binary())), None, COLUMNS, (*COLUMNS, "value"), keep_tombstones=True)
"""Makes the rows of an archive."""


@dataclass(frozen=True, slots=True)
class ArchiveRun:
    """Result of a run: messages by partition, and the ranges of offsets they came from."""

    topic: str
    where: str
    rows: int
    ranges: tuple[ArchivedRange, ...]
    gaps: tuple[OffsetRange, ...] = ()


def archive_topic(
    session: SparkSession,
    settings: KafkaSettings,
    topic: str,
    url: str,
    *,
    accept_gap: bool = False,
    most_offsets: int = MOST_OFFSETS,
) -> ArchiveRun:
    """Archive what a topic has got since the last run, up to what is committed now.

    Every message is in the archive once, whenever runs are killed; two at a time do not go well, and one of them fails.
    With ``accept_gap`` the archive goes on behind messages that retention took away before they were archived.

    Raises:
        OptionError: transactions that are not committed are asked for, or an address cannot be used.
        UserError: messages were lost to retention, the topic is another one now, or another run came first.
        RetryableError: the cluster or the storage failed; the next run does it all again.
        FatalError: what was written is not what was read; nothing counts.
    """
    if not settings.committed_only:
        raise OptionError(
            "an archive holds what is committed, so isolation.level=read_uncommitted cannot be; leave it out"
        )
    files = ArchiveFiles(url, check_name(topic))
    manifest = files.manifest()
    state = topic_state(settings, parse_topics(topic))
    _check_same(manifest, state.ids[topic], files)
    ranges, gaps = new_ranges(manifest, state)
    if gaps and not accept_gap:
        raise UserError(
            f"the topic's retention took {', '.join(map(str, gaps))} away before it was archived: run more often, and "
            "go on behind the gap with --accept-gap"
        )
    files.clean(manifest)
    if not ranges:
        return ArchiveRun(topic, files.where, 0, ())
    run = files.new_run(manifest)
    written = _write(session, settings, ranges, {topic: state.ids[topic]}, files, run, most_offsets)
    # What a topic that was made anew has under these offsets is something else.
    _check_same(manifest.with_run(state.ids[topic], ()), topic_state(settings, parse_topics(topic)).ids[topic], files)
    new = manifest.with_run(state.ids[topic], written)
    files.publish(new, manifest, run)
    files.clean(new)
    rows = sum(file.rows for item in written for file in item.files)
    return ArchiveRun(topic, files.where, rows, tuple(written), tuple(gaps))


def new_ranges(manifest: ArchiveManifest, state: TopicState) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Return what is to be archived, and what went missing since the last run.

    Raises:
        UserError: a partition ends before where the archive does.
    """
    ranges: list[OffsetRange] = []
    gaps: list[OffsetRange] = []
    ends = manifest.ends()
    for (topic, partition), low in sorted(state.low.items()):
        high = state.high[topic, partition]
        end = ends.get(partition, low)
        if end > high:
            raise UserError(
                f"partition {partition_name(topic, partition)!r} ends at offset {high}, but is archived up to {end}: "
                "the topic was cut off since; archive it somewhere else"
            )
        if end < low:
            gaps.append(offset_range(topic, partition, end, low))
        if max(end, low) < high:
            ranges.append(offset_range(topic, partition, max(end, low), high))
    return ranges, gaps


def _check_same(manifest: ArchiveManifest, topic_id: str | None, files: ArchiveFiles) -> None:
    if manifest.topic_id is not None and topic_id is not None and manifest.topic_id != topic_id:
        raise UserError(
            f"topic {manifest.topic!r} was deleted and created again (its id was {manifest.topic_id}, it is "
            f"{topic_id}), so {files.where} is the archive of another topic: archive this one somewhere else"
        )


def _write(
    session: SparkSession,
    settings: KafkaSettings,
    ranges: Sequence[OffsetRange],
    topic_ids: Mapping[str, str | None],
    files: ArchiveFiles,
    run: str,
    most_offsets: int,
) -> list[ArchivedRange]:
    """Write messages into the folder of a run and return what is in it."""
    # A task has messages of one partition, so it needs no sorting to write files by partition.
    session.conf.set("spark.sql.maxConcurrentOutputFileWriters", "2")
    rows = scan_topics(session, TopicScan(settings, MAKER, tuple(cut(ranges, most_offsets)), topic_ids))
    folder = files.spark_path(run)
    writer = rows.withColumn(FOLDER, functions.col("partition")).write.partitionBy(FOLDER)
    writer.option("compression", "zstd").parquet(folder)
    read = session.read.schema("`partition` INT, `offset` BIGINT").option("recursiveFileLookup", "true").parquet(folder)
    counts = read.groupBy("partition", functions.col("_metadata.file_path").alias("path")).agg(
        functions.count("*").alias("rows"),
        functions.min("offset").alias("first"),
        functions.max("offset").alias("last"),
    )
    files_by_partition: dict[int, list[ArchivedFile]] = {}
    for row in counts.collect():
        path = f"{run}{row['path'].partition(run)[2]}"
        files_by_partition.setdefault(row["partition"], []).append(
            ArchivedFile(path, row["rows"], row["first"], row["last"])
        )
    return [_archived_range(item, files_by_partition.get(item.partition, [])) for item in ranges]


def _archived_range(item: OffsetRange, candidates: Sequence[ArchivedFile]) -> ArchivedRange:
    """Return what a run has of a range, after a look at whether that can be."""
    files = tuple(sorted(candidates, key=lambda file: file.first))
    start, stop = item.start.offset, item.stop.offset
    at = start
    for file in files:
        if file.first < at or file.last >= stop or file.rows > file.last - file.first + 1:
            raise FatalError(
                f"the archive of {item} has messages twice, or others, in {file.path}: nothing of it counts"
            )
        at = file.last + 1
    return ArchivedRange(item.partition, start, stop, files)
