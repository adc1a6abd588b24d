"""The command lines of ``penstock chaos`` and ``penstock failpoints``. Heavy imports stand inside the commands."""

from typing import Annotated

import typer

from penstock.commands.arguments import (
    Address,
    Arguments,
    ExecutorChoice,
    File,
    Seed,
    TaskManagers,
    TransportChoice,
    optional,
)
from penstock.commands.exit_codes import FAILED, Debug, Json, errors_as_exit_codes
from penstock.model.failpoint_names import MEANINGS


def chaos(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    kills: Annotated[int, typer.Option(min=0, metavar="N", help="How often a process is killed.")] = 10,
    seed: Seed = 0,
    failpoints: Annotated[
        bool,
        typer.Option("--failpoints", help="Also die once at every failpoint that the job comes by."),
    ] = False,
    parallelism: Annotated[str | None, optional("P,P..", "Instances per operator, in turn after restarts.")] = None,
    executor: ExecutorChoice = None,
    task_managers: TaskManagers = None,
    transport: TransportChoice = None,
    address: Address = None,
    kill_head: Annotated[
        bool,
        typer.Option("--kill-head", help="Kill the command although it has task managers, or on Ray the head actor."),
    ] = False,
    checkpoint_interval: Annotated[
        str, typer.Option(metavar="TIME", help="From one checkpoint to the next: 10s.")
    ] = "1s",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Kill a pipeline with kill -9 again and again, and compare its output with an undisturbed run.

    What is killed is the command, which is started again, or with --executor processes or ray a task
    manager, and it goes on; of a Ray cluster only processes on this host. It reads its sources, and
    writes into a temporary directory instead of its sinks. Operators without a name go by their
    positions, for the program is the same in every run.
    Exits with 1 if anything is lost or there twice.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.chaos.experiment import ChaosOptions
        from penstock.commands import chaos_report

        options = ChaosOptions(
            kills=kills,
            seed=seed,
            points=tuple(MEANINGS) if failpoints else (),
            checkpoint_interval=checkpoint_interval,
            parallelism=chaos_report.parse_parallelism(parallelism),
            arguments=tuple(arguments or ()),
            executor=executor or "embedded",
            task_managers=task_managers,
            transport=transport,
            kill_head=kill_head,
            address=address,
        )
        report = chaos_report.attack(file, options)
        chaos_report.show(report, as_json=as_json)
    if not report.exact:
        raise typer.Exit(FAILED)


def failpoints(context: typer.Context, as_json: Json = False, debug: Debug = False) -> None:
    """Print the names and meanings of all failpoints, at which chaos lets a pipeline die."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands import chaos_report

        chaos_report.list_failpoints(as_json=as_json)
