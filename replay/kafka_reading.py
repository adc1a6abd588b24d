"""The rows of a pipeline's Kafka source in Spark, over ranges of offsets: from archives, and from topics beyond them.

What an archive has is read there, all else in the topic: by offsets, so there is no gap and nothing twice, whatever
retention has taken away (docs/design/replay.md 3). Called by the replay with the ranges of `offsets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession, functions

from penstock.engine.connectors.kafka.source import KafkaSource, SourceParts
from penstock.model.errors import OptionError, UserError
from penstock.replay.archive_reading import TopicArchive, open_archive, scan_archive
from penstock.replay.kafka_batches import ERROR, ScanContent
from penstock.replay.kafka_slices import MOST_OFFSETS, OffsetRange, cut, split
from penstock.replay.kafka_source import TopicScan, scan_topics
from penstock.replay.offsets import Kept, OffsetSelection
from penstock.replay.row_selection import selective_maker

REJECTED = "rejected"
"""What the observation of `read_counted` counts."""

Archives = Mapping[str, TopicArchive]
"""Archives by topic."""


def archives_of(source: KafkaSource, url: str, topics: Sequence[str]) -> Archives:
    """Return the archives of topics that a source reads.

    Raises:
        OptionError: the source reads what is not committed, which no archive has.
        UserError: there is no archive of one of them.
    """
    if not source.parts.settings.committed_only:
        raise OptionError(f"{source.describe()} is read with isolation.level=read_uncommitted, which no archive has")
    return {topic: open_archive(url, topic) for topic in topics}


def kept_in(archives: Archives) -> Kept:
    """Return what archives have, for `offsets.choose`."""
    return {key: ranges for archive in archives.values() for key, ranges in archive.manifest.kept().items()}


def read_rows(
    session: SparkSession,
    source: KafkaSource,
    chosen: OffsetSelection,
    *,
    archives: Archives | None = None,
    most_offsets: int = MOST_OFFSETS,
) -> DataFrame:
    """Return the rows that ``source`` has in the chosen ranges, the same that a stream reads there.

    Nothing is read yet. Messages that cannot be decoded are left out, as a stream makes dead letters of them. Only the
    columns of ``source`` are decoded, see `KafkaSource.restrict`.

    Raises:
        UserError: an archive is of another topic.
    """
    return _frame(session, source, chosen, archives or {}, most_offsets, ScanContent.ROWS)


def read_all(session: SparkSession, source: KafkaSource, chosen: OffsetSelection) -> DataFrame:
    """Return the rows as `read_rows` does, and for every message that is none a row of nulls with `ERROR`."""
    return _frame(session, source, chosen, {}, MOST_OFFSETS, ScanContent.COUNTED)


def read_counted(
    session: SparkSession,
    source: KafkaSource,
    chosen: OffsetSelection,
    *,
    archives: Archives | None = None,
    most_offsets: int = MOST_OFFSETS,
) -> tuple[DataFrame, Observation]:
    """Return the rows as `read_rows` does, and what will have counted the messages left out.

    ``observation.get["rejected"]`` has the count once a first query over the rows has ended, and waits for that.
    """
    observation = Observation(f"kafka-{uuid4().hex}")
    rows = _frame(session, source, chosen, archives or {}, most_offsets, ScanContent.COUNTED)
    error = functions.col(f"`{ERROR}`")
    return rows.observe(observation, functions.count(error).alias(REJECTED)).where(error.isNull()).drop(
        ERROR
    ), observation


def read_letters(
    session: SparkSession,
    source: KafkaSource,
    chosen: OffsetSelection,
    *,
    archives: Archives | None = None,
    most_offsets: int = MOST_OFFSETS,
) -> DataFrame:
    """Return the messages that are left out, as `LETTERS`; reads everything again for that."""
    return _frame(session, source, chosen, archives or {}, most_offsets, ScanContent.LETTERS)


def _frame(
    session: SparkSession,
    source: KafkaSource,
    chosen: OffsetSelection,
    archives: Archives,
    most_offsets: int,
    content: ScanContent,
) -> DataFrame:
    parts = source.parts
    archived, rest = _dealt(parts, chosen, archives)
    maker = selective_maker(parts.maker.fresh(), chosen.only)
    frames = [scan_archive(session, archives[topic], maker, ranges, content) for topic, ranges in archived.items()]
    if rest or not frames:
        slices = tuple(cut(rest, most_offsets))
        frames.append(scan_topics(session, TopicScan(parts.settings, maker, slices, chosen.topic_ids, content)))
    return reduce(lambda one, other: one.union(other), frames)


def _dealt(
    parts: SourceParts, chosen: OffsetSelection, archives: Archives
) -> tuple[dict[str, list[OffsetRange]], list[OffsetRange]]:
    """Return what is read from archives, by topic, and what from the topics themselves."""
    archived: dict[str, list[OffsetRange]] = {}
    rest: list[OffsetRange] = []
    kept = kept_in(archives)
    for item in chosen.ranges:
        inside, outside = split(item, kept.get((item.topic, item.partition), ()))
        if inside:
            archived.setdefault(item.topic, []).extend(inside)
        rest += outside
    for topic in archived:
        archived_id, replayed_id = archives[topic].manifest.topic_id, chosen.topic_ids.get(topic)
        if archived_id is not None and replayed_id is not None and archived_id != replayed_id:
            raise UserError(
                f"{archives[topic].files.where} is the archive of an earlier topic {topic!r} "
                f"(its id was {archived_id}, at {parts.settings.bootstrap} it is {replayed_id}): replay without it"
            )
    return archived, rest
