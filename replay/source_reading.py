"""Reads the sources of a pipeline for a replay: topics by exact offsets, everything else as a whole (ecosystem.md 5).

`compiler.compile_job` asks it for every source; what was read is kept, for reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.model.errors import UserError
from penstock.model.job_graph import OperatorNode, SourceSpec
from penstock.replay.bounded_source import pieces_of, scan
from penstock.replay.kafka_reading import Archives, archives_of, kept_in, read_rows
from penstock.replay.kafka_travel import parts_of
from penstock.replay.offsets import Where, choose
from penstock.replay.validation_values import SourceRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SourceReading:
    """Reads sources from ``start`` up to ``stop``, both as in `offsets.choose`; those that are no topics to their end.

    ``archive`` is where archives of topics are, which are read as far as they go.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        start: Where | None = None,
        stop: Where | None = None,
        archive: str | None = None,
        tasks: int = 8,
    ) -> None:
        """Nothing is read yet; ``tasks`` are so many as there are cores, about."""
        self.ranges: list[SourceRange] = []
        self._session = session
        self._start, self._stop = start, stop
        self._archive = archive
        self._tasks = tasks

    def __call__(self, node: OperatorNode) -> DataFrame:
        """Return the rows of a source.

        Raises:
            UserError: it has no end, or what is to be read is not there.
        """
        assert isinstance(node.spec, SourceSpec)
        source = node.spec.source
        if isinstance(source, KafkaSource):
            return self._topics(node.name, source)
        self._note(SourceRange(node.name))
        return scan(self._session, source.schema, pieces_of(source, self._tasks))

    def _topics(self, name: str, source: KafkaSource) -> DataFrame:
        if self._stop is None:
            raise UserError(
                f"source {name!r} is a topic, which grows: say up to where it is replayed, by a checkpoint of the job "
                "(checkpoint_dir in the pipeline, or --checkpoint-dir), a time or offsets (--to)"
            )
        archives: Archives = {}
        if self._archive is not None:
            archives = archives_of(source, self._archive, _names(source))
        chosen = choose(source, name, start=self._start, stop=self._stop, kept=kept_in(archives))
        for topic in sorted({item.topic for item in chosen.ranges}):
            mine = [item for item in chosen.ranges if item.topic == topic]
            starts = {item.partition: item.start.offset for item in mine}
            stops = {item.partition: item.stop.offset for item in mine}
            self._note(SourceRange(name, topic, starts, stops))
        return read_rows(self._session, source, chosen, archives=archives)

    def _note(self, found: SourceRange) -> None:
        if found not in self.ranges:
            self.ranges.append(found)


def _names(source: KafkaSource) -> tuple[str, ...]:
    topics = parts_of(source).topics
    if topics.patterns:
        raise UserError(
            f"{source.describe()} reads a pattern of topics, whose archives nobody can name: name the topics"
        )
    return topics.names
