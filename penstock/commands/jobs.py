"""The command lines of ``penstock list`` and ``penstock logs``: jobs on a Ray cluster.

Heavy imports stand inside the commands.
"""

from typing import Annotated

import typer

from penstock.commands.arguments import ClusterAddress
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes


def list_jobs(
    context: typer.Context, address: ClusterAddress = None, as_json: Json = False, debug: Debug = False
) -> None:
    """List the jobs on a Ray cluster."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.jobs_on_ray import print_reports, reports_of_all

        reports, away = reports_of_all(address)
        if reports or not away:
            print_reports(reports, as_json=as_json)
        if away:
            raise away[0]


def logs(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a job.")],
    since: Annotated[int, typer.Option(metavar="N", min=0, help="From the line of this number on.")] = 0,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print what a job on a Ray cluster has said since its head began."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        import json

        from penstock.cluster.connection import connected_to_jobs
        from penstock.cluster.heads import find_head

        with connected_to_jobs(address):
            report = find_head(name).report(since)
        first = report.next_line - len(report.lines)
        for number, line in enumerate(report.lines, first):
            typer.echo(json.dumps({"line": number, "text": line}) if as_json else line)
