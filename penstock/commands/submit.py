"""The command line of ``penstock submit``. Heavy imports stand inside the command."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.commands.arguments import Arguments, ClusterAddress, File, TaskManagers, optional, pairs
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes


def submit(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    address: ClusterAddress = None,
    name: Annotated[str | None, optional("NAME", "Name of the job.")] = None,
    task_managers: TaskManagers = None,
    checkpoint_dir: Annotated[
        str | None, optional("DIR", "Take checkpoints here (path or URL); go on from the last.")
    ] = None,
    checkpoint_interval: Annotated[str | None, optional("TIME", "From one checkpoint to the next: 10s.")] = None,
    config: Annotated[
        str | None, optional("FILE", "File of TOML that says how it is controlled, by its place in that folder.")
    ] = None,
    environment: Annotated[
        list[str] | None, optional("NAME=VALUE", "A variable of the job's environment. May come again.", "--env")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Submit a pipeline to a Ray cluster, with the folder that it is in, and return once it runs there.

    The cluster carries out penstock run FILE --executor ray as a job of Ray. The address may be that of Ray's
    dashboard, too: http://HOST:8265. Ray shows variables of the environment in its dashboard: put no secrets there.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        import json

        variables = pairs("--env", environment, "--env STAGE=test")
        from penstock.cluster.ray_jobs import RunCommand, submit_and_follow

        given = {
            "--name": name,
            "--task-managers": None if task_managers is None else str(task_managers),
            "--checkpoint-dir": checkpoint_dir,
            "--checkpoint-interval": checkpoint_interval,
            "--config": config,
        }
        options = {option: value for option, value in given.items() if value is not None}
        command = RunCommand(Path(file).name, tuple(arguments or ()), options)
        folder = Path(file).resolve().parent
        job = submit_and_follow(command, folder, address, lambda text: typer.echo(text, err=True), variables)
        typer.echo(json.dumps({"ray_job": job}) if as_json else job)
