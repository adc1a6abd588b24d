"""The commands ``penstock status``, ``stop`` and ``savepoint``, for a running job. Heavy imports stand inside them."""

from typing import Annotated

import typer

from penstock.commands.arguments import ActionToken, JobUrl, ReadToken, optional
from penstock.commands.exit_codes import FAILED, Debug, Json, errors_as_exit_codes


def status(
    context: typer.Context, url: JobUrl, metrics_token: ReadToken = None, as_json: Json = False, debug: Debug = False
) -> None:
    """Print what a running job does: its state, rows, checkpoints, the last failure."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_job import client_of, print_status

        print_status(client_of(url, "metrics_token", metrics_token).status(), as_json=as_json)


def stop(
    context: typer.Context,
    url: JobUrl,
    drain: Annotated[
        bool, typer.Option("--drain", help="Close open windows first, as if all input had ended.", show_default=False)
    ] = False,
    savepoint: Annotated[str | None, optional("NAME", "Keep the last checkpoint as this savepoint.")] = None,
    action_token: ActionToken = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Stop a running job at a last checkpoint, and wait until it has ended.

    Ctrl-C ends the wait and not the stop. Exits with 1 if the job failed.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_job import FAILED as JOB_FAILED
        from penstock.commands.running_job import client_of, print_end, stop_job

        client = client_of(url, "action_token", action_token)
        end = stop_job(client, drain=drain, savepoint=savepoint)
        print_end(end, as_json=as_json)
    if end.state == JOB_FAILED:
        raise typer.Exit(FAILED)


def savepoint(
    context: typer.Context,
    url: JobUrl,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The savepoint's name.")],
    action_token: ActionToken = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Take a savepoint of a running job, which goes on, and wait until it is committed."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_job import client_of, print_savepoint

        client = client_of(url, "action_token", action_token)
        epoch = client.savepoint(name)
        print_savepoint(client.status().job, name, epoch, as_json=as_json)
