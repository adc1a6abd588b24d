"""``penstock dlq``: look at a topic of dead letters, and write them back. Heavy imports stand inside the commands."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.commands.answering import Debug, Json, answering

if TYPE_CHECKING:
    from penstock.engine.connectors.kafka.settings import KafkaSettings

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at the dead letters in a Kafka topic, and write them back.",
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic of dead letters.")]
Kafka = Annotated[str, typer.Option("--kafka", metavar="HOST:PORT", help="The cluster.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        metavar="KEY=VALUE",
        help="A setting of librdkafka; secrets as env:NAME or file:PATH. May come again.",
        show_default=False,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="FIELD=VALUE",
        help="Only letters with this class, message, stage, operator, topic, partition, offset, job, epoch or attempt; "
        "* stands for anything. May come again: all must hold.",
        show_default=False,
    ),
]


@app.command()
def show(
    context: typer.Context,
    topic: Topic,
    kafka: Kafka,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Most letters to print.")] = 20,
    settings: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the newest dead letters of a topic: what is wrong, where they came from, key and value."""
    with answering(debug or context.obj, as_json):
        from penstock.commands.dlq_view import print_letters
        from penstock.engine.connectors.kafka.letter_reading import LetterReader

        with LetterReader(_settings(kafka, settings), topic) as reader:
            print_letters(reader.newest(limit), topic, as_json=as_json)


@app.command()
def replay(
    context: typer.Context,
    topic: Topic,
    kafka: Kafka,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TOPIC", help="Where to; by default each to where it came from.", show_default=False
        ),
    ] = None,
    where: Where = None,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="GROUP", help="The consumer group that remembers.", show_default=False),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also letters that were replayed before.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask first.")] = False,
    settings: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write dead letters back as the records they were: original key, value, headers and time.

    It goes up to the end that the topic has at the start. Offsets of a consumer group remember what was replayed, so
    that the next replay to the same place, with the same --where, goes on behind it.
    """
    with answering(debug or context.obj, as_json):
        import json
        from dataclasses import asdict

        from penstock.engine.connectors.kafka.letter_replay import Replay

        conditions = dict(map(_condition, where or []))
        with Replay(_settings(kafka, settings), topic, to, conditions, group=group, again=again) as waiting:
            place = repr(to) if to is not None else "where they came from"
            if waiting.waiting and not yes:
                matching = " that match" if conditions else ""
                question = f"write the letters{matching} of {waiting.waiting:,} in {topic!r} to {place}?"
                if not typer.confirm(question, err=True):
                    raise typer.Exit(1)
            done = waiting.run()
        if as_json:
            typer.echo(json.dumps({"topic": topic, "to": to, "group": waiting.group, **asdict(done)}))
            return
        left = f", {done.left_out:,} did not match" if done.left_out else ""
        homeless = f", {done.homeless:,} came from no topic: say where with --to" if done.homeless else ""
        typer.echo(f"replayed {done.written:,} dead letters of {topic!r} to {place}{left}{homeless}")


def _settings(kafka: str, settings: list[str] | None) -> "KafkaSettings":
    from penstock.doctor.kafka import parse_setting
    from penstock.engine.connectors.kafka.settings import KafkaSettings

    return KafkaSettings({"log_level": 0, "bootstrap.servers": kafka, **dict(map(parse_setting, settings or []))})


def _condition(text: str) -> tuple[str, str]:
    from penstock.model.errors import OptionError

    name, equals, value = text.partition("=")
    if not equals:
        raise OptionError(f"--where is FIELD=VALUE, such as stage=decode, not {text!r}")
    return name, value
