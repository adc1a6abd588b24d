"""``penstock dlq``: look at a topic of dead letters, and write them back. Heavy imports stand inside the commands."""

from contextlib import closing
from typing import Annotated

import typer

from penstock.commands.arguments import Kafka, KafkaSettings, Limit, optional, pairs
from penstock.commands.exit_codes import Debug, Json, errors_as_exit_codes
from penstock.commands.group import command_group

app = command_group(help="Look at the dead letters in a Kafka topic, and write them back.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic of dead letters.")]
Where = Annotated[
    list[str] | None,
    optional(
        "FIELD=VALUE",
        "Only letters with this class, message, stage, operator, topic, partition, offset, job, epoch or attempt; "
        "* stands for anything. May come again: all must hold.",
        "--where",
    ),
]


@app.command()
def show(
    context: typer.Context,
    topic: Topic,
    kafka: Kafka,
    limit: Limit = 20,
    settings: KafkaSettings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the newest dead letters of a topic: what is wrong, where they came from, key and value."""
    with errors_as_exit_codes(debug or context.obj, as_json):
        from penstock.commands.dlq_view import print_letters
        from penstock.doctor.kafka import client_settings
        from penstock.engine.connectors.kafka.letter_reading import LetterReader

        with closing(LetterReader(client_settings(kafka, settings), topic)) as reader:
            print_letters(reader.newest(limit), topic, as_json=as_json)


@app.command()
def replay(
    context: typer.Context,
    topic: Topic,
    kafka: Kafka,
    into: Annotated[str | None, optional("TOPIC", "Where to; by default each to where it came from.")] = None,
    where: Where = None,
    group: Annotated[str | None, optional("GROUP", "The consumer group that remembers.", "--group")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also letters that were replayed before.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    settings: KafkaSettings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write dead letters back as the records they were: original key, value, headers and time.

    It goes up to the end that the topic has at the start. Offsets of a consumer group remember what was replayed, so
    that the next replay to the same place, with the same --where, goes on behind it.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        import json
        from dataclasses import asdict

        from penstock.doctor.kafka import client_settings
        from penstock.engine.connectors.kafka.letter_replay import Replay

        conditions = pairs("--where", where, "stage=decode")
        waiting = Replay(client_settings(kafka, settings), topic, into, conditions, group=group, again=again)
        with closing(waiting):
            place = repr(into) if into is not None else "where they came from"
            if waiting.waiting and not yes:
                matching = " that match" if conditions else ""
                question = f"write the letters{matching} of {waiting.waiting:,} in {topic!r} to {place}?"
                if not typer.confirm(question, err=True):
                    raise typer.Exit(1)
            result = waiting.run()
        if as_json:
            typer.echo(json.dumps({"topic": topic, "to": into, "group": waiting.group, **asdict(result)}))
            return
        skipped = f", {result.left_out:,} did not match" if result.left_out else ""
        homeless = f", {result.homeless:,} came from no topic: say where with --into" if result.homeless else ""
        typer.echo(f"replayed {result.written:,} dead letters of {topic!r} to {place}{skipped}{homeless}")
