"""What ``penstock list, status, stop`` and ``savepoint`` do with jobs whose head is an actor of Ray, and print."""

import json

import typer

from penstock.cluster.connection import connected_to_jobs
from penstock.cluster.heads import PLACE, Head, end_left, find_head, heads, since_text
from penstock.cluster.job_order import HeadReport, StopOrder
from penstock.engine.executors.managers.failures import error_of
from penstock.model.errors import WorkerLostError
from penstock.tables import Column, bytes_text, count_text, print_table, seconds_text


def reports_of_all(address: str | None) -> list[HeadReport]:
    """Return what the heads of all jobs on a cluster report."""
    with connected_to_jobs(address):
        return [report for head in heads() if (report := _report(head)) is not None]


def report_of(job: str, address: str | None) -> HeadReport:
    """Return what the head of a job reports.

    Raises:
        UserError: no such job runs.
    """
    with connected_to_jobs(address):
        return find_head(job).report()


def stop_on_ray(job: str | None, order: StopOrder, address: str | None) -> list[HeadReport]:
    """Stop a job, None: all of them and what others have left; return their last reports once they have ended.

    Raises:
        UserError: no such job runs, or it cannot keep the savepoint.
    """
    with connected_to_jobs(address):
        stopped = list(heads()) if job is None else [find_head(job)]
        for head in stopped:
            head.follow()
            head.stop(order)
        reports = [head.await_end() for head in stopped]
        if job is None:
            end_left()
        return reports


def savepoint_on_ray(job: str, savepoint: str, address: str | None) -> int:
    """Take a savepoint of a job and return its epoch; raises as `Handle.savepoint`."""
    with connected_to_jobs(address):
        return find_head(job).savepoint(savepoint)


def raise_failure(reports: list[HeadReport]) -> None:
    """Raise what the first job that has failed did so of."""
    for report in reports:
        if report.failure is not None:
            raise error_of(report.failure, PLACE)


def print_reports(reports: list[HeadReport], *, as_json: bool) -> None:
    """Print a line for each job."""
    if as_json:
        for report in reports:
            metrics = report.metrics
            values = {"job": report.name, "state": report.state, "since_us": report.since_us, "head": report.head}
            typer.echo(json.dumps(values | {"rows_in": metrics.source_rows, "state_bytes": metrics.state_bytes}))
        return
    columns = [Column("job", figures=False), Column("", figures=False), Column("since", figures=False)]
    columns += [Column(title) for title in ("head", "rows in", "state", "time")]
    lines = []
    for report in reports:
        figures = report.metrics
        texts = [count_text(figures.source_rows), bytes_text(figures.state_bytes)]
        texts.append(seconds_text(figures.elapsed_ns / 1e9))
        lines.append([report.name, str(report.state), since_text(report), str(report.head), *texts])
    print_table(columns, lines)


def _report(head: Head) -> HeadReport | None:
    """Return what a head reports; None: it has left meanwhile."""
    try:
        return head.report()
    except WorkerLostError:
        return None
