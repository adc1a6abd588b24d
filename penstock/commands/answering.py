"""How commands answer: their exit codes, and exceptions as a message. Imports nothing heavy."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from penstock.model.closed_output import silence
from penstock.model.errors import PIPE_CLOSED, OutputClosedError

FAILED, UNFIT = 1, 3

Json = Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)]
Debug = Annotated[bool, typer.Option("--debug", help="Show full tracebacks.", show_default=False)]


@contextmanager
def answering(debug: Any, as_json: bool = False) -> Iterator[None]:
    """Turn exceptions into a message and an exit code; with ``debug``, let them through."""
    try:
        yield
    except KeyboardInterrupt:
        typer.secho("interrupted", err=True)
        raise typer.Exit(FAILED) from None
    except OutputClosedError:
        raise typer.Exit(PIPE_CLOSED) from None
    except BrokenPipeError:
        silence(sys.stdout)
        raise typer.Exit(PIPE_CLOSED) from None
    except Exception as error:
        if debug:
            raise
        from penstock.commands.failures import describe_failure
        from penstock.doctor.requirements import missing_library

        sys.stdout.flush()
        if as_json:
            typer.echo(json.dumps({"status": "failed", "error": str(error), "type": type(error).__name__}))
        typer.secho(describe_failure(error), err=True)
        raise typer.Exit(UNFIT if missing_library(error) else FAILED) from None
