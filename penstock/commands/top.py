"""The command line of ``penstock top``. Heavy imports stand inside the command."""

from typing import Annotated

import typer

from penstock.commands.arguments import ClusterAddress, JobPlace, ReadToken, is_url
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes

LEAST_INTERVAL_US = 10_000


def top(
    context: typer.Context,
    job: JobPlace = "http://127.0.0.1:9464",
    metrics_token: ReadToken = None,
    address: ClusterAddress = None,
    interval: Annotated[str, typer.Option(metavar="TIME", help="From one look to the next: 500ms.")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Show one interval and end.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Watch a running job: rates, where instances are and time goes, what moves, lag, state, checkpoints.

    One that is not on Ray serves its metrics: run it with --metrics-port 9464, or with metrics_port=9464.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.top_view import watch
        from penstock.model.durations import to_microseconds
        from penstock.model.errors import OptionError

        interval_us = to_microseconds(interval, "--interval")
        if interval_us < LEAST_INTERVAL_US:
            raise OptionError(f"--interval must be at least 10ms, not {interval}")
        interval_s = interval_us / 1e6
        if is_url(job):
            from penstock.commands.running_job import client_of

            watch(client_of(job, "metrics_token", metrics_token), interval_s, once=once, as_json=as_json)
            return
        from penstock.commands.jobs_on_ray import job_on_ray

        with job_on_ray(job, address) as watched:
            watch(watched, interval_s, once=once, as_json=as_json)
