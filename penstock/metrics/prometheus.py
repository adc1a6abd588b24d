"""A job's metrics under Prometheus names, each declared once with its description, in seconds, bytes and rows.

`http_api` serves them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.engine.checkpoint.metrics import CheckpointMetrics
from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.metrics import JobMetrics

FATES = ("passed", "folded", "filtered", "late", "dead_lettered", "shed")
ACTIVITIES = tuple(field.name.removesuffix("_ns") for field in fields(TimeSpent))
ABORT_TEXT = 200
"""Characters of the reason of an abort that are kept."""


Combine = Callable[[float, float], float]


@dataclass(frozen=True, slots=True)
class Subject:
    """Parts of a job that have metrics: each with the values of its labels, which come after ``job``."""

    labels: tuple[str, ...]
    parts: Callable[[JobMetrics], Iterable[tuple[tuple[str, ...], Any]]]

    def counter(self, name: str, text: str, attribute: str = "", per: float = 1) -> "Family":
        """Return a metric that only grows; see `Family`."""
        return Family(f"penstock_{name}", "counter", text, self, attribute, per)

    def gauge(
        self, name: str, text: str, attribute: str = "", per: float = 1, combine: Combine = float.__add__
    ) -> "Family":
        """Return a metric that goes up and down; see `Family`."""
        return Family(f"penstock_{name}", "gauge", text, self, attribute, per, combine)


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: an ``attribute`` of each part of a subject ("": the part itself is the number), in a larger unit.

    ``per`` is how many of the attribute's units the metric's unit has. An attribute that is None is left out: it is
    not known or not measured. Numbers with the same labels are combined.
    """

    name: str
    kind: Literal["counter", "gauge"]
    text: str
    subject: Subject
    attribute: str
    per: float = 1
    combine: Combine = float.__add__

    def samples(self, metrics: JobMetrics) -> dict[tuple[str, ...], float]:
        """Return the numbers by the values of their labels."""
        samples: dict[tuple[str, ...], float] = {}
        for labels, part in self.subject.parts(metrics):
            value = getattr(part, self.attribute) if self.attribute else part
            if value is not None:
                number = float(value / self.per)
                samples[labels] = self.combine(samples[labels], number) if labels in samples else number
        return samples


def _checkpoints(metrics: JobMetrics) -> Iterable[CheckpointMetrics]:
    return () if metrics.checkpoints is None else (metrics.checkpoints,)


def _reason(attribute: Literal["last_abort", "last_failed_retention"]) -> Subject:
    def parts(metrics: JobMetrics) -> Iterable[tuple[tuple[str, ...], Any]]:
        reasons = (getattr(checkpoints, attribute) for checkpoints in _checkpoints(metrics))
        return [((reason[:ABORT_TEXT],), 1) for reason in reasons if reason is not None]

    return Subject(("reason",), parts)


JOB = Subject((), lambda metrics: [((), metrics)])
SOURCE = Subject(("source",), lambda metrics: [((item.source,), item) for item in metrics.sources])
PARTITION = Subject(
    ("source", "partition"),
    lambda metrics: [
        ((source.source, item.partition), item) for source in metrics.sources for item in source.partitions
    ],
)
OPERATOR = Subject(("operator",), lambda metrics: [((line.operator,), line) for line in metrics.ledger.operators])
OPERATOR_FATE = Subject(
    ("operator", "fate"),
    lambda metrics: [
        ((line.operator, fate), getattr(line, fate)) for line in metrics.ledger.operators for fate in FATES
    ],
)
STATE = Subject(("operator",), lambda metrics: [((item.operator,), item) for item in metrics.states])
ACCESSES = Subject(
    ("operator",),
    lambda metrics: [((item.operator,), item.accesses) for item in metrics.states if item.accesses is not None],
)
INSTANCE = Subject(
    ("task", "instance"), lambda metrics: [((item.task, str(item.instance)), item) for item in metrics.instances]
)
ACTIVITY = Subject(
    ("task", "instance", "activity"),
    lambda metrics: [
        ((item.task, str(item.instance), activity), getattr(item.time, f"{activity}_ns"))
        for item in metrics.instances
        for activity in ACTIVITIES
    ],
)
SHED_SOURCE = Subject(
    ("source",),
    lambda metrics: [((source,), rate) for source, rate in (metrics.shedding.sources if metrics.shedding else ())],
)
QUERY = Subject(
    ("query",),
    lambda metrics: [((each.query,), each) for each in (metrics.shedding.queries if metrics.shedding else ())],
)
MOVES = Subject((), lambda metrics: [] if metrics.moves is None else [((), metrics.moves)])
ROUTE_ROWS = Subject(
    ("producer", "consumer", "instance"),
    lambda metrics: [
        ((route.producer, route.consumer, str(number)), rows)
        for route in metrics.routes
        for number, rows in enumerate(route.rows)
    ],
)
ROUTE_SHARES = Subject(
    ("producer", "consumer", "instance"),
    lambda metrics: [
        ((route.producer, route.consumer, str(number)), share)
        for route in metrics.routes
        for number, share in enumerate(route.shares)
    ],
)
CHECKPOINTS = Subject((), lambda metrics: [((), checkpoints) for checkpoints in _checkpoints(metrics)])
REGION = Subject(
    ("region",),
    lambda metrics: [((item.region,), item) for checkpoints in _checkpoints(metrics) for item in checkpoints.regions],
)


