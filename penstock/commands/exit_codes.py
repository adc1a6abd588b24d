"""Exit codes of commands, and exceptions turned into messages. Imports nothing heavy.

Exit codes: 0 all well, 1 it failed, 2 wrong usage, 3 the environment is not fit, 141 nobody reads the output any more.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from penstock.model.closed_output import discard_output
from penstock.model.error_origins import error_name, error_text
from penstock.model.errors import PIPE_CLOSED, OptionError, OutputClosedError, UserError

FAILED, USAGE, UNFIT = 1, 2, 3

Json = Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)]
Debug = Annotated[bool, typer.Option("--debug", help="Show full tracebacks.", show_default=False)]


class NotInstalledError(UserError):
    """A part of Penstock, or of a package that adds a command, is not installed."""


@contextmanager
def errors_as_exit_codes(debug: Any, as_json: bool = False) -> Iterator[None]:
    """Turn exceptions into a message and an exit code; with ``debug``, let them through."""
    try:
        yield
    except KeyboardInterrupt:
        typer.secho("interrupted", err=True)
        raise typer.Exit(FAILED) from None
    except OutputClosedError:
        raise typer.Exit(PIPE_CLOSED) from None
    except BrokenPipeError:
        discard_output(sys.stdout)
        raise typer.Exit(PIPE_CLOSED) from None
    except Exception as error:
        if debug:
            raise
        from penstock.commands.failures import describe_failure

        sys.stdout.flush()
        if as_json:
            typer.echo(json.dumps({"status": "failed", "error": error_text(error), "type": error_name(error)}))
        typer.secho(describe_failure(error), err=True)
        raise typer.Exit(exit_code(error)) from None


def exit_code(error: Exception) -> int:
    """Return what a command that ended with this exception exits with.

    An impossible option is wrong usage if the command line has it, and a failure of the job if the user's file has it.
    """
    from penstock.commands.failures import users_frames
    from penstock.doctor.requirements import missing_library

    if isinstance(error, NotInstalledError) or missing_library(error):
        return UNFIT
    if isinstance(error, OptionError) and not users_frames(error):
        return USAGE
    return FAILED
