"""A job's metrics under Prometheus names, each declared once with its description, in seconds, bytes and rows.

`metrics.server` serves them; `prometheus_text` reads them back.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.metrics import JobMetrics, SourceMetrics, StateMetrics
from penstock.state.store import Accesses

Value = int | float | None
Found = Iterable[tuple[tuple[str, ...], Value]]
"""Label values, without the job's, and the value; None is left out: it is not known or not measured."""

FATES = ("passed", "folded", "filtered", "late", "dead_lettered")
ACTIVITIES = tuple(field.name.removesuffix("_ns") for field in fields(TimeSpent))
ABORT_TEXT = 200
"""Characters of the reason of an abort that are kept."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: ``labels`` come after ``job``; samples with the same labels are combined."""

    name: str
    kind: Literal["counter", "gauge"]
    text: str
    labels: tuple[str, ...]
    read: Callable[[JobMetrics], Found]
    combine: Callable[[float, float], float] = float.__add__


def _checkpoint(name: str, unit: float = 1) -> Callable[[JobMetrics], Found]:
    def read(metrics: JobMetrics) -> Found:
        value = None if metrics.checkpoints is None else getattr(metrics.checkpoints, name)
        return [((), None if value is None else value * unit)]

    return read


def _regions(metrics: JobMetrics) -> Found:
    known = () if metrics.checkpoints is None else metrics.checkpoints.regions
    return [((item.region,), item.restarts) for item in known]


def _aborts(metrics: JobMetrics) -> Found:
    last = None if metrics.checkpoints is None else metrics.checkpoints.last_abort
    return [] if last is None else [((last[:ABORT_TEXT],), 1)]


def _failed_retentions(metrics: JobMetrics) -> Found:
    last = None if metrics.checkpoints is None else metrics.checkpoints.last_failed_retention
    return [] if last is None else [((last[:ABORT_TEXT],), 1)]


def _sources(read: Callable[[SourceMetrics], Value]) -> Callable[[JobMetrics], Found]:
    return lambda metrics: [((source.source,), read(source)) for source in metrics.sources]


def _states(read: Callable[[StateMetrics], Value]) -> Callable[[JobMetrics], Found]:
    return lambda metrics: [((state.operator,), read(state)) for state in metrics.states]


def _accesses(read: Callable[[Accesses], Value]) -> Callable[[JobMetrics], Found]:
    return _states(lambda state: None if state.accesses is None else read(state.accesses))


def _seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / 1e6


