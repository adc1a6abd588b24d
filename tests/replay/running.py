"""A stream over a topic that has not ended: what it reads, and how it is stopped in the middle of its windows."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from penstock.dsl.handle import Handle
from penstock.dsl.job import Job
from penstock.engine.checkpoint.reader import Checkpoint, read_checkpoint
from penstock.model.job_graph import SinkSpec
from penstock.replay.source_reading import SourceReading
from penstock.replay.validation import validate_sink
from penstock.replay.validation_result import QueryValidation
from tests.replay.kafka_rows import produce

SCHEMA = {"at": "timestamp[us]", "k": int, "n": int, "name": str}
_PATIENCE_S = 60


def messages(start: int, count: int, keys: int = 7, step_ms: int = 250) -> list[bytes]:
    """Return rows whose times ascend, a key every other second and a half for some, in bursts for others."""
    rows = []
    for number in range(start, start + count):
        at_ms = 1_704_067_200_000 + number * step_ms
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms // 1000)) + f".{at_ms % 1000:03d}Z"
        rows.append({"at": text, "k": (number * number) % keys, "n": number, "name": f"n{number % 5}"})
    return [msgspec.json.encode(row) for row in rows]


def fill(kafka: str, topic: str, start: int, count: int) -> None:
    """Write rows to both partitions in turn."""
    found = messages(start, count)
    for partition in (0, 1):
        produce(kafka, topic, found[partition::2], partition)


def start(job: Job, folder: Path, **options: Any) -> Handle:
    """Start a job with checkpoints."""
    return job.start(
        "running", checkpoint_dir=folder / "checkpoints", checkpoint_interval="200ms", directory=folder, **options
    )


def wait_for(handle: Handle, rows: int) -> None:
    """Wait until sources have read so many rows."""
    pause, until = threading.Event(), time.monotonic() + _PATIENCE_S
    while handle.metrics().source_rows < rows:
        assert handle.running and time.monotonic() < until
        pause.wait(0.05)


def checkpoint_of(folder: Path, savepoint: str = "") -> Checkpoint:
    """Return the newest checkpoint, or a savepoint."""
    return read_checkpoint(f"{folder / 'checkpoints' / 'running'}{'#' * bool(savepoint)}{savepoint}")


def validated(job: Job, spark: Any, checkpoint: Checkpoint, names: Sequence[str] = ()) -> dict[str, QueryValidation]:
    """Validate the sinks of a job, or some of them, by their names."""
    reading = SourceReading(spark, stop=checkpoint, tasks=2, share=True)
    try:
        return {
            node.name: validate_sink(job.graph, node, reading, spark)
            for node in job.graph.operators.values()
            if isinstance(node.spec, SinkSpec) and (not names or node.name in names)
        }
    finally:
        reading.close()
