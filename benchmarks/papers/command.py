"""``penstock papers``: reproduces a paper's evaluation by simulation, or on real parts, beside the paper's figures.

Heavy imports stand inside the command.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.benchmarks.papers.real.scale import Scale
from penstock.benchmarks.papers.real.wanted import Wanted
from penstock.commands.arguments import Seed
from penstock.commands.exit_codes import FAILED, Debug, Json, errors_as_exit_codes
from penstock.model.errors import OptionError, UserError
from penstock.model.installation import extra_install_command

if TYPE_CHECKING:
    from penstock.benchmarks.papers.evaluation import Evaluation, Progress, Result, Row, Spread

DRAWS, RUNS = 200, 5
"""Seeded draws of the parameters, or runs on real parts, that a headline row rests on."""


class Paper(StrEnum):
    """The evaluations: one folder each."""

    DISSP = "dissp"
    ECONOMICS = "economics"
    FLINK_ER = "flink_er"
    JUSTIN = "justin"
    SAGE = "sage"


NAMES = tuple(paper.value for paper in Paper)


def command(
    context: typer.Context,
    name: Annotated[Paper, typer.Argument(metavar="NAME", help=f"The evaluation: {', '.join(NAMES)}.")],
    seed: Seed = 0,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help=f"Draws of the parameters, +-30%, default {DRAWS}; with --real runs, default {RUNS}, of smoke 1.",
            show_default=False,
        ),
    ] = None,
    real: Annotated[
        Scale | None,
        typer.Option(
            metavar="SCALE",
            help="Run it on real parts, a broker of Kafka and a job: full, short or smoke (a minute). Runs are kept "
            "in --out, and not made again.",
            show_default=False,
        ),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --real: run only this case, as often as --draws says, and judge what it allows. May come again.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write rows, charts and action logs there; charts need the extra bench.",
            file_okay=False,
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Reproduce a paper's evaluation by simulation, or on real parts, beside the paper's figures.

    Exits with 1 if a figure is not met. With --json a row is a line.
    """
    with errors_as_exit_codes(debug or context.obj, as_json):
        evaluation: Evaluation = import_module(f"penstock.benchmarks.papers.{name.value}").EVALUATION
        with _progress(is_shown=not as_json) as progress:
            if real is not None:
                runs = draws or (1 if real is Scale.SMOKE else RUNS)
                result = _run_real(evaluation, Wanted(real, runs, tuple(case or ())), out, progress)
            elif case:
                raise OptionError("a case is one of runs on real parts: say at which scale, --real SCALE")
            else:
                result = evaluation.run(seed, draws or DRAWS, progress)
        if out is not None:
            _write(result, out)
        if as_json:
            for row in result.rows:
                print(json.dumps(row.as_dict()))
        else:
            _show(evaluation, result, out)
    if any(row.met is False for row in result.rows):
        raise typer.Exit(FAILED)


def _run_real(evaluation: Evaluation, wanted: Wanted, out: Path | None, progress: Progress) -> Result:
    if out is None:
        raise OptionError("runs on real parts are kept: say where, --out DIR")
    out.mkdir(parents=True, exist_ok=True)
    return evaluation.run_real(wanted, out, progress)


@contextmanager
def _progress(*, is_shown: bool) -> Iterator[Progress]:
    """Show a progress bar on stderr, if people look at it."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda what, done, whole: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    with Bars(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def update(what: str, done: int, whole: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=whole)
            bars.update(tasks[what], completed=done)

        yield update


def _show(evaluation: Evaluation, result: Result, out: Path | None) -> None:
    from penstock.tables import Column, print_table

    titles = ("row", "paper", "goal", "ours", "p10-p90", "baseline", "control", "met")
    figures = ("ours", "p10-p90", "baseline", "control")
    print(evaluation.title)
    print_table(
        [Column(title, figures=title in figures) for title in titles],
        [_cells(row) for row in result.rows],
        stream=sys.stdout,
    )
    for row in result.rows:
        if row.note:
            print(f"{row.row}: {row.note}")
    if out is not None:
        logs = f"; try: penstock decide {out}/{next(iter(result.logs))}.actions.jsonl" if result.logs else ""
        print(f"{out} has the rows and {len(result.charts)} charts{logs}")


def _cells(row: Row) -> list[str]:
    between = "" if row.ours.p10 == row.ours.p90 else f"{figure_text(row.ours.p10)}-{figure_text(row.ours.p90)}"
    verdict = "" if row.met is None else "yes" if row.met else "NO"
    ours = f"{figure_text(row.ours.median)} {row.unit}".strip()
    return [row.row, row.paper, row.goal, ours, between, _median(row.baseline), _median(row.control), verdict]


def _median(spread: Spread | None) -> str:
    return "" if spread is None else figure_text(spread.median)


def figure_text(value: float) -> str:
    """Return a figure as tables show it."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _write(result: Result, out: Path) -> None:
    from penstock.benchmarks.papers.cluster_model.action_logs import write_log

    out.mkdir(parents=True, exist_ok=True)
    with (out / "rows.jsonl").open("w") as lines:
        lines.writelines(json.dumps(row.as_dict()) + "\n" for row in result.rows)
    with (out / "rows.csv").open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(
            ["seed", "row", "paper", "ours", "p10", "p90", "baseline", "control", "met", "unit", "goal", "real"]
        )
        for row in result.rows:
            parts = [None if spread is None else spread.median for spread in (row.baseline, row.control)]
            own = (row.ours.median, row.ours.p10, row.ours.p90)
            writer.writerow([row.seed, row.row, row.paper, *own, *parts, row.met, row.unit, row.goal, row.real])
    for name, logged in result.logs.items():
        path = out / f"{name}.actions.jsonl"
        # A log is appended to: one of an earlier run would stay in front.
        path.unlink(missing_ok=True)
        write_log(path, logged)
    if result.charts:
        try:
            from penstock.benchmarks.papers.charts import draw
        except ModuleNotFoundError as error:
            raise UserError(
                f"charts need {error.name}: {extra_install_command('bench')}, or leave --out out"
            ) from error
        draw(result.charts, out)