FAMILIES = (
    JOB.gauge("job_elapsed_seconds", "Time since the job started, or restarted.", "elapsed_ns", 1e9),
    JOB.gauge("loop_age_seconds", "Time since the loop began its last step.", "loop_age_ns", 1e9),
    SOURCE.counter("source_rows", "Rows read by a source.", "rows"),
    SOURCE.gauge(
        "source_watermark_seconds", "Watermark of a source, in seconds since 1970 UTC.", "watermark_us", 1e6, min
    ),
    SOURCE.gauge(
        "source_lag_seconds", "How far the watermark of a source is behind the wall clock.", "lag_us", 1e6, max
    ),
    SOURCE.gauge(
        "source_lag_messages", "Messages of a source that are known to be there and were not read yet.", "lag_messages"
    ),
    PARTITION.gauge(
        "partition_lag_messages",
        "Messages of a partition that are known to be there and were not read yet.",
        "messages",
    ),
    SHED_SOURCE.gauge("source_keep_ratio", "Share of the rows of a source that is kept, where that is below 1."),
    QUERY.gauge("query_desired_accuracy_ratio", "Share of the rows behind a query that is to be kept.", "desired"),
    QUERY.gauge("query_current_accuracy_ratio", "Share of the rows behind a query that was kept.", "current"),
    OPERATOR.counter("operator_rows_in", "Rows that came into an operator.", "rows_in"),
    OPERATOR.counter("operator_rows_out", "Rows that an operator sent on.", "rows_out"),
    OPERATOR_FATE.counter("operator_rows", "What became of the rows that came into an operator."),
    STATE.gauge("operator_state_bytes", "Bytes that an operator holds as state.", "bytes"),
    ACCESSES.counter("operator_state_accesses", "How often parts of an operator's state were asked for.", "count"),
    ACCESSES.counter(
        "operator_state_hits", "How often what was asked for of an operator's state was in memory.", "hits"
    ),
    ACCESSES.counter(
        "operator_state_wait_seconds",
        "Time to fetch what was asked for of an operator's state and not in memory.",
        "waited_ns",
        1e9,
    ),
    ACTIVITY.counter("instance_time_seconds", "Time that an instance spent in an activity.", per=1e9),
    INSTANCE.gauge(
        "instance_watermark_seconds", "Watermark of an instance, in seconds since 1970 UTC.", "watermark_us", 1e6, min
    ),
    INSTANCE.gauge("instance_waiting_bytes", "Bytes that wait in the channels to an instance.", "waiting_bytes"),
    ROUTE_ROWS.counter("route_rows", "Rows that may go to any instance of an operator, by the one that they went to."),
    ROUTE_SHARES.gauge("route_share_ratio", "Share of such rows that an instance is to get.", combine=max),
    MOVES.counter("moves_done", "Moves of key groups between instances that are done.", "done"),
    MOVES.counter("moves_failed", "Moves of key groups that were given up or refused.", "failed"),
    MOVES.counter("moves_key_groups", "Key groups that have moved.", "key_groups"),
    MOVES.counter("moves_state_bytes", "Bytes of state that have moved.", "state_bytes"),
    MOVES.counter("moves_seconds", "Time that moves took which are done.", "took_ms", 1e3),
    MOVES.gauge(
        "move_last_pause_seconds",
        "Pause of a key group in the last move that is done, 99th percentile.",
        "pause_p99_ms",
        1e3,
    ),
    MOVES.gauge(
        "move_last_marker_seconds",
        "Time that the marker took in the last move that is done, 99th percentile.",
        "marker_p99_ms",
        1e3,
    ),
    CHECKPOINTS.counter("job_restarts", "Restarts after failures.", "restarts"),
    REGION.counter("region_restarts", "Restarts of the tasks that are joined by channels.", "restarts"),
    CHECKPOINTS.counter("checkpoints_begun", "Checkpoints that were begun.", "begun"),
    CHECKPOINTS.counter("checkpoints_committed", "Checkpoints that were committed.", "committed"),
    CHECKPOINTS.counter("checkpoints_aborted", "Checkpoints that were given up.", "aborted"),
    CHECKPOINTS.gauge("checkpoint_failing", "Whether the checkpoint that ended last was given up.", "failing"),
    CHECKPOINTS.gauge("checkpoint_last_epoch", "Epoch that was committed last.", "last_epoch"),
    CHECKPOINTS.gauge(
        "checkpoint_last_duration_seconds",
        "Time from the barriers to the manifest of the last checkpoint.",
        "last_duration_ns",
        1e9,
    ),
    CHECKPOINTS.gauge(
        "checkpoint_last_uploaded_bytes", "Bytes that the last checkpoint uploaded.", "last_uploaded_bytes"
    ),
    CHECKPOINTS.gauge(
        "checkpoint_last_reused_bytes", "Bytes of the last checkpoint that were there already.", "last_reused_bytes"
    ),
    _reason("last_abort").gauge("checkpoint_last_abort_info", "Why a checkpoint was given up last."),
    CHECKPOINTS.counter(
        "checkpoint_failed_retentions", "How often old checkpoints could not be deleted.", "failed_retentions"
    ),
    _reason("last_failed_retention").gauge(
        "checkpoint_last_failed_retention_info", "Why old checkpoints could not be deleted last."
    ),
)


class JobCollector(Collector):
    """Reads a job's metrics whenever Prometheus asks."""

    def __init__(self, read: Callable[[], JobMetrics]) -> None:
        """Ask ``read``, from the thread that collects."""
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield every family that has samples."""
        metrics = self._read()
        for family in FAMILIES:
            samples = family.samples(metrics)
            if samples:
                metric_class = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
                metric = metric_class(family.name, family.text, labels=("job", *family.subject.labels))
                for labels, number in samples.items():
                    metric.add_metric([metrics.name, *labels], number)
                yield metric


def exposition(read: Callable[[], JobMetrics]) -> bytes:
    """Return a job's metrics in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(JobCollector(read))
    written: bytes = generate_latest(registry)
    return written
