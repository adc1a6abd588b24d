"""The command line of ``penstock doctor``. Heavy imports stand inside the command."""

import json
from typing import Annotated

import typer

from penstock.commands.arguments import KafkaSettings, optional
from penstock.commands.exit_codes import UNFIT, Debug, Json, errors_as_exit_codes


def doctor(
    context: typer.Context,
    kafka: Annotated[str | None, optional("HOST:PORT", "Also ask the Kafka cluster there.")] = None,
    topics: Annotated[
        list[str] | None, optional("TOPIC", "A topic to look for there. May come again.", "--topic")
    ] = None,
    settings: KafkaSettings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Examine this machine and say what to do. Exits with 3 if something must be mended first."""
    if (topics or settings) and kafka is None:
        raise typer.BadParameter("give --kafka HOST:PORT too.", param_hint="--topic" if topics else "--kafka-setting")
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.doctor.environment import FAIL, examine
        from penstock.doctor.spark import examine_spark

        checks = examine() + examine_spark()
        if kafka is not None:
            from penstock.doctor.kafka import examine_kafka

            checks += examine_kafka(kafka, topics or [], settings or [])
        if as_json:
            from dataclasses import asdict

            typer.echo(json.dumps([asdict(check) for check in checks]))
        else:
            width = max(len(check.name) for check in checks)
            colours = {"ok": "green", "warn": "yellow", "fail": "red"}
            for check in checks:
                status = typer.style(f"{check.status:<4}", fg=colours[check.status])
                advice = f"  -> {check.advice}" if check.advice else ""
                typer.echo(f"{status}  {check.name:<{width}}  {check.finding}{advice}")
    if any(check.status == FAIL for check in checks):
        raise typer.Exit(UNFIT)
