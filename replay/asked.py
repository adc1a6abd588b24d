"""What ``penstock replay`` and ``penstock validate`` are asked: a pipeline, what of its topics, and where Spark runs.

Both commands add these options to their parsers; nothing of Spark is imported here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.commands.loading import capture
from penstock.dsl.job import Job
from penstock.model.errors import OptionError, UserError
from penstock.model.job_graph import SourceSpec

if TYPE_CHECKING:
    from penstock.replay.kept_log import KeptLog
    from penstock.replay.offsets import Where

CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Asked:
    """A pipeline that was loaded, and from where to where its topics are replayed (None: as `offsets.choose` says).

    Only what a log ``kept`` names is replayed of the topics that it is about.
    """

    job: Job
    name: str
    start: Where | None
    stop: Where | None
    archive: str | None
    kept: KeptLog | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that both commands have."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the pipeline, as for penstock run")
    parser.add_argument("--checkpoint-dir", metavar="DIR", help="the job's checkpoints (default: as the file says)")
    parser.add_argument("--checkpoint", metavar="WHERE", help="a certain one: DIR/JOB, DIR/JOB@EPOCH or DIR/JOB#NAME")
    parser.add_argument(
        "--from", metavar="WHERE", dest="start", help="begin at: earliest, a time, or offsets as JSON (as the job did)"
    )
    parser.add_argument(
        "--to", metavar="WHERE", dest="stop", help="end at: checkpoint, a time, or offsets as JSON (checkpoint)"
    )
    parser.add_argument(
        "--from-archive", metavar="DIR", dest="archive", help="read archives of topics as far as they go"
    )
    parser.add_argument("--kept", metavar="LOG", help="replay only the offsets that a log says were kept")
    add_spark_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--debug", action="store_true", help="show full tracebacks")


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where Spark runs, and how."""
    parser.add_argument("--master", metavar="URL", help="where Spark runs: local[4], spark://..., sc://... (local[*])")
    parser.add_argument(
        "--spark",
        metavar="KEY=VALUE",
        dest="spark_settings",
        action="append",
        default=[],
        help="a setting of Spark; may come again",
    )


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Return the options, with what stands behind ``--`` as ``arguments`` of the file."""
    cut = list(argv).index("--") if "--" in argv else len(argv)
    given = parser.parse_args(argv[:cut])
    given.arguments = list(argv[cut + 1 :])
    return given


def load(arguments: argparse.Namespace) -> Asked:
    """Load the pipeline, and the checkpoint that says up to where it has read.

    Raises:
        UserError: the file is no pipeline, or the checkpoint cannot be had.
        OptionError: a place is nothing of the kind.
    """
    from penstock.engine.checkpoint.reader import read_checkpoint

    job, options = capture(arguments.file, arguments.arguments)
    # Spark's workers on this machine import what this process can: also what lies beside the file.
    sys.path.append(str(arguments.file.resolve().parent))
    directory = arguments.checkpoint_dir or options.checkpoints.directory
    stop = _where("--to", arguments.stop or CHECKPOINT)
    if stop == CHECKPOINT:
        address = arguments.checkpoint or (None if directory is None else f"{directory}/{options.name}")
        stop = None if address is None else read_checkpoint(address)
    start = None if arguments.start is None else _where("--from", arguments.start)
    kept = None if arguments.kept is None else _kept_log(arguments.kept, job)
    return Asked(job, options.name, start, stop, arguments.archive, kept)


def spark_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the settings of Spark by name.

    Raises:
        OptionError: one is not KEY=VALUE.
    """
    found = {}
    for text in arguments.spark_settings:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OptionError(f"--spark is KEY=VALUE, such as spark.driver.memory=4g, not {text!r}")
        found[key] = value
    return found


def _kept_log(path: str, job: Job) -> KeptLog:
    """Read a log, and check that the pipeline reads the topics that it is about.

    Raises:
        UserError: it cannot be read, or is of something else.
    """
    from penstock.engine.connectors.kafka.source import KafkaSource
    from penstock.replay.kept_log import read_kept_log

    log = read_kept_log(path)
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
