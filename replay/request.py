"""Requests of ``penstock replay`` and ``penstock validate``: a pipeline, and bounds of its topics.

Both commands take the options below; nothing of Spark, and nothing else heavy, is imported here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from penstock.commands.arguments import optional, pairs
from penstock.model.errors import OptionError, UserError

if TYPE_CHECKING:
    from penstock.dsl.job import Job
    from penstock.replay.kept_log import KeptLog
    from penstock.replay.offset_log import OffsetLog
    from penstock.replay.offsets import Where

CHECKPOINT, LOG = "checkpoint", "kept"
"""The place that a checkpoint says, and the folder beside checkpoints where a job logs what it kept."""

CheckpointDir = Annotated[str | None, optional("DIR", "The job's checkpoints; by default as the file says.")]
CheckpointAddress = Annotated[
    str | None, optional("CHECKPOINT", "A certain one: DIR/JOB, DIR/JOB@EPOCH or DIR/JOB#SAVEPOINT.")
]
Start = Annotated[
    str | None,
    optional("WHERE", "Begin at: earliest, a time, or offsets as JSON; by default where the job began.", "--from"),
]
Stop = Annotated[
    str | None,
    optional("WHERE", "End at: checkpoint, a time, or offsets as JSON; by default at the checkpoint.", "--to"),
]
FromArchive = Annotated[
    str | None, optional("DIR", "Read archives of topics as far as they go, and the topics behind.", "--from-archive")
]
Kept = Annotated[str | None, optional("LOG", "Replay only the offsets that a log says were kept.")]


@dataclass(frozen=True, slots=True)
class ReplayBounds:
    """The part of a job's topics to replay, as the command line says it; None: not said."""

    checkpoint_dir: str | None = None
    checkpoint: str | None = None
    start: str | None = None
    stop: str | None = None
    archive: str | None = None
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A pipeline that was loaded, and from where to where its topics are replayed (None: as `offsets.choose` says).

    Only what a log ``kept`` names is replayed of the topics that it is about. ``graded`` is the log beside the job's
    checkpoints, None if there is none.
    """

    job: Job
    name: str
    start: Where | None
    stop: Where | None
    archive: str | None
    kept: OffsetLog | KeptLog | None = None
    graded: KeptLog | None = None


def load(file: Path, arguments: Sequence[str], bounds: ReplayBounds) -> ReplayRequest:
    """Load the pipeline, and the checkpoint that says up to where it has read.

    Raises:
        UserError: the file is no pipeline, or the checkpoint cannot be had.
        OptionError: a place is nothing of the kind.
    """
    from penstock.commands.loading import capture
    from penstock.engine.checkpoint.reader import Checkpoint, read_checkpoint

    job, options = capture(file, arguments)
    # Spark's workers on this machine import what this process can: also what lies beside the file.
    sys.path.append(str(file.resolve().parent))
    directory = bounds.checkpoint_dir or options.checkpoints.directory
    stop = _where("--to", bounds.stop or CHECKPOINT)
    address = None
    if stop == CHECKPOINT:
        address = bounds.checkpoint or (None if directory is None else f"{directory}/{options.name}")
        stop = None if address is None else read_checkpoint(address)
    start = None if bounds.start is None else _where("--from", bounds.start)
    kept = None if bounds.kept is None else _kept_log(bounds.kept, job)
    graded = None
    if kept is None and isinstance(stop, Checkpoint) and address is not None:
        graded = _log_beside(address, job)
    return ReplayRequest(job, options.name, start, stop, bounds.archive, kept, graded)


def spark_settings(texts: Sequence[str] | None) -> dict[str, str]:
    """Return the settings of Spark by name.

    Raises:
        OptionError: one is no name with a value.
    """
    return pairs("--spark-setting", texts, "spark.driver.memory=4g")


def _log_beside(address: str, job: Job) -> KeptLog | None:
    """Read the log beside a job's checkpoints.

    None if nothing was ever shed of its topics, or if it does not tell by offset what was: then every row that is not
    there may have been shed.
    """
    from penstock.replay.offset_log import kept_log_in
    from penstock.state.files.arrow_files import open_files

    folder = re.split(r"[@#][^/]*$", address)[0]
    log = kept_log_in(open_files(folder), f"{folder}/{LOG}", LOG)
    if log is None or not log.topics:
        return None
    _check_sources(log, job)
    return None if _dropped_by_key(log, job) else log


def _dropped_by_key(log: KeptLog, job: Job) -> list[str]:
    """Return the operators in front of which rows were dropped by their keys, by a log."""
    from penstock.engine.plan.shedding_points import shedding_points

    edges = shedding_points(job.plan().graph, bounded=True).keyed
    return sorted(consumer for producer, consumer in edges if f"{producer}>{consumer}" in log.branches)


def _check_sources(log: KeptLog, job: Job) -> None:
    """Check that a pipeline has the sources that a log is about, and that these are topics.

    Raises:
        UserError: it has not.
    """
    from penstock.engine.connectors.kafka.source import KafkaSource
    from penstock.model.job_graph import SourceSpec

    sources = {
        node.name: node.spec.source for node in job.graph.operators.values() if isinstance(node.spec, SourceSpec)
    }
    for name, topic, _ in sorted(log.stretches, key=str):
        source = sources.get(name)
        if source is None:
            raise UserError(f"the log {log.path} is about source {name!r}, which is not there: is it of this pipeline?")
        if topic is None or not isinstance(source, KafkaSource):
            raise UserError(
                f"the log {log.path} is about source {name!r}: only records of topics can be told by offset"
            )
        if not source.reads(topic):
            raise UserError(f"the log {log.path} is about topic {topic!r}, which source {name!r} does not read")


def _kept_log(path: str, job: Job) -> OffsetLog | KeptLog:
    """Read a log, and check that the pipeline reads the topics that it is about.

    Raises:
        UserError: it cannot be read, or is of something else.
    """
    from penstock.engine.connectors.kafka.source import KafkaSource
    from penstock.model.job_graph import SourceSpec
    from penstock.replay.kept_log import KeptLog
    from penstock.replay.offset_log import read_offset_log

    log = read_offset_log(path)
    if isinstance(log, KeptLog):
        _check_sources(log, job)
        if log.by_sic:
            raise UserError(
                f"by the log {log.path} rows were dropped by what they were worth (shed='sic' or 'both'): results say "
                "by no weight how many there were, so a replay cannot prove their accuracy: leave out --kept"
            )
        if by_key := _dropped_by_key(log, job):
            raise UserError(
                f"by the log {log.path} rows were dropped in front of {by_key[0]!r} by their keys, and a replay keeps "
                "rows by their offsets alone: leave out --kept"
            )
        return log
    sources = [node.spec.source for node in job.graph.operators.values() if isinstance(node.spec, SourceSpec)]
    for topic in sorted(log.topics):
        if not any(isinstance(source, KafkaSource) and source.reads(topic) for source in sources):
            raise UserError(f"the log {path} is about topic {topic!r}, which no source reads: is it of this pipeline?")
    return log


def _where(option: str, text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return text
    try:
        places = json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(f"{option} begins like offsets, but is no JSON: {error}") from None
    return places
