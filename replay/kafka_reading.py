"""The rows of a pipeline's Kafka source in Spark, over ranges of offsets: from archives, and from topics beyond them.

What an archive has is read there, all else in the topic: by offsets, so there is no gap and nothing twice, whatever
retention has taken away (docs/design/replay.md 3). Called by the replay with the ranges of `offsets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.model.errors import OptionError, UserError
from penstock.replay.archive_reading import TopicArchive, open_archive, scan_archive
from penstock.replay.kafka_slices import MOST_OFFSETS, OffsetRange, cut, cut_at, split
from penstock.replay.kafka_source import TopicScan, scan_topics
from penstock.replay.offsets import Kept, OffsetSelection
from penstock.replay.row_sampling import Sampling, sampled_maker
from penstock.replay.row_selection import selective_maker

Archives = Mapping[str, TopicArchive]
"""Archives by topic."""


def archives_of(source: KafkaSource, url: str, topics: Sequence[str]) -> Archives:
    """Return the archives of topics that a source reads.

    Raises:
        OptionError: the source reads what is not committed, which no archive has.
        UserError: there is no archive of one of them.
    """
    if not source.settings.committed_only:
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
    errors: bool = False,
    sampling: Sampling | None = None,
) -> DataFrame:
    """Return the rows that ``source`` has in the chosen ranges, the same that a stream reads there.

    Nothing is read yet. Messages that cannot be decoded are left out, as a stream makes dead letters of them; with
    ``errors`` each is a row of nulls and `ERROR`. Only the columns of ``source`` are decoded, see
    `KafkaSource.restrict`. With a ``sampling`` rows have `SAMPLED_FIELDS` besides.

    Raises:
        UserError: an archive is of another topic.
    """
    by_topic = archives or {}
    archived, rest = _dealt(source, chosen, by_topic)
    if sampling is not None:
        for item in (item for ranges in archived.values() for item in ranges):
            if sampling.leads((item.topic, item.partition)):
                raise UserError(
                    f"messages of {item.name} were kept by strata, so which of them stayed follows from all before "
                    "them, and an archive has them in no order: replay the topic itself, without --archive"
                )
    maker = selective_maker(source.maker.fresh(), chosen.only)
    if sampling is not None:
        maker = sampled_maker(maker, sampling)
    frames = [
        scan_archive(session, by_topic[topic], maker, ranges, errors=errors) for topic, ranges in archived.items()
    ]
    if rest or not frames:
        leads = {} if sampling is None else {key: sampling.leads(key) for key in sampling.stretches}
        whole = [item for item in rest if not leads.get((item.topic, item.partition))]
        dealt = [item for item in rest if item not in whole]
        slices = tuple(cut(whole, most_offsets))
        slices += tuple(piece for item in dealt for piece in cut_at(item, leads[item.topic, item.partition]))
        frames.append(scan_topics(session, TopicScan(source.settings, maker, slices, chosen.topic_ids, errors)))
    return reduce(lambda one, other: one.union(other), frames)


def _dealt(
    source: KafkaSource, chosen: OffsetSelection, archives: Archives
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
                f"(its id was {archived_id}, at {source.settings.bootstrap} it is {replayed_id}): replay without it"
            )
    return archived, rest
