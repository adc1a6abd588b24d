"""The ``penstock`` command: all commands under one name, each in a module of its own.

Every heavy import stands inside the command that needs it, so that ``--help`` and completions answer at once.
`exit_codes` has the exit codes, `commands.group` the commands of installed packages.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.commands import (
    chaos,
    decide,
    dev,
    dlq,
    doctor,
    explain,
    init,
    job_commands,
    jobs,
    run,
    simulate,
    state,
    submit,
    top,
    warm,
)
from penstock.commands.exit_codes import Debug
from penstock.commands.group import RootGroup, command_group
from penstock.model.closed_output import discard_output
from penstock.model.errors import PIPE_CLOSED

app = command_group(RootGroup)
for _command in (
    run.run,
    submit.submit,
    jobs.logs,
    explain.explain,
    init.init,
    top.top,
    job_commands.status,
    job_commands.stop,
    job_commands.savepoint,
    job_commands.limits,
    job_commands.move,
    job_commands.route,
    job_commands.rescale,
    job_commands.memory,
    job_commands.scale,
    job_commands.drain,
    simulate.simulate,
    chaos.chaos,
    chaos.failpoints,
    decide.decide,
    warm.warm,
    doctor.doctor,
):
    app.command()(_command)
app.command("list")(jobs.list_jobs)
app.add_typer(state.app, name="state")
app.add_typer(dlq.app, name="dlq")
app.add_typer(dev.app, name="dev")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    try:
        app(None if arguments is None else list(arguments), prog_name="penstock")
    except SystemExit as end:
        # What draws help and tables ends with 1 when nobody reads them any more.
        if isinstance(end.__context__, BrokenPipeError):
            raise SystemExit(PIPE_CLOSED) from None
        raise
    finally:
        _flush()


def _flush() -> None:
    """Write what is left now: at the interpreter's end nobody could say in which way it failed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout)
        raise SystemExit(PIPE_CLOSED) from None


def _show_version(wanted: bool) -> None:
    from penstock import __version__

    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def penstock(
    context: typer.Context,
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.", show_default=False),
    ] = False,
) -> None:
    """Stream processing in Python that keeps its promises under overload."""
    context.obj = debug
