"""The command line of ``penstock run``. Heavy imports stand inside the command."""

from enum import StrEnum
from typing import Annotated

import typer

from penstock.commands.arguments import (
    Address,
    Arguments,
    BatchRows,
    ControlChoice,
    ExecutorChoice,
    File,
    ShedChoice,
    TaskManagers,
    TransportChoice,
    optional,
    pairs,
)
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes

CHECKPOINTS, BAD_RECORDS, METRICS = "Checkpoints", "Bad records", "Metrics"
"""The panels of the help."""


class AtEnd(StrEnum):
    """The fate of windows that are open when all input was read."""

    KEEP = "keep"
    CLOSE = "close"


def run(
    context: typer.Context,
    file: File,
    arguments: Arguments = None,
    name: Annotated[str | None, optional("NAME", "Name of the job.")] = None,
    parallelism: Annotated[
        str | None, optional("P", "Instances per operator, or auto: one for each task manager; wins over the file.")
    ] = None,
    executor: ExecutorChoice = None,
    task_managers: TaskManagers = None,
    transport: TransportChoice = None,
    address: Address = None,
    spread: Annotated[
        bool | None, typer.Option("--spread", help="Task managers on many nodes of the Ray cluster, not on few.")
    ] = None,
    pin: Annotated[bool, typer.Option("--pin", help="Give each of these processes a core of its own.")] = False,
    action_log: Annotated[
        str | None, optional("FILE", "Write here what controllers see and would do, for penstock decide.")
    ] = None,
    config: Annotated[
        str | None, optional("FILE", "File of TOML that says so, where neither this line nor the program does.")
    ] = None,
    shed: ShedChoice = None,
    control: ControlChoice = None,
    scale: Annotated[
        list[str] | None,
        optional("NAME", "Policy for parallelism and memory, or module:Class. May come again, for other resources."),
    ] = None,
    placement: Annotated[
        str | None, optional("NAME", "Policy that chooses where instances start, or module:Class.")
    ] = None,
    cores: Annotated[
        float | None, optional("N", "It plans with so many cores; by default with all.", "--cores")
    ] = None,
    memory: Annotated[str | None, optional("SIZE", "It plans with so much memory: 16GB.", "--memory")] = None,
    first_cores: Annotated[float | None, optional("N", "The job begins with so many cores, for --scale sage.")] = None,
    quota: Annotated[str | None, optional("NAME", "Jobs of this name for it share --cores and --memory.")] = None,
    priority: Annotated[int | None, optional("P", "Of two that want more of it the larger goes first.")] = None,
    parameters: Annotated[
        list[str] | None,
        optional("PARAMETER=VALUE", "A parameter of who scales, or POLICY.PARAMETER. May come again.", "--set"),
    ] = None,
    attached: Annotated[
        bool | None, typer.Option("--attached", help="On Ray: the job ends with this process, and may use its objects.")
    ] = None,
    batch_rows: BatchRows = None,
    emit_interval: Annotated[
        str | None, optional("TIME", "How often updating results leave under load: 100ms.")
    ] = None,
    start_timeout: Annotated[
        str | None, optional("TIME", "Wait so long for what the job needs at its start: 1m.")
    ] = None,
    at_end: Annotated[
        AtEnd | None,
        typer.Option(
            help="Open windows when all input was read: keep them (for the next run) or close them.",
            show_default=False,
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="End another run that has the checkpoints or an output, and begin."),
    ] = False,
    checkpoint_dir: Annotated[
        str | None, optional("DIR", "Take checkpoints here (path or URL); go on from the last.", panel=CHECKPOINTS)
    ] = None,
    checkpoint_interval: Annotated[
        str | None, optional("TIME", "From one checkpoint to the next: 10s.", panel=CHECKPOINTS)
    ] = None,
    max_failed_checkpoints: Annotated[
        int | None, optional("N", "So many may fail in a row before the job does.", panel=CHECKPOINTS, min=1)
    ] = None,
    restore: Annotated[
        str | None, optional("WHAT", "Begin at: latest, none, or a savepoint by name.", panel=CHECKPOINTS)
    ] = None,
    savepoint_on_stop: Annotated[
        str | None, optional("NAME", "When stopped, keep the last checkpoint as this savepoint.", panel=CHECKPOINTS)
    ] = None,
    drop_state: Annotated[
        list[str] | None, optional("OPERATOR", "Let go what changed or is gone. May come again.", panel=CHECKPOINTS)
    ] = None,
    accept_changed: Annotated[
        list[str] | None, optional("OPERATOR", "Go on although it changed. May come again.", panel=CHECKPOINTS)
    ] = None,
    accept_duplicates: Annotated[
        bool,
        typer.Option(
            "--accept-duplicates",
            help="Let Kafka sinks write again what came after the checkpoint.",
            rich_help_panel=CHECKPOINTS,
        ),
    ] = False,
    dead_letters: Annotated[
        str | None, optional("URL", "Where dead letters go: kafka://HOST:PORT/TOPIC.", panel=BAD_RECORDS)
    ] = None,
    max_dead_letters: Annotated[
        str | None,
        optional("LIMIT", "Bad records of an operator before the job fails: 100, 5% or any.", panel=BAD_RECORDS),
    ] = None,
    metrics_port: Annotated[
        int | None, optional("PORT", "Serve metrics at this port, 0: any free one.", panel=METRICS, min=0, max=65_535)
    ] = None,
    metrics_host: Annotated[
        str | None, optional("HOST", "Serve them at this address, not at 127.0.0.1; needs a token.", panel=METRICS)
    ] = None,
    metrics_token: Annotated[
        str | None, optional("WHERE", "Answer who sends the token of file:PATH or env:NAME.", panel=METRICS)
    ] = None,
    action_token: Annotated[
        str | None, optional("WHERE", "Stop and take savepoints for who sends this token.", panel=METRICS)
    ] = None,
    sinks_into: Annotated[str | None, typer.Option(metavar="DIR", hidden=True)] = None,
    generated_names: Annotated[bool, typer.Option("--generated-names", hidden=True)] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline, with progress on a terminal.

    The file runs as a script. Every run() and start() in it is carried out with the options given
    here; a file that calls neither has its default job run at the end. Ctrl-C and SIGTERM stop
    cleanly: what was read is processed and written, with checkpoints up to a last one.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.loading import run_program
        from penstock.commands.run_start import RunLauncher, RunOverrides

        overrides = RunOverrides(
            name=name,
            parallelism=parallelism,
            executor=executor,
            task_managers=task_managers,
            transport=transport,
            address=address,
            spread=spread,
            pin=pin,
            action_log=action_log,
            config=config,
            shed=shed,
            control=control,
            scale=tuple(scale or ()),
            placement=placement,
            cores=cores,
            memory=memory,
            first_cores=first_cores,
            quota=quota,
            priority=priority,
            parameters=pairs("--set", parameters, "pace.interval_s=30"),
            attached=attached,
            batch_rows=batch_rows,
            emit_interval=emit_interval,
            start_timeout=start_timeout,
            at_end=at_end,
            take_over=take_over,
            checkpoint_dir=checkpoint_dir,
            checkpoint_interval=checkpoint_interval,
            max_failed_checkpoints=max_failed_checkpoints,
            restore=restore,
            savepoint_on_stop=savepoint_on_stop,
            drop_state=tuple(drop_state or ()),
            accept_changed=tuple(accept_changed or ()),
            accept_duplicates=accept_duplicates,
            dead_letters=dead_letters,
            max_dead_letters=max_dead_letters,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            metrics_token=metrics_token,
            action_token=action_token,
            sinks_into=sinks_into,
            generated_names=generated_names,
        )
        run_program(file, arguments or [], RunLauncher(overrides, as_json=as_json))
