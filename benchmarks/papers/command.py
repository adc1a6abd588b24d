"""``penstock papers``: reproduces a paper's evaluation by simulation and shows it beside the paper's figures."""

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from penstock.benchmarks.papers.cluster_model.action_logs import write_log
from penstock.benchmarks.papers.evaluation import DRAWS, Evaluation, Progress, Result, Row, Spread
from penstock.model.errors import UserError
from penstock.model.installing import install_extra

NAMES = ("dissp", "economics", "flink_er", "justin", "sage")
"""The evaluations: one folder each."""


def command(argv: Sequence[str]) -> int:
    """Run the command and return its exit code: 0 all is met, 1 a figure is not, 2 usage."""
    arguments = _parser().parse_args(argv)
    found: Evaluation = import_module(f"penstock.benchmarks.papers.{arguments.name}").EVALUATION
    with _progress(shown=not arguments.json) as told:
        result = found.run(arguments.seed, arguments.draws, told)
    if arguments.out is not None:
        _write(result, arguments.out)
    if arguments.json:
        for row in result.rows:
            print(json.dumps(row.as_dict()))
    else:
        _show(found, result, arguments.out)
    return 1 if any(row.met is False for row in result.rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock papers",
        description="Reproduce a paper's evaluation by simulation, beside the paper's figures. "
        "Exits with 1 if a figure is not met.",
    )
    parser.add_argument("name", metavar="NAME", choices=NAMES, help=f"the evaluation: {', '.join(NAMES)}")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default 0)")
    parser.add_argument(
        "--draws", type=_positive, default=DRAWS, help=f"draws of the parameters, +-30%% (default {DRAWS})"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="write rows, charts and action logs there")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON lines")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, not {text!r}")
    return int(text)


@contextmanager
def _progress(*, shown: bool) -> Iterator[Progress]:
    """Show a progress bar on stderr, if people look at it."""
    if not shown or not sys.stderr.isatty():
        yield lambda what, done, whole: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    with Bars(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def told(what: str, done: int, whole: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=whole)
            bars.update(tasks[what], completed=done)

        yield told


def _show(found: Evaluation, result: Result, out: Path | None) -> None:
    from penstock.tables import Column, print_table

    titles = ("row", "paper", "goal", "ours", "p10-p90", "baseline", "control", "met")
    figures = ("ours", "p10-p90", "baseline", "control")
    print(found.title)
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
    met = "" if row.met is None else "yes" if row.met else "NO"
    ours = f"{figure_text(row.ours.median)} {row.unit}".strip()
    return [row.row, row.paper, row.goal, ours, between, _median(row.baseline), _median(row.control), met]


def _median(found: Spread | None) -> str:
    return "" if found is None else figure_text(found.median)


def figure_text(value: float) -> str:
    """Return a figure as tables show it."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _write(result: Result, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "rows.jsonl").open("w") as lines:
        lines.writelines(json.dumps(row.as_dict()) + "\n" for row in result.rows)
    with (out / "rows.csv").open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["seed", "row", "paper", "ours", "p10", "p90", "baseline", "control", "met", "unit", "goal"])
        for row in result.rows:
            parts = [None if found is None else found.median for found in (row.baseline, row.control)]
            own = (row.ours.median, row.ours.p10, row.ours.p90)
            writer.writerow([row.seed, row.row, row.paper, *own, *parts, row.met, row.unit, row.goal])
    for name, logged in result.logs.items():
        path = out / f"{name}.actions.jsonl"
        # A log is appended to: one of an earlier run would stay in front.
        path.unlink(missing_ok=True)
        write_log(path, logged)
    if result.charts:
        try:
            from penstock.benchmarks.papers.charts import draw
        except ModuleNotFoundError as error:
            raise UserError(f"charts need {error.name}: {install_extra('bench')}, or leave --out out") from error
        draw(result.charts, out)
