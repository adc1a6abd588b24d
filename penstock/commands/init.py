"""The command line of ``penstock init``. Heavy imports stand inside the command."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes


def init(
    context: typer.Context,
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The new directory; the project is called like it.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a small project to begin with: a pipeline over a sample file, and its tests."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.new_project import write_project

        paths = write_project(name)
        if as_json:
            typer.echo(json.dumps({"project": str(name), "files": [str(path) for path in paths]}))
            return
        typer.echo("wrote")
        for path in paths:
            typer.echo(f"  {path}")
        typer.echo(f"now\n  cd {shlex.quote(str(name))}")
        for line in ("penstock run pipeline.py", "penstock explain pipeline.py", "pytest"):
            typer.echo(f"  {line}")
