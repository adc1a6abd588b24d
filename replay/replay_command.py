"""``penstock replay``: the exact answer of a pipeline by Spark, written to files.

Heavy imports stand inside the command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from penstock.commands.arguments import Arguments, File, Master, SparkSettings, optional
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes
from penstock.model.errors import UserError
from penstock.replay.request import (
    CheckpointAddress,
    CheckpointDir,
    FromArchive,
    Kept,
    ReplayBounds,
    Start,
    Stop,
    load,
    spark_settings,
)

if TYPE_CHECKING:
    from penstock.replay.frames import Frame
    from penstock.replay.request import ReplayRequest


class OutputFormat(StrEnum):
    """The format of the written files."""

    PARQUET = "parquet"
    JSON = "json"


def command(
    context: typer.Context,
    file: File,
    out: Annotated[str, optional("DIR", "Write a directory for each sink here.")],
    arguments: Arguments = None,
    format: Annotated[OutputFormat, typer.Option(help="What files are written as.")] = OutputFormat.PARQUET,
    checkpoint_dir: CheckpointDir = None,
    checkpoint: CheckpointAddress = None,
    start: Start = None,
    stop: Stop = None,
    archive: FromArchive = None,
    kept: Kept = None,
    master: Master = None,
    settings: SparkSettings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compute what a pipeline's sinks should get, exactly, as a batch on Spark, and write it to files.

    Nothing is written to the sinks themselves. Topics are read by offsets, up to those of the job's last checkpoint and
    never to "latest"; files and other bounded sources are read whole.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.replay.session import spark_session

        spark = spark_settings(settings)
        request = load(file, arguments or [], ReplayBounds(checkpoint_dir, checkpoint, start, stop, archive, kept))
        with spark_session(master, settings=spark, name=f"penstock-replay-{request.name}") as session:
            outputs = _replay(request, session, out, format)
        _print(outputs, as_json=as_json)


def _replay(request: ReplayRequest, session: Any, out: str, format: OutputFormat) -> list[dict[str, Any]]:
    from penstock.model.job_graph import SinkSpec
    from penstock.replay.compiler import compile_job, plain
    from penstock.replay.source_reading import SourceReading

    reading = SourceReading(session, start=request.start, stop=request.stop, archive=request.archive, kept=request.kept)
    graph = request.job.graph
    sinks = [node.name for node in graph.operators.values() if isinstance(node.spec, SinkSpec)]
    samples = {name: reading.sample(graph, name) for name in sinks}
    if not any(samples.values()):
        return _write(compile_job(graph, reading), out, format)
    frames = {name: compile_job(graph, reading, sink=name, sample=samples[name])[name] for name in sinks}
    return _write({name: plain(frame) for name, frame in frames.items()}, out, format)


def _write(frames: Mapping[str, Frame], out: str, format: OutputFormat) -> list[dict[str, Any]]:
    from pyspark.sql import Observation, functions

    outputs: list[dict[str, Any]] = []
    for sink, frame in frames.items():
        target = f"{out.rstrip('/')}/{quote(sink, safe='')}"
        if "://" not in target and Path(target).exists():
            raise UserError(f"{target} is there already: remove it, or choose another --out")
        counted = Observation()
        rows = frame.rows.observe(counted, functions.count(functions.lit(1)).alias("rows"))
        rows.write.format(format.value).save(target)
        outputs.append({"sink": sink, "rows": counted.get["rows"], "files": target})
    return outputs


def _print(outputs: list[dict[str, Any]], *, as_json: bool) -> None:
    from penstock.tables import Column, count_text, print_table

    if as_json:
        print(json.dumps({"status": "ok", "sinks": outputs}))
        return
    columns = [Column("sink", figures=False), Column("rows"), Column("files", figures=False)]
    print_table(columns, [[item["sink"], count_text(item["rows"]), item["files"]] for item in outputs])
