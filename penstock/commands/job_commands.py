"""The commands ``penstock status``, ``stop`` and ``savepoint``, for a running job. Heavy imports stand inside them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.commands.arguments import (
    ActionToken,
    ClusterAddress,
    JobPlace,
    OptionalJobPlace,
    ReadToken,
    ShedChoice,
    is_url,
    optional,
)
from penstock.commands.exit_codes import FAILED, Debug, Json, errors_as_exit_codes
from penstock.model.errors import OptionError

if TYPE_CHECKING:
    from penstock.runs.steered_job import SteeredJob


def status(
    context: typer.Context,
    job: JobPlace,
    metrics_token: ReadToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print what a running job does: its state, rows, checkpoints, the last failure.

    Exits with 1 if a job on Ray has failed.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        if is_url(job):
            from penstock.commands.running_job import client_of, print_status

            print_status(client_of(job, "metrics_token", metrics_token).status(), as_json=as_json)
            return
        from penstock.commands.jobs_on_ray import print_reports, raise_failure, report_of

        reports = [report_of(job, address)]
        print_reports(reports, as_json=as_json)
        raise_failure(reports)


def stop(
    context: typer.Context,
    job: OptionalJobPlace = None,
    everything: Annotated[bool, typer.Option("--all", help="Stop all jobs on Ray.", show_default=False)] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Close open windows first, as if all input had ended.", show_default=False)
    ] = False,
    savepoint: Annotated[str | None, optional("NAME", "Keep the last checkpoint as this savepoint.")] = None,
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Stop a running job at a last checkpoint, and wait until it has ended.

    Ctrl-C ends the wait and not the stop. Exits with 1 if the job failed.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        if (job is None) is not everything:
            raise OptionError("say which job to stop, or --all of them on Ray")
        if job is not None and is_url(job):
            from penstock.commands.running_job import FAILED as JOB_FAILED
            from penstock.commands.running_job import client_of, print_end, stop_job

            client = client_of(job, "action_token", action_token)
            end = stop_job(client, drain=drain, savepoint=savepoint)
            print_end(end, as_json=as_json)
            has_failed = end.state == JOB_FAILED
        else:
            from penstock.cluster.job_order import StopOrder
            from penstock.commands.jobs_on_ray import print_reports, raise_failure, stop_all_on_ray, stop_on_ray

            order = StopOrder(drain, savepoint)
            reports = stop_all_on_ray(order, address) if job is None else [stop_on_ray(job, order, address)]
            print_reports(reports, as_json=as_json)
            raise_failure(reports)
            has_failed = False
    if has_failed:
        raise typer.Exit(FAILED)


def limits(
    context: typer.Context,
    job: JobPlace,
    query: Annotated[str | None, optional("QUERY", "The query whose limits change, by the name of its sink.")] = None,
    min_accuracy: Annotated[float | None, optional("SHARE", "Keep at least this share of its rows: 0.5.")] = None,
    max_error: Annotated[float | None, optional("E", "Half of an interval by its value: 0.1.")] = None,
    priority: Annotated[int | None, optional("P", "Queries of a greater one are shed last.")] = None,
    shed: ShedChoice = None,
    reset: Annotated[
        bool,
        typer.Option("--reset", help="Take back what was changed before: of the query, or all.", show_default=False),
    ] = False,
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Change the limits of a running job under load: of a query, or what sheds.

    They hold until they are changed again, also when the job is started again from its checkpoints.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_job import client_of, print_limits
        from penstock.http_api.answers import LimitsAnswer, LimitsRequest

        order = LimitsRequest(shed, query, min_accuracy, priority, max_error, reset)
        if is_url(job):
            answer = client_of(job, "action_token", action_token).limit(order)
        else:
            from penstock.commands.jobs_on_ray import limits_on_ray

            changed = limits_on_ray(job, order.change(), address)
            answer = LimitsAnswer(job, changed.shed, dict(changed.queries))
        print_limits(answer, as_json=as_json)


def savepoint(
    context: typer.Context,
    job: JobPlace,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The savepoint's name.")],
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Take a savepoint of a running job, which goes on, and wait until it is committed."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_job import client_of, print_savepoint

        if is_url(job):
            client = client_of(job, "action_token", action_token)
            epoch = client.savepoint(name)
            print_savepoint(client.status().job, name, epoch, as_json=as_json)
            return
        from penstock.commands.jobs_on_ray import savepoint_on_ray

        print_savepoint(job, name, savepoint_on_ray(job, name, address), as_json=as_json)


def move(
    context: typer.Context,
    job: JobPlace,
    instance: Annotated[str, typer.Argument(metavar="INSTANCE", help="Its name, as penstock top shows it: count[0].")],
    task_manager: Annotated[str, typer.Argument(metavar="TM", help="The task manager that takes it over: tm-1.")],
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let what an instance has by keys, or reads, go to others of its task at a task manager, while the job runs.

    Waits until that is done. Nothing else stands still meanwhile. Partitions of a source go behind a checkpoint.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_managers import say
        from penstock.commands.running_move import print_move
        from penstock.runs.steering import await_move

        with _steered(job, action_token, address) as steered:
            record = await_move(steered, steered.move(instance, task_manager), None if as_json else say)
        print_move(record, as_json=as_json)


def route(
    context: typer.Context,
    job: JobPlace,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Its name, as penstock explain shows it.")],
    shares: Annotated[
        list[float] | None,
        typer.Argument(metavar="SHARES", help="A number for each instance: 3 1.", show_default=False, min=0),
    ] = None,
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let instances of an operator get these shares of the rows that may go to any of them, while the job runs.

    Without shares they get the same again, in turns. Producers heed it from their next batch on.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_routes import print_routes

        with _steered(job, action_token, address) as steered:
            print_routes(steered.job, steered.route(operator, shares or ()), as_json=as_json)


def rescale(
    context: typer.Context,
    job: JobPlace,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Its name, as penstock explain shows it.")],
    parallelism: Annotated[int, typer.Argument(metavar="P", help="How many instances it is to have.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.", show_default=False)] = False,
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Change how many instances an operator of a running job has, and wait until they run.

    On task managers instances come and go as it runs, where chains stay; else it begins anew behind a checkpoint. It
    tells how many key groups have moved.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_managers import say
        from penstock.commands.running_rescale import print_preview, print_rescale
        from penstock.runs.steering import rescaled

        wanted = {operator: parallelism}
        with _steered(job, action_token, address) as steered:
            if dry_run:
                print_preview(steered.job, steered.preview_rescale(wanted), as_json=as_json)
            else:
                summary = rescaled(steered, wanted, None if as_json else say)
                print_rescale(steered.job, summary, as_json=as_json)


def memory(
    context: typer.Context,
    job: JobPlace,
    budgets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="OPERATOR=BYTES", help="Operators and the memory of each instance: count=128MB join=program."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.", show_default=False)] = False,
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Change how much memory operators of a running job have for their state, without a restart.

    What is above goes to their pages bit by bit. "program" gives one the memory of the job's program back. It holds
    until it is changed again, also when the job is started again from its checkpoints. Without operators: say what
    holds.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_memory import print_memory, read_budgets

        wanted = read_budgets(budgets or [])
        if is_url(job):
            from penstock.commands.running_job import client_of

            client = client_of(job, "action_token", action_token)
            answer = client.change_memory(wanted, dry_run=dry_run) if wanted else client.memory()
            print_memory(answer.job, answer.memory, as_json=as_json)
            return
        from penstock.commands.jobs_on_ray import memory_on_ray

        print_memory(job, memory_on_ray(job, wanted, address, dry_run=dry_run), as_json=as_json)


def scale(
    context: typer.Context,
    job: JobPlace,
    task_managers: Annotated[int, typer.Argument(metavar="N", help="How many task managers it is to have.")],
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let task managers of a running job come, or go, and wait until its instances are on them.

    Others are started, and once they have joined, what has state gets instances and as many key groups there, while
    the job runs; where that cannot be, instances are placed anew behind a checkpoint. Or those that came last are
    drained.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_managers import print_managers, say
        from penstock.runs.steering import place_on

        with _steered(job, action_token, address) as steered:
            there = place_on(steered, task_managers, None if as_json else say)
            print_managers(steered.job, there, as_json=as_json)


def drain(
    context: typer.Context,
    job: JobPlace,
    task_manager: Annotated[str, typer.Argument(metavar="TM", help="Its name, as penstock top shows it: tm-1.")],
    action_token: ActionToken = None,
    address: ClusterAddress = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let a task manager of a running job go for good, and wait until it has gone.

    Others take over what it hosts while the job runs; where that cannot be, they begin it behind a checkpoint.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.running_managers import print_managers, say
        from penstock.runs.steering import drained

        with _steered(job, action_token, address) as steered:
            there = drained(steered, task_manager, None if as_json else say)
            print_managers(steered.job, there, as_json=as_json)


@contextmanager
def _steered(job: str, action_token: str | None, address: str | None) -> Iterator["SteeredJob"]:
    """Return the job of a URL, or that of a name on Ray while this process is connected."""
    if is_url(job):
        from penstock.commands.running_job import client_of
        from penstock.commands.running_managers import OverHttp

        yield OverHttp(client_of(job, "action_token", action_token))
        return
    from penstock.commands.jobs_on_ray import head_of

    with head_of(job, address) as head:
        yield head
