"""``penstock validate``: what a stream has written beside an exact recomputation by Spark.

Heavy imports stand inside the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from penstock.commands.arguments import Arguments, File, Master, SparkSettings, optional
from penstock.commands.exit_codes import FAILED, Debug, Json, errors_as_exit_codes
from penstock.model.errors import OptionError
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
    from penstock.replay.correction import Corrector
    from penstock.replay.request import ReplayRequest
    from penstock.replay.validation_result import Validation

_BOUNDING = {"checkpoint": "--checkpoint", "start": "--from", "stop": "--to", "kept": "--kept"}
"""The options that make a replay less than the answer to all that the job has read."""


def command(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where validation.json and validation.html go.")] = Path(),
    sinks: Annotated[list[str] | None, optional("NAME", "Only what this sink got. May come again.", "--sink")] = None,
    correct: Annotated[
        str | None, optional("TOPIC", "Publish exact rows to this topic where sinks to Kafka differ from them.")
    ] = None,
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
    """Recompute on Spark what a pipeline should have written, and hold what it has written against it.

    Missing, extra and different rows are told by sink and window; estimates of what was shed are graded. Exits with 1
    if anything else differs or is below its minimum accuracy, or nothing could be compared.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.replay.session import spark_session

        spark = spark_settings(settings)
        bounds = ReplayBounds(checkpoint_dir, checkpoint, start, stop, archive, kept)
        request = load(file, arguments or [], bounds)
        chosen = _chosen_sinks(request, sinks)
        corrector = None if correct is None else _corrector(correct, bounds, request, chosen)
        with spark_session(master, settings=spark, name=f"penstock-validate-{request.name}") as session:
            validation = _validate(request, session, chosen, corrector, kept, out / "grades")
        _report(validation, out, as_json=as_json)
    if not validation.status.passes:
        raise typer.Exit(FAILED)


def _validate(
    request: ReplayRequest, session: Any, chosen: set[str], corrector: Corrector | None, kept: str | None, grades: Path
) -> Validation:
    from penstock import __version__
    from penstock.model.job_graph import SinkSpec
    from penstock.replay.source_reading import SourceReading
    from penstock.replay.suspect_operators import with_suspects
    from penstock.replay.validation import validate_sink
    from penstock.replay.validation_result import Validation

    reading = SourceReading(
        session,
        start=request.start,
        stop=request.stop,
        archive=request.archive,
        kept=request.kept,
        graded=request.graded,
        share=len(chosen) > 1,
    )
    graph = request.job.graph
    queries = [
        validate_sink(graph, node, reading, session, corrector, f"{grades}/{quote(node.name, safe='')}")
        for node in graph.operators.values()
        if isinstance(node.spec, SinkSpec) and node.name in chosen
    ]
    reading.close()
    return Validation(
        job=request.name,
        created=datetime.now(UTC),
        penstock=__version__,
        spark=session.version,
        sources=reading.ranges,
        queries=with_suspects(graph, queries),
        kept=kept,
    )


def _chosen_sinks(request: ReplayRequest, names: Sequence[str] | None) -> set[str]:
    from penstock.model.job_graph import SinkSpec

    sinks = [node.name for node in request.job.graph.operators.values() if isinstance(node.spec, SinkSpec)]
    unknown = [name for name in names or () if name not in sinks]
    if unknown:
        raise OptionError(f"--sink {unknown[0]!r}: there are {', '.join(map(repr, sinks))}")
    return set(names or sinks)


def _corrector(topic: str, bounds: ReplayBounds, request: ReplayRequest, chosen: set[str]) -> Corrector:
    """Return what publishes corrections.

    Raises:
        OptionError: the replay would not be the exact answer.
        UserError: no sink can be corrected there, or Spark is not installed.
    """
    from penstock.replay.session import check_installed

    check_installed()
    from penstock.engine.checkpoint.reader import Checkpoint
    from penstock.replay.correction import Corrector

    for name, option in _BOUNDING.items():
        if getattr(bounds, name) is not None:
            raise OptionError(
                f"--correct needs the answer to all that the job has read up to its last checkpoint: leave out {option}"
            )
    graph = request.job.graph
    checkpoint = request.stop if isinstance(request.stop, Checkpoint) else None
    corrector = Corrector(topic, graph, request.name, checkpoint)
    corrector.check([node for node in graph.operators.values() if node.name in chosen])
    return corrector


def _report(validation: Validation, out: Path, *, as_json: bool) -> None:
    from penstock.replay.report import write_report
    from penstock.replay.report_table import summary_table
    from penstock.replay.validation_json import to_json

    out.mkdir(parents=True, exist_ok=True)
    text = to_json(validation)
    (out / "validation.json").write_text(text + "\n", encoding="utf-8")
    write_report(validation, out / "validation.html")
    if as_json:
        print(text)
        return
    summary_table(validation)
    print(f"{validation.status}: {out / 'validation.html'} shows it, {out / 'validation.json'} has it for programs")
