"""Publishes exact rows where a sink differs from them (docs/reference/validation.md): ``penstock validate --correct``.

What the sink wrote and the topic of corrections are the exact answer together: so a second run publishes nothing. All
corrections of a sink are one transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from penstock.engine.checkpoint.reader import Checkpoint
from penstock.engine.connectors.kafka.producing import check_topic
from penstock.engine.connectors.kafka.sink import KafkaSink
from penstock.engine.connectors.kafka.source import KafkaSource
from penstock.engine.connectors.kafka.topics import check_name
from penstock.model.errors import OptionError
from penstock.model.job_graph import JobGraph, OperatorNode, SinkSpec, SourceSpec
from penstock.replay.comparison import DIFFERENT, EXTRA, MISSING, STATUS
from penstock.replay.comparison_sides import WholeSides
from penstock.replay.corrected_rows import CHOICE, CORRECTED, LEFT, OPEN, CorrectionRule, chosen
from penstock.replay.correction_headers import Headers
from penstock.replay.correction_messages import CALL_S, CLIENT, CorrectionEncoder, pieces, sending
from penstock.replay.pending_corrections import correction_changes, pending_corrections, published_corrections
from penstock.replay.topic_formats import KEY
from penstock.replay.validation_result import CorrectionResult


class Corrector:
    """Publishes corrections of the sinks of one job to one topic."""

    def __init__(self, topic: str, graph: JobGraph, job: str, checkpoint: Checkpoint | None) -> None:
        """``checkpoint`` is the one up to which the job has read.

        Raises:
            OptionError: that is no name of a topic, or the job reads it.
        """
        self.topic = check_name(topic)
        self._graph, self._job, self._checkpoint = graph, job, checkpoint
        self._one_at_a_time = threading.Lock()
        reading = [node.name for node in graph.operators.values() if _reads(node, topic)]
        if reading:
            raise OptionError(
                f"--correct {topic}: source {reading[0]!r} reads this topic, so corrections would be its input; name "
                "another one"
            )

    def check(self, sinks: Sequence[OperatorNode]) -> None:
        """Make sure that one of these sinks can be corrected, and that the topic is there.

        Raises:
            UserError: none can, or there is no such topic.
            RetryableError: the cluster does not answer.
        """
        reasons = [self._unfit(node) for node in sinks]
        if None not in reasons:
            raise OptionError(f"--correct {self.topic}: {'; '.join(map(str, reasons))}")
        for node, reason in zip(sinks, reasons, strict=True):
            if reason is None:
                check_topic(_kafka(node).settings, CLIENT, self.topic)

    def correct(
        self,
        session: SparkSession,
        node: OperatorNode,
        keys: Sequence[str],
        sides: WholeSides,
        rule: CorrectionRule,
    ) -> CorrectionResult:
        """Publish where a sink differs from the exact answer, as far as that is to be corrected now.

        Raises:
            PenstockError: they could not be published, and none of them is.
        """
        why = self._unfit(node)
        if why is None and rule.queued is not None and not keys:
            why = f"no column tells rows of sink {node.name!r} apart, so it cannot be said which one is too inaccurate"
        if why is not None:
            return CorrectionResult(topic=self.topic, why=why)
        assert isinstance(node.spec, SinkSpec)
        epoch = None if self._checkpoint is None else self._checkpoint.epoch
        schema = sides.schema
        sink, about = _kafka(node), Headers(self._job, node.name, epoch)
        with self._one_at_a_time, sending(sink.settings, self.topic) as messenger:
            own = self.topic == sink.topic
            before = None if own else published_corrections(session, node, schema.fields, self.topic, about)
            pending = pending_corrections(
                session, node, schema.fields, keys, sides.stream, sides.exact, before, self._checkpoint
            )
            differing = chosen(pending, rule).persist()
            try:
                found = differing.groupBy(CHOICE, STATUS).count().collect()
                counts = {row[STATUS]: int(row["count"]) for row in found if row[CHOICE] == CORRECTED}
                others = {name: sum(int(row["count"]) for row in found if row[CHOICE] == name) for name in (OPEN, LEFT)}
                corrections = correction_changes(differing.where(f.col(CHOICE) == CORRECTED), node.spec.mode)
                sent = 0
                if counts:
                    encoder = CorrectionEncoder(node.spec, schema, self.topic, about)
                    messenger.producer.begin_transaction()
                    by = [KEY] if node.spec.mode == "upsert" else keys or schema.fields.names
                    for rows in pieces(corrections, by, 2 * sum(counts.values())):
                        messenger.put(encoder.encode(rows))
                        sent += rows.num_rows
                    messenger.flush()
                    messenger.producer.commit_transaction(CALL_S)
            finally:
                differing.unpersist()
        return CorrectionResult(
            topic=self.topic,
            missing=counts.get(MISSING, 0),
            extra=counts.get(EXTRA, 0),
            different=counts.get(DIFFERENT, 0),
            messages=sent,
            open=others[OPEN],
            left=others[LEFT],
        )

    def _unfit(self, node: OperatorNode) -> str | None:
        """Return why the rows of a sink cannot be corrected in the topic, None if they can."""
        spec = node.spec
        assert isinstance(spec, SinkSpec)
        if not isinstance(spec.sink, KafkaSink):
            return (
                f"sink {node.name!r} writes to {spec.sink.describe()}, and corrections are messages as a sink writes "
                "them to Kafka"
            )
        if not spec.sink.takes_corrections:
            return f"sink {node.name!r} does not write JSON, and corrections are JSON"
        for other in self._graph.operators.values():
            if other.id != node.id and isinstance(other.spec, SinkSpec) and _topic(other.spec) == self.topic:
                return f"{self.topic!r} is the topic of sink {other.name!r}, so name another one for {node.name!r}"
        if spec.sink.topic == self.topic and spec.mode == "append":
            return (
                f"sink {node.name!r} appends to {self.topic!r} itself, where nothing can be taken back, so name "
                "another topic"
            )
        return None


def _kafka(node: OperatorNode) -> KafkaSink:
    assert isinstance(node.spec, SinkSpec) and isinstance(node.spec.sink, KafkaSink)
    return node.spec.sink


def _topic(spec: SinkSpec) -> str | None:
    return spec.sink.topic if isinstance(spec.sink, KafkaSink) else None


def _reads(node: OperatorNode, topic: str) -> bool:
    source = node.spec.source if isinstance(node.spec, SourceSpec) else None
    return isinstance(source, KafkaSource) and source.reads(topic)
