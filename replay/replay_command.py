"""``penstock replay``: the exact answer of a pipeline by Spark, written to files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from penstock.model.errors import PenstockError, UserError
from penstock.replay.asked import add_options, load, parse, spark_settings
from penstock.tables import Column, count_text, print_table

if TYPE_CHECKING:
    from penstock.replay.frames import Frame

FORMATS = ("parquet", "json")


def command(argv: Sequence[str]) -> int:
    """Run the command and return its exit code: 0 ok, 1 it failed, 2 usage."""
    arguments = parse(_parser(), argv)
    try:
        written = _replay(arguments)
    except PenstockError as error:
        if arguments.debug:
            raise
        if arguments.json:
            print(json.dumps({"status": "failed", "error": str(error), "type": type(error).__name__}))
        print(f"penstock replay: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps({"status": "ok", "sinks": written}))
    else:
        columns = [Column("sink", figures=False), Column("rows"), Column("files", figures=False)]
        print_table(columns, [[item["sink"], count_text(item["rows"]), item["files"]] for item in written])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock replay",
        usage="%(prog)s FILE [OPTIONS] [-- ARGS...]",
        description="Compute what a pipeline's sinks should get, exactly, as a batch on Spark, and write it to files. "
        "Nothing is written to the sinks themselves.",
    )
    add_options(parser)
    parser.add_argument("--out", metavar="DIR", required=True, help="write a directory for each sink here")
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="of the files (parquet)")
    return parser


def _replay(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from penstock.replay.session import spark_session

    settings = spark_settings(arguments)
    asked = load(arguments)
    with spark_session(arguments.master, settings=settings, name=f"penstock-replay-{asked.name}") as session:
        from penstock.replay.compiler import compile_job
        from penstock.replay.source_reading import SourceReading

        reading = SourceReading(session, start=asked.start, stop=asked.stop, archive=asked.archive, kept=asked.kept)
        return _write(compile_job(asked.job.graph, reading), arguments.out, arguments.format)


def _write(frames: Mapping[str, Frame], out: str, format: str) -> list[dict[str, Any]]:
    from pyspark.sql import Observation, functions

    written: list[dict[str, Any]] = []
    for sink, frame in frames.items():
        target = f"{out.rstrip('/')}/{quote(sink, safe='')}"
        if "://" not in target and Path(target).exists():
            raise UserError(f"{target} is there already: remove it, or choose another --out")
        told = Observation()
        counted = frame.rows.observe(told, functions.count(functions.lit(1)).alias("rows"))
        counted.write.format(format).save(target)
        written.append({"sink": sink, "rows": told.get["rows"], "files": target})
    return written
