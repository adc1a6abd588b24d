"""What ``penstock list, status, stop, savepoint`` and ``top`` do with jobs whose head is an actor of Ray, and print."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import typer

from penstock.cluster.connection import connected_to_jobs
from penstock.cluster.heads import LOOK_S, PLACE, Head, HeadAwayError, end_left, find_head, heads, since_text
from penstock.cluster.job_order import HeadReport, StopOrder
from penstock.engine.executors.managers.failures import error_of
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.jobs_client.errors import JobUnreachableError
from penstock.model.control import Limits
from penstock.model.errors import PenstockError, WorkerLostError
from penstock.tables import Column, bytes_text, count_text, print_table, seconds_text

AWAY_S = 60.0
"""For how long a head is asked again that does not answer, as Ray may be starting it anew."""

Answer = TypeVar("Answer")

NO_LINES = sys.maxsize
"""The number of a line that no job comes to."""


def reports_of_all(address: str | None) -> tuple[list[HeadReport], list[HeadAwayError]]:
    """Return what the heads of all jobs on a cluster report, and an error of each that does not answer now."""
    with connected_to_jobs(address):
        return collected_reports(heads())


def collected_reports(heads_there: Iterable[Head]) -> tuple[list[HeadReport], list[HeadAwayError]]:
    """Return what these heads report; those that have left meanwhile are passed over."""
    reports: list[HeadReport] = []
    away: list[HeadAwayError] = []
    for head in heads_there:
        try:
            reports.append(head.report())
        except HeadAwayError as error:
            away.append(error)
        except WorkerLostError:
            continue
    return reports, away


def report_of(job: str, address: str | None) -> HeadReport:
    """Return what the head of a job reports.

    Raises:
        UserError: no such job runs.
    """
    with connected_to_jobs(address):
        return find_head(job).report()


class JobOnRay:
    """A job as ``top`` watches it."""

    def __init__(self, head: Head) -> None:
        """Ask nothing yet."""
        self._head = head

    def metrics(self) -> JobMetrics:
        """Return its metrics; see `WatchedJob`."""
        try:
            report = asked_again(lambda: self._head.report(NO_LINES))
        except WorkerLostError as error:
            raise JobUnreachableError(str(error)) from None
        if report.state.is_over:
            raise JobUnreachableError(f"job {report.name!r} is {report.state}")
        return report.metrics


@contextmanager
def job_on_ray(job: str, address: str | None) -> Iterator[JobOnRay]:
    """Return a job by its name, while this process is connected to its cluster.

    Raises:
        UserError: no such job runs.
    """
    with connected_to_jobs(address):
        yield JobOnRay(find_head(job))


def stop_on_ray(job: str, order: StopOrder, address: str | None) -> HeadReport:
    """Stop a job; return its last report once it has ended.

    Raises:
        UserError: no such job runs, or it cannot keep the savepoint.
    """
    with connected_to_jobs(address):
        head = find_head(job)
        _give(head, order)
        return head.await_end()


def stop_all_on_ray(order: StopOrder, address: str | None) -> list[HeadReport]:
    """Stop all jobs of a cluster, and delete what those have left on it that were killed; return the last reports.

    Raises:
        PenstockError: one cannot be stopped; all others have been.
    """
    with connected_to_jobs(address):
        stopped: list[Head] = []
        errors: list[PenstockError] = []
        for head in heads():
            try:
                _give(head, order)
                stopped.append(head)
            except WorkerLostError:
                # It has ended meanwhile.
                continue
            except PenstockError as error:
                errors.append(error)
        reports = []
        for head in stopped:
            try:
                reports.append(head.await_end())
            except WorkerLostError as error:
                errors.append(error)
        end_left()
        if errors:
            raise errors[0]
        return reports


def savepoint_on_ray(job: str, savepoint: str, address: str | None) -> int:
    """Take a savepoint of a job and return its epoch; raises as `Handle.savepoint`."""
    with connected_to_jobs(address):
        return find_head(job).savepoint(savepoint)


def limits_on_ray(job: str, change: Limits, address: str | None) -> Limits:
    """Change limits of a job and return all that differ from its program's; raises as `Handle.limit`."""
    with connected_to_jobs(address):
        return find_head(job).change_limits(change)


@contextmanager
def head_of(job: str, address: str | None) -> Iterator[Head]:
    """Return the head of a job while this process is connected to its cluster; raises as `Handle.rescale`."""
    with connected_to_jobs(address):
        yield find_head(job)


def memory_on_ray(job: str, budgets: Mapping[str, int | None], address: str | None, *, dry_run: bool) -> MemorySummary:
    """Change the memory of a job's operators, or say what that would change; none given: return what they have."""
    with connected_to_jobs(address):
        head = find_head(job)
        if not budgets:
            return head.memory()
        return head.preview_memory(budgets) if dry_run else head.change_memory(budgets)


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
            values |= {"rows_in": metrics.source_rows, "state_bytes": metrics.state_bytes}
            typer.echo(json.dumps(values | {"metrics_url": report.metrics_url}))
        return
    if not reports:
        typer.echo("no job runs on this Ray cluster", err=True)
        return
    columns = [Column("job", figures=False), Column("", figures=False), Column("since", figures=False)]
    columns += [Column(title) for title in ("head", "rows in", "state", "time")]
    lines = []
    for report in reports:
        figures = report.metrics
        texts = [count_text(figures.source_rows), bytes_text(figures.state_bytes)]
        texts.append(seconds_text(figures.elapsed_ns / 1e9))
        lines.append([report.name, str(report.state), since_text(report), str(report.head), *texts])
    print_table(columns, lines, stream=sys.stdout)


def asked_again(ask: Callable[[], Answer]) -> Answer:
    """Return what a head answers, which is asked again for `AWAY_S` while it is away.

    Raises:
        HeadAwayError: it does not answer.
    """
    until_s = time.monotonic() + AWAY_S
    while True:
        try:
            return ask()
        except HeadAwayError:
            if time.monotonic() > until_s:
                raise
            time.sleep(LOOK_S)


def _give(head: Head, order: StopOrder) -> None:
    """Give a head the order to stop, whose end this process then waits for."""
    asked_again(head.follow)
    asked_again(lambda: head.stop(order))
