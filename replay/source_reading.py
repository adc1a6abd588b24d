"""Reads the sources of a pipeline for a replay: topics by exact offsets, everything else as a whole.

`compiler.compile_job` asks it for every source; what was read is kept, for reports.
"""

from __future__ import annotations

import threading

from pyspark.sql import DataFrame, SparkSession

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.engine.restore.source_positions import read_positions
from penstock.model.connectors import Source
from penstock.model.errors import UserError
from penstock.model.ids import OperatorId
from penstock.model.job_graph import JobGraph, OperatorNode, SourceSpec
from penstock.replay.bounded_source import pieces_of, scan
from penstock.replay.kafka_reading import Archives, archives_of, kept_in, read_rows
from penstock.replay.kept_log import KeptLog
from penstock.replay.offset_log import OffsetLog
from penstock.replay.offsets import Where, choose
from penstock.replay.row_sampling import sampling_of
from penstock.replay.row_selection import select_ranges
from penstock.replay.sink_sample import SinkSample
from penstock.replay.validation_result import SourceRange


class SourceReading:
    """Reads sources from ``start`` up to ``stop``, both as in `offsets.choose`; those that are no topics to their end.

    ``archive`` is where archives of topics are, which are read as far as they go; what a log ``kept`` says was not kept
    is left out. Of a log ``graded`` all rows are read, with what it says of each.
    With ``share`` the rows of a source stay in Spark, in memory or on its disks, from their first use on
    until `close`: for several sinks that need them. Several threads may call it.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        start: Where | None = None,
        stop: Where | None = None,
        archive: str | None = None,
        kept: OffsetLog | KeptLog | None = None,
        graded: KeptLog | None = None,
        tasks: int = 8,
        share: bool = False,
    ) -> None:
        """Nothing is read yet; ``tasks`` are so many as there are cores, about."""
        self.ranges: list[SourceRange] = []
        self._session = session
        self._start, self._stop = start, stop
        self._archive = archive
        self._ranges = kept if isinstance(kept, OffsetLog) else None
        self.estimates = isinstance(kept, KeptLog)
        self._rates = kept if isinstance(kept, KeptLog) else graded
        self._tasks = tasks
        self._share = share
        self._shared: dict[OperatorId, DataFrame] = {}
        self._lock = threading.Lock()

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint of the job up to which is read; None: up to something else."""
        return self._stop if isinstance(self._stop, Checkpoint) else None

    def sample(self, graph: JobGraph, sink: str) -> SinkSample | None:
        """Return the sample that a sink of a pipeline got; None: no log has rates."""
        return None if self._rates is None else SinkSample(graph, sink, self._rates, self.estimates)

    def __call__(self, node: OperatorNode) -> DataFrame:
        """Return the rows of a source.

        Raises:
            UserError: it has no end, or what is to be read is not there.
        """
        with self._lock:
            if node.id in self._shared:
                return self._shared[node.id]
            rows = self._read(node)
            if self._share:
                self._shared[node.id] = rows.persist()
            return rows

    def close(self) -> None:
        """Let go of the rows that are shared."""
        with self._lock:
            for rows in self._shared.values():
                rows.unpersist()
            self._shared.clear()

    def _read(self, node: OperatorNode) -> DataFrame:
        assert isinstance(node.spec, SourceSpec)
        source = node.spec.source
        if isinstance(source, KafkaSource):
            return self._topics(node.name, source)
        self._note(SourceRange(node.name))
        return scan(self._session, source.schema, pieces_of(self._bounded(node.name, source), self._tasks))

    def _bounded(self, name: str, source: Source) -> Source:
        """Return what of a source the job knew at the checkpoint: files may have come since."""
        if self.checkpoint is None:
            return source
        positions = {item.operator: item.positions for item in self.checkpoint.operators()}.get(name)
        if not positions:
            return source
        return source.up_to({key: item.at for key, item in read_positions(name, list(positions), positions).items()})

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
        less, left_out = (chosen, {}) if self._ranges is None else select_ranges(chosen, self._ranges)
        log, sampling = self._rates, None
        if log is not None and name in log.sources:
            sampling = sampling_of(log, name, leaves_out=self.estimates)
            if self.estimates:
                for item in chosen.ranges:
                    missing = log.left_out(name, item)
                    if missing is not None:
                        left_out[item.topic] = left_out.get(item.topic, 0) + missing
        for topic in sorted({item.topic for item in chosen.ranges}):
            own_ranges = [item for item in chosen.ranges if item.topic == topic]
            starts = {item.partition: item.start.offset for item in own_ranges}
            stops = {item.partition: item.stop.offset for item in own_ranges}
            self._note(SourceRange(name, topic, starts, stops, left_out=left_out.get(topic)))
        return read_rows(self._session, source, less, archives=archives, sampling=sampling)

    def _note(self, source_range: SourceRange) -> None:
        if source_range not in self.ranges:
            self.ranges.append(source_range)


def _names(source: KafkaSource) -> tuple[str, ...]:
    topics = source.topics
    if topics.patterns:
        raise UserError(
            f"{source.describe()} reads a pattern of topics, whose archives nobody can name: name the topics"
        )
    return topics.names
