"""Tables and figures for people. It imports rich, so commands import it late."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 160
"""Columns a table may take where the output is not a terminal."""


@dataclass(frozen=True, slots=True)
class Column:
    """A table column; figures stand to the right, words to the left."""

    title: str
    figures: bool = True
    style: str = ""


def console(stream: TextIO | None = None) -> Console:
    """Return a console that prints text as it is, without markup; wide and without colours where output is piped.

    In a notebook, too: left to itself, rich shows a table there as an output of the cell and leaves the stream empty,
    and takes the kernel's ``FORCE_COLOR`` as leave to write colours into any text.
    """
    target = stream or sys.stderr
    terminal = target.isatty()
    width = None if terminal else PIPE_WIDTH
    return Console(
        file=target,
        width=width,
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal=None if terminal else False,
        force_jupyter=False,
    )


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    note: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Print a table (default: to stderr), every row one text per column; ``note`` goes below it."""
    table = Table(
        title=title,
        caption=note,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    for column in columns:
        table.add_column(column.title, justify="right" if column.figures else "left", style=column.style)
    for row in rows:
        table.add_row(*row)
    console(stream).print(table)


def count_text(number: int) -> str:
    """Write a count with separators: ``12,345``."""
    return f"{number:,}"


def rate_text(per_second: float) -> str:
    """Write a rate: ``950/s``, ``12.3 k/s``, ``1.23 M/s``."""
    if per_second >= 1e6:
        return f"{per_second / 1e6:.2f} M/s"
    if per_second >= 1e4:
        return f"{per_second / 1e3:.1f} k/s"
    return f"{per_second:.0f}/s"


def bytes_text(number: float) -> str:
    """Write a number of bytes: ``512 B``, ``1.5 MB``, ``2.0 GB`` (powers of 1000)."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"


def seconds_text(seconds: float) -> str:
    """Write a duration: ``0.034 s``, ``12.3 s``, ``2:05:09``."""
    if seconds < 10:
        return f"{seconds:.3f} s"
    if seconds < 600:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
