"""The arguments and options that commands have in common: one name, one metavar and one meaning each.

Imports nothing heavy. ``tests/house/test_command_line.py`` holds all commands to these names.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.model.errors import OptionError

File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A Python file that builds a pipeline.", exists=True, dir_okay=False),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="Arguments for the file itself; put -- before options.", show_default=False),
]
Parallelism = Annotated[
    int | None,
    typer.Option(min=1, metavar="P", help="Instances per operator; wins over the file.", show_default=False),
]
BatchRows = Annotated[
    int | None,
    typer.Option(min=1, metavar="R", help="Most rows in a batch.", show_default=False),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all that is random.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Most rows to print.")]
Kafka = Annotated[str, typer.Option("--kafka", metavar="HOST:PORT", help="The cluster.", show_default=False)]
KafkaSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-setting",
        metavar="KEY=VALUE",
        help="A setting of librdkafka; secrets as env:NAME or file:PATH. May come again.",
        show_default=False,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://..., sc://...; local[*] by default.",
        show_default=False,
    ),
]
SparkSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-setting", metavar="KEY=VALUE", help="A setting of Spark. May come again.", show_default=False
    ),
]


def pairs(option: str, texts: Sequence[str] | None, example: str) -> dict[str, str]:
    """Return what was given as ``NAME=VALUE``, by name; the last of a name counts.

    Raises:
        OptionError: one is something else; the message names the option and shows the ``example``.
    """
    values = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise OptionError(f"{option} takes a name and a value, such as {example}, not {text!r}")
        values[name] = value
    return values
