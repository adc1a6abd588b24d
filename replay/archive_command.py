"""``penstock archive``: keeps a Kafka topic as Parquet, so that a replay outlives its retention.

Heavy imports stand inside the command.
"""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from penstock.commands.arguments import Kafka, KafkaSettings, Master, SparkSettings, optional
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes
from penstock.replay.request import spark_settings


def command(
    context: typer.Context,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="A topic to archive, or several.")],
    kafka: Kafka,
    out: Annotated[str, optional("DIR", "Where the archives are: a path or URL.")],
    kafka_settings: KafkaSettings = None,
    accept_gap: Annotated[
        bool,
        typer.Option("--accept-gap", help="Go on behind messages that retention took away before they were archived."),
    ] = False,
    master: Master = None,
    settings: SparkSettings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Archive what Kafka topics have got since the last run, as Parquet files by partition.

    A run goes on where the last one ended, up to what is committed when it starts, and counts once it is complete.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.doctor.kafka import client_settings
        from penstock.replay.session import spark_session

        spark = spark_settings(settings)
        client = client_settings(kafka, kafka_settings)
        with spark_session(master, settings=spark) as session:
            from penstock.replay.archive import archive_topic

            runs = [asdict(archive_topic(session, client, topic, out, accept_gap=accept_gap)) for topic in topics]
        for item in runs:
            print(json.dumps({"status": "ok", **item}) if as_json else _sentence(item))


def _sentence(run: dict[str, Any]) -> str:
    topic, where = run["topic"], run["where"]
    if not run["ranges"]:
        return f"{topic}: nothing new; {where} has all that is committed"
    parts = ", ".join(f"{item['partition']}: {item['start']} up to {item['stop']}" for item in run["ranges"])
    gap = f"; GAP: {len(run['gaps'])} ranges are lost" if run["gaps"] else ""
    return f"{topic}: {run['rows']:,} messages to {where} (offsets by partition {parts}){gap}"