FAMILIES = (
    Family(
        "penstock_job_elapsed_seconds",
        "gauge",
        "Time since the job started, or restarted.",
        (),
        lambda metrics: [((), metrics.elapsed_ns / 1e9)],
    ),
    Family(
        "penstock_loop_age_seconds",
        "gauge",
        "Time since the loop began its last step.",
        (),
        lambda metrics: [((), None if metrics.loop_age_ns is None else metrics.loop_age_ns / 1e9)],
    ),
    Family(
        "penstock_source_rows",
        "counter",
        "Rows read by a source.",
        ("source",),
        _sources(lambda source: source.rows),
    ),
    Family(
        "penstock_source_watermark_seconds",
        "gauge",
        "Watermark of a source, in seconds since 1970 UTC.",
        ("source",),
        _sources(lambda source: _seconds(source.watermark_us)),
        min,
    ),
    Family(
        "penstock_source_lag_seconds",
        "gauge",
        "How far the watermark of a source is behind the wall clock.",
        ("source",),
        _sources(lambda source: _seconds(source.lag_us)),
        max,
    ),
    Family(
        "penstock_source_lag_messages",
        "gauge",
        "Messages of a source that are known to be there and were not read yet.",
        ("source",),
        _sources(lambda source: source.lag_messages),
    ),
    Family(
        "penstock_partition_lag_messages",
        "gauge",
        "Messages of a partition that are known to be there and were not read yet.",
        ("source", "partition"),
        lambda metrics: [
            ((source.source, item.partition), item.messages) for source in metrics.sources for item in source.partitions
        ],
    ),
    Family(
        "penstock_operator_rows_in",
        "counter",
        "Rows that came into an operator.",
        ("operator",),
        lambda metrics: [((line.operator,), line.rows_in) for line in metrics.ledger.operators],
    ),
    Family(
        "penstock_operator_rows_out",
        "counter",
        "Rows that an operator sent on.",
        ("operator",),
        lambda metrics: [((line.operator,), line.rows_out) for line in metrics.ledger.operators],
    ),
    Family(
        "penstock_operator_rows",
        "counter",
        "What became of the rows that came into an operator.",
        ("operator", "fate"),
        lambda metrics: [
            ((line.operator, fate), getattr(line, fate)) for line in metrics.ledger.operators for fate in FATES
        ],
    ),
    Family(
        "penstock_operator_state_bytes",
        "gauge",
        "Bytes that an operator holds as state.",
        ("operator",),
        _states(lambda state: state.bytes),
    ),
    Family(
        "penstock_operator_state_accesses",
        "counter",
        "How often parts of an operator's state were asked for.",
        ("operator",),
        _accesses(lambda accesses: accesses.count),
    ),
    Family(
        "penstock_operator_state_hits",
        "counter",
        "How often what was asked for of an operator's state was in memory.",
        ("operator",),
        _accesses(lambda accesses: accesses.hits),
    ),
    Family(
        "penstock_operator_state_wait_seconds",
        "counter",
        "Time to fetch what was asked for of an operator's state and not in memory.",
        ("operator",),
        _accesses(lambda accesses: accesses.waited_ns / 1e9),
    ),
    Family(
        "penstock_instance_time_seconds",
        "counter",
        "Time that an instance spent in an activity.",
        ("task", "instance", "activity"),
        lambda metrics: [
            ((item.task, str(item.instance), activity), getattr(item.time, f"{activity}_ns") / 1e9)
            for item in metrics.instances
            for activity in ACTIVITIES
        ],
    ),
    Family(
        "penstock_instance_watermark_seconds",
        "gauge",
        "Watermark of an instance, in seconds since 1970 UTC.",
        ("task", "instance"),
        lambda metrics: [((item.task, str(item.instance)), _seconds(item.watermark_us)) for item in metrics.instances],
        min,
    ),
    Family(
        "penstock_instance_waiting_bytes",
        "gauge",
        "Bytes that wait in the channels to an instance.",
        ("task", "instance"),
        lambda metrics: [((item.task, str(item.instance)), item.waiting_bytes) for item in metrics.instances],
    ),
    Family("penstock_job_restarts", "counter", "Restarts after failures.", (), _checkpoint("restarts")),
    Family(
        "penstock_region_restarts",
        "counter",
        "Restarts of the tasks that are joined by channels.",
        ("region",),
        _regions,
    ),
    Family("penstock_checkpoints_begun", "counter", "Checkpoints that were begun.", (), _checkpoint("begun")),
    Family(
        "penstock_checkpoints_committed", "counter", "Checkpoints that were committed.", (), _checkpoint("committed")
    ),
    Family("penstock_checkpoints_aborted", "counter", "Checkpoints that were given up.", (), _checkpoint("aborted")),
    Family(
        "penstock_checkpoint_failing",
        "gauge",
        "Whether the checkpoint that ended last was given up.",
        (),
        _checkpoint("failing"),
    ),
    Family("penstock_checkpoint_last_epoch", "gauge", "Epoch that was committed last.", (), _checkpoint("last_epoch")),
    Family(
        "penstock_checkpoint_last_duration_seconds",
        "gauge",
        "Time from the barriers to the manifest of the last checkpoint.",
        (),
        _checkpoint("last_duration_ns", 1e-9),
    ),
    Family(
        "penstock_checkpoint_last_uploaded_bytes",
        "gauge",
        "Bytes that the last checkpoint uploaded.",
        (),
        _checkpoint("last_uploaded_bytes"),
    ),
    Family(
        "penstock_checkpoint_last_reused_bytes",
        "gauge",
        "Bytes of the last checkpoint that were there already.",
        (),
        _checkpoint("last_reused_bytes"),
    ),
    Family("penstock_checkpoint_last_abort_info", "gauge", "Why a checkpoint was given up last.", ("reason",), _aborts),
    Family(
        "penstock_checkpoint_failed_retentions",
        "counter",
        "How often old checkpoints could not be deleted.",
        (),
        _checkpoint("failed_retentions"),
    ),
    Family(
        "penstock_checkpoint_last_failed_retention_info",
        "gauge",
        "Why old checkpoints could not be deleted last.",
        ("reason",),
        _failed_retentions,
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
            samples: dict[tuple[str, ...], float] = {}
            for labels, value in family.read(metrics):
                if value is not None:
                    known = samples.get(labels)
                    samples[labels] = float(value) if known is None else family.combine(known, float(value))
            if samples:
                metric_class = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
                metric = metric_class(family.name, family.text, labels=("job", *family.labels))
                for labels, number in samples.items():
                    metric.add_metric([metrics.name, *labels], number)
                yield metric


def exposition(read: Callable[[], JobMetrics]) -> bytes:
    """Return a job's metrics in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(JobCollector(read))
    written: bytes = generate_latest(registry)
    return written
