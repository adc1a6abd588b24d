"""The arguments and options that commands have in common: one name, one metavar and one meaning each.

Imports nothing heavy. ``tests/house/test_command_line.py`` holds all commands to these names.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.model.errors import OptionError


class ControlMode(StrEnum):
    """The fate of what controllers decide: said, done, or done of those alone who shed, or who scale."""

    RECOMMEND = "recommend"
    ACT = "act"
    SHED = "shed"
    SCALE = "scale"


class Executor(StrEnum):
    """Where instances run."""

    EMBEDDED = "embedded"
    PROCESSES = "processes"
    RAY = "ray"


class Transport(StrEnum):
    """What carries rows between processes."""

    RING = "ring"
    TCP = "tcp"


def optional(metavar: str, help: str, *names: str, panel: str | None = None, **limits: Any) -> Any:
    """Return an option of which the help shows no default; ``limits`` are those of `typer.Option`, as ``min=1``."""
    return typer.Option(*names, metavar=metavar, help=help, show_default=False, rich_help_panel=panel, **limits)


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A Python file that builds a pipeline.", exists=True, dir_okay=False),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="Arguments for the file itself; put -- before options.", show_default=False),
]
Parallelism = Annotated[int | None, optional("P", "Instances per operator; wins over the file.", min=1)]
BatchRows = Annotated[int | None, optional("R", "Most rows in a batch.", min=1)]
ShedChoice = Annotated[
    str | None,
    optional("NAME", "What sheds load: off, qod, qod-paper, sic, both, or a policy as module:Class.", "--shed"),
]
ControlChoice = Annotated[
    ControlMode | None,
    typer.Option("--control", help="Controllers act, or recommend what they would do.", show_default=False),
]
ExecutorChoice = Annotated[
    Executor | None,
    typer.Option(
        "--executor", help="Where instances run: in this process, in several, or on a Ray cluster.", show_default=False
    ),
]
TaskManagers = Annotated[
    int | None, optional("N", "So many processes; one for each core by default.", "--task-managers", min=1)
]
TransportChoice = Annotated[
    Transport | None,
    typer.Option(
        "--transport", help="What carries rows between processes; the best that works by default.", show_default=False
    ),
]
Address = Annotated[
    str | None, optional("HOST:PORT", "The Ray cluster; by default RAY_ADDRESS, or one for this job.", "--address")
]
ClusterAddress = Annotated[
    str | None, optional("HOST:PORT", "The Ray cluster; by default RAY_ADDRESS, or that of this machine.", "--address")
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all that is random.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="Most rows to print.")]
Kafka = Annotated[str, optional("HOST:PORT", "The cluster.", "--kafka")]
KafkaSettings = Annotated[
    list[str] | None,
    optional(
        "KEY=VALUE", "A setting of librdkafka; secrets as env:NAME or file:PATH. May come again.", "--kafka-setting"
    ),
]
_JOB = typer.Argument(
    metavar="JOB", help="The name of a job on Ray, or the URL that one serves its metrics at.", show_default=False
)
JobPlace = Annotated[str, _JOB]
OptionalJobPlace = Annotated[str | None, _JOB]
ReadToken = Annotated[str | None, optional("WHERE", "Send the token of file:PATH or env:NAME.", "--metrics-token")]
ActionToken = Annotated[
    str | None, optional("WHERE", "Send the token for actions of file:PATH or env:NAME.", "--action-token")
]
Master = Annotated[
    str | None, optional("URL", "Where Spark runs: local[4], spark://..., sc://...; local[*] by default.", "--master")
]
SparkSettings = Annotated[
    list[str] | None, optional("KEY=VALUE", "A setting of Spark. May come again.", "--spark-setting")
]


def is_url(job: str) -> bool:
    """Return whether a job is given by where it serves its metrics, and not by its name on Ray."""
    return "://" in job


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
