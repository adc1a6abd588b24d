"""The command line of ``penstock top``. Heavy imports stand inside the command."""

from typing import Annotated

import typer

from penstock.commands.arguments import optional
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes

LEAST_INTERVAL_US = 10_000


def top(
    context: typer.Context,
    metrics_port: Annotated[
        int, typer.Option(metavar="PORT", min=1, max=65_535, help="The port that the job serves its metrics at.")
    ] = 9464,
    metrics_host: Annotated[str, typer.Option(metavar="HOST", help="The machine it runs on.")] = "127.0.0.1",
    metrics_token: Annotated[str | None, optional("WHERE", "Send the token of file:PATH or env:NAME.")] = None,
    interval: Annotated[str, typer.Option(metavar="TIME", help="From one look to the next: 500ms.")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Show one interval and end.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Watch a running job: rates, where time goes, lag, state, checkpoints.

    The job serves its metrics: run it with --metrics-port, or with metrics_port=9464.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.metrics.top import MetricsAddress, watch
        from penstock.model.durations import to_microseconds
        from penstock.model.errors import OptionError
        from penstock.runs.metrics_token import read_token

        interval_us = to_microseconds(interval, "--interval")
        if interval_us < LEAST_INTERVAL_US:
            raise OptionError(f"--interval must be at least 10ms, not {interval}")
        token = None if metrics_token is None else read_token(metrics_token)
        watch(MetricsAddress(metrics_port, metrics_host, token), interval_us / 1e6, once=once, as_json=as_json)
