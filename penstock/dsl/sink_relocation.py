"""Lets a pipeline write into a directory of ours, for experiments that must not touch the user's sinks."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from penstock.dsl.job import Job
from penstock.engine.connectors.files.sinks import FileSink, ParquetSink
from penstock.model.connectors import Sink
from penstock.model.job_graph import SinkSpec, SourceSpec


def relocate(job: Job, folder: Path) -> None:
    """Replace every sink of a job by one that writes to its own directory below ``folder``.

    File sinks keep their format; all others become Parquet, so that their rows can be looked at. Dead letters of
    sources go where those of the job go.
    """
    for node in list(job.graph.operators.values()):
        if isinstance(node.spec, SourceSpec):
            job.graph.add(replace(node, spec=replace(node.spec, dead_letters=None)))
        if isinstance(node.spec, SinkSpec):
            sink = _relocated_sink(node.spec.sink, output_folder(folder, node.name))
            job.graph.add(replace(node, spec=replace(node.spec, sink=sink)))


def output_folder(folder: Path, sink: str) -> Path:
    """Return where the sink of this name writes after `relocate`."""
    return folder / "sinks" / quote(sink, safe="")


def _relocated_sink(sink: Sink, folder: Path) -> Sink:
    return type(sink)(folder) if isinstance(sink, FileSink) else ParquetSink(folder)
