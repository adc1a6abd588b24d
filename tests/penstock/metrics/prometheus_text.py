"""Reads a job's metrics back from the text that `penstock.metrics.prometheus` writes, to be compared."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from penstock.engine.checkpoint.metrics import CheckpointMetrics, RegionRestarts
from penstock.engine.dataflow.accounting import TimeSpent
from penstock.engine.jobs.ledger import Ledger, OperatorLine
from penstock.engine.jobs.metrics import InstanceMetrics, JobMetrics, PartitionLag, SourceMetrics, StateMetrics
from penstock.metrics.prometheus import ACTIVITIES, FAMILIES, FATES
from penstock.state.store import Accesses

Samples = Mapping[tuple[str, ...], float]
"""Values by label values, those of a family's labels in their order."""


def parse_metrics(text: str) -> JobMetrics:
    """Return a job's metrics as far as Prometheus has them: the ledger has no edges."""
    labels = {family.name: family.subject.labels for family in FAMILIES}
    samples: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in labels}
    job = ""
    for metric in text_string_to_metric_families(text):
        for sample in metric.samples if metric.name in samples else ():
            job = sample.labels["job"]
            samples[metric.name][tuple(sample.labels[label] for label in labels[metric.name])] = sample.value
    elapsed = samples["penstock_job_elapsed_seconds"][()]
    sources = _sources(samples)
    states = _states(samples)
    return JobMetrics(
        name=job,
        elapsed_ns=round(elapsed * 1e9),
        source_rows=sum(source.rows for source in sources),
        ledger=Ledger(_lines(samples), ()),
        instances=_instances(samples),
        state_bytes=sum(state.bytes for state in states),
        sources=sources,
        states=states,
        checkpoints=_checkpoints(samples),
        loop_age_ns=_scaled(samples["penstock_loop_age_seconds"].get(()), 1e9),
    )


def _sources(samples: Mapping[str, Samples]) -> tuple[SourceMetrics, ...]:
    times, lags = samples["penstock_source_watermark_seconds"], samples["penstock_source_lag_seconds"]
    waiting = samples["penstock_partition_lag_messages"]
    return tuple(
        SourceMetrics(
            key[0],
            int(rows),
            _scaled(times.get(key), 1e6),
            _scaled(lags.get(key), 1e6),
            tuple(PartitionLag(at[1], int(count)) for at, count in waiting.items() if at[0] == key[0]),
        )
        for key, rows in samples["penstock_source_rows"].items()
    )


def _states(samples: Mapping[str, Samples]) -> tuple[StateMetrics, ...]:
    states = []
    for key, size in samples["penstock_operator_state_bytes"].items():
        count = samples["penstock_operator_state_accesses"].get(key)
        accesses = None
        if count is not None:
            hits = samples["penstock_operator_state_hits"].get(key, 0.0)
            waited_s = samples["penstock_operator_state_wait_seconds"].get(key, 0.0)
            accesses = Accesses(int(count), int(hits), round(waited_s * 1e9))
        states.append(StateMetrics(key[0], int(size), accesses))
    return tuple(states)


def _lines(samples: Mapping[str, Samples]) -> tuple[OperatorLine, ...]:
    rows_out, fates = samples["penstock_operator_rows_out"], samples["penstock_operator_rows"]
    return tuple(
        OperatorLine(
            operator=key[0],
            rows_in=int(rows_in),
            rows_out=int(rows_out.get(key, 0)),
            **{fate: int(fates.get((*key, fate), 0)) for fate in FATES},
        )
        for key, rows_in in samples["penstock_operator_rows_in"].items()
    )


def _instances(samples: Mapping[str, Samples]) -> tuple[InstanceMetrics, ...]:
    spent = samples["penstock_instance_time_seconds"]
    times = samples["penstock_instance_watermark_seconds"]
    return tuple(
        InstanceMetrics(
            task=key[0],
            instance=int(key[1]),
            time=TimeSpent(**{f"{name}_ns": round(spent.get((*key, name), 0.0) * 1e9) for name in ACTIVITIES}),
            watermark_us=_scaled(times.get(key), 1e6),
            waiting_bytes=int(waiting),
        )
        for key, waiting in samples["penstock_instance_waiting_bytes"].items()
    )


def _checkpoints(samples: Mapping[str, Samples]) -> CheckpointMetrics | None:
    begun = samples["penstock_checkpoints_begun"].get(())
    if begun is None:
        return None
    return CheckpointMetrics(
        begun=int(begun),
        committed=int(samples["penstock_checkpoints_committed"].get((), 0)),
        aborted=int(samples["penstock_checkpoints_aborted"].get((), 0)),
        restarts=int(samples["penstock_job_restarts"].get((), 0)),
        last_epoch=_scaled(samples["penstock_checkpoint_last_epoch"].get(()), 1),
        last_duration_ns=_scaled(samples["penstock_checkpoint_last_duration_seconds"].get(()), 1e9),
        last_uploaded_bytes=_scaled(samples["penstock_checkpoint_last_uploaded_bytes"].get(()), 1),
        last_reused_bytes=_scaled(samples["penstock_checkpoint_last_reused_bytes"].get(()), 1),
        last_abort=next((key[0] for key in samples["penstock_checkpoint_last_abort_info"]), None),
        regions=tuple(
            RegionRestarts(key[0], int(restarts)) for key, restarts in samples["penstock_region_restarts"].items()
        ),
        failed_retentions=int(samples["penstock_checkpoint_failed_retentions"].get((), 0)),
        last_failed_retention=next((key[0] for key in samples["penstock_checkpoint_last_failed_retention_info"]), None),
        failing=bool(samples["penstock_checkpoint_failing"].get((), 0)),
    )


def _scaled(value: float | None, unit: float) -> int | None:
    return None if value is None else round(value * unit)
