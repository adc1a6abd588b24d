"""``penstock validate``: holds what a stream has written against an exact recomputation by Spark."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.model.errors import OptionError, PenstockError
from penstock.model.job_graph import SinkSpec
from penstock.replay.asked import Asked, add_options, load, parse, spark_settings
from penstock.replay.validation_values import Status, Validation

if TYPE_CHECKING:
    from penstock.replay.correction import Corrector


def command(argv: Sequence[str]) -> int:
    """Run the command and return its exit code: 0 the same, 1 something differs or failed, 2 usage."""
    arguments = parse(_parser(), argv)
    try:
        validation = _validate(arguments)
        _tell(arguments, validation)
    except PenstockError as error:
        if arguments.debug:
            raise
        if arguments.json:
            print(json.dumps({"status": "failed", "error": str(error), "type": type(error).__name__}))
        print(f"penstock validate: {error}", file=sys.stderr)
        return 1
    return 0 if validation.status == Status.SAME else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock validate",
        usage="%(prog)s FILE [OPTIONS] [-- ARGS...]",
        description="Recompute on Spark what a pipeline should have written, and hold what it has written against it. "
        "Exits with 1 if anything differs, or nothing could be compared.",
    )
    add_options(parser)
    parser.add_argument("--out", metavar="DIR", default=".", help="where validation.json and validation.html go (here)")
    parser.add_argument(
        "--sink", metavar="NAME", dest="sinks", action="append", help="only what this sink got; may come again"
    )
    parser.add_argument(
        "--correct", metavar="TOPIC", help="publish exact rows to this topic where sinks to Kafka differ from them"
    )
    return parser


def _validate(arguments: argparse.Namespace) -> Validation:
    from penstock import __version__
    from penstock.replay.session import spark_session

    settings = spark_settings(arguments)
    asked = load(arguments)
    wanted = _wanted(asked, arguments.sinks)
    corrector = None if arguments.correct is None else _corrector(arguments, asked, wanted)
    with spark_session(arguments.master, settings=settings, name=f"penstock-validate-{asked.name}") as session:
        from penstock.replay.source_reading import SourceReading
        from penstock.replay.suspects import with_suspects
        from penstock.replay.validation import validate_sink

        reading = SourceReading(
            session,
            start=asked.start,
            stop=asked.stop,
            archive=asked.archive,
            kept=asked.kept,
            share=len(wanted) > 1,
        )
        graph = asked.job.graph
        queries = [
            validate_sink(graph, node, reading, session, corrector)
            for node in graph.operators.values()
            if isinstance(node.spec, SinkSpec) and node.name in wanted
        ]
        reading.close()
        return Validation(
            job=asked.name,
            created=datetime.now(UTC),
            penstock=__version__,
            spark=session.version,
            sources=reading.ranges,
            queries=with_suspects(graph, queries),
            kept=arguments.kept,
        )


def _wanted(asked: Asked, names: Sequence[str] | None) -> set[str]:
    there = [node.name for node in asked.job.graph.operators.values() if isinstance(node.spec, SinkSpec)]
    unknown = [name for name in names or () if name not in there]
    if unknown:
        raise OptionError(f"--sink {unknown[0]!r}: there are {', '.join(map(repr, there))}")
    return set(names or there)


def _corrector(arguments: argparse.Namespace, asked: Asked, wanted: set[str]) -> Corrector:
    """Return what publishes corrections.

    Raises:
        UserError: the replay would not be the exact answer, or no sink can be corrected there.
    """
    from penstock.engine.checkpoint.reader import Checkpoint
    from penstock.replay.correction import Corrector

    for option in ("start", "stop", "checkpoint", "kept"):
        if getattr(arguments, option) is not None:
            flag = {"start": "from", "stop": "to"}.get(option, option)
            raise OptionError(
                f"--correct needs the answer to all that the job has read up to its last checkpoint: leave out --{flag}"
            )
    graph = asked.job.graph
    checkpoint = asked.stop if isinstance(asked.stop, Checkpoint) else None
    corrector = Corrector(arguments.correct, graph, asked.name, checkpoint)
    corrector.check([node for node in graph.operators.values() if node.name in wanted])
    return corrector


def _tell(arguments: argparse.Namespace, validation: Validation) -> None:
    from penstock.replay.report import write_report
    from penstock.replay.report_table import summary_table
    from penstock.replay.validation_json import to_json

    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    text = to_json(validation)
    (out / "validation.json").write_text(text + "\n", encoding="utf-8")
    write_report(validation, out / "validation.html")
    if arguments.json:
        print(text)
        return
    summary_table(validation)
    print(f"{validation.status}: {out / 'validation.html'} shows it, {out / 'validation.json'} has it for programs")
