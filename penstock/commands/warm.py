"""``penstock warm``: compile all kernels beforehand. Heavy imports stand inside the command."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes


def warm(
    context: typer.Context,
    record: Annotated[Path | None, typer.Option(metavar="FILE", hidden=True)] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compile all kernels now, so that no run has to: when an image is built, or after an installation.

    They are kept in the folder that NUMBA_CACHE_DIR names, or in the user's cache folder, and serve all processes of
    this user. A copy of that folder serves on other machines with the same processor and the same versions.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands import kernel_compilation as warming

        if record is not None:
            # For those who work on Penstock: what was called since the folder was made is to be known from now on.
            forms = warming.write_forms(record)
            typer.echo(f"{forms} forms in {record}")
            return
        summary = warming.warm()
        if as_json:
            typer.echo(json.dumps(asdict(summary)))
        else:
            typer.echo(
                f"{summary.forms} kernels in {summary.folder}, {summary.compiled} of them compiled now, "
                f"in {summary.seconds:.0f} s"
            )
