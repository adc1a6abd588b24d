"""``python -m penstock.benchmarks.papers.report DIR``: one page of what ``penstock papers NAME --out DIR/NAME`` found.

Writes ``benchmarks/results/papers.md``; an evaluation whose folder is not there is left out.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.benchmarks.papers.command import NAMES, figure_text

RESULTS = Path(__file__).resolve().parent.parent / "results"
_TITLES = ("row", "paper", "goal", "ours", "p10 to p90", "baseline", "control", "met")


def main(argv: Sequence[str] | None = None) -> int:
    """Read the rows, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.papers.report", description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=Path)
    directory: Path = parser.parse_args(argv).directory
    found = {name: directory / name / "rows.jsonl" for name in NAMES}
    rows = {
        name: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for name, path in found.items()
        if path.exists()
    }
    if not rows:
        parser.error(f"{directory} has no folder of an evaluation: {', '.join(NAMES)}")
    (RESULTS / "papers.md").write_text(page(rows), encoding="utf-8")
    return 0


def page(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the page: by evaluation, its rows in their order."""
    lines = [
        "# The papers' figures and ours",
        "",
        "Simulated: `penstock papers NAME --out DIR/NAME`, then `python -m penstock.benchmarks.papers.report DIR`. "
        "Each figure is the median over draws of the parameters with +-30%. The baseline is what it is compared with; "
        "in the control the effect must vanish. A row without a goal is reported only.",
    ]
    for name, own in rows.items():
        asked = [row["met"] for row in own if row["met"] is not None]
        lines += ["", f"## {name}", "", f"{sum(asked)} of {len(asked)} goals are met.", ""]
        lines += [_line(_TITLES), _line(["---"] * len(_TITLES)), *(_line(_cells(row)) for row in own)]
        missed = [f"- **{row['row']}**: {row['note']}" for row in own if row["met"] is False and row["note"]]
        lines += ["", "Missed:", "", *missed] if missed else []
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    ours = row["ours"]
    yield from (row["row"], row["paper"], row["goal"], f"{figure_text(ours['median'])} {row['unit']}".strip())
    yield "" if ours["p10"] == ours["p90"] else f"{figure_text(ours['p10'])} to {figure_text(ours['p90'])}"
    for other in ("baseline", "control"):
        yield "" if row[other] is None else figure_text(row[other]["median"])
    yield {None: "", True: "yes", False: "**no**"}[row["met"]]


if __name__ == "__main__":
    raise SystemExit(main())
