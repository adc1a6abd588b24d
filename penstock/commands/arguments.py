"""Arguments and options that commands have in common, or that are long. Imports nothing heavy."""

from pathlib import Path
from typing import Annotated

import typer

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
MaxDeadLetters = Annotated[
    str | None,
    typer.Option(
        metavar="LIMIT", help="Bad records of an operator before the job fails: 100, 5% or any.", show_default=False
    ),
]
