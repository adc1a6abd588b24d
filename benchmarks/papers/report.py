"""``python -m penstock.benchmarks.papers.report DIR``: one page of what ``penstock papers NAME --out DIR/NAME`` found.

Writes ``benchmarks/results/papers.md``, and the rows that it shows as ``papers.jsonl`` beside it; with ``--real``
those whose names begin with ``papers-real``, with the charts of each evaluation. An evaluation that has no folder there
keeps the rows that it had, which the page then marks as earlier ones. Rows that were simulated and rows that were
measured on real parts are never on one page: those of the other kind are refused.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shutil import copy
from types import MappingProxyType
from typing import Any

from penstock.benchmarks.papers.command import NAMES, figure_text

RESULTS = Path(__file__).resolve().parent.parent / "results"
_TITLES = ("row", "paper", "goal", "ours", "p10 to p90", "baseline", "control", "draws", "met")

Rows = Sequence[Mapping[str, Any]]

NO_CHARTS: Mapping[str, Sequence[str]] = MappingProxyType({})


def main(argv: Sequence[str] | None = None) -> int:
    """Read the rows, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.papers.report", description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=Path)
    parser.add_argument(
        "--part", metavar="NAME", nargs="*", default=[], choices=NAMES,
        help="evaluations of which only some rows were run: the others stay, as earlier ones",
    )  # fmt: skip
    parser.add_argument("--real", action="store_true", help="the runs were made on real parts")
    arguments = parser.parse_args(argv)
    directory: Path = arguments.directory
    paths = {name: directory / name / "rows.jsonl" for name in NAMES}
    fresh = {name: _lines(path) for name, path in paths.items() if path.exists()}
    if not fresh:
        parser.error(f"{directory} has no folder of an evaluation: {', '.join(NAMES)}")
    name = "papers-real" if arguments.real else "papers"
    record = RESULTS / f"{name}.jsonl"
    before = _by_evaluation(_lines(record)) if record.exists() else {}
    for place, own in [
        *((paths[each], rows) for each, rows in fresh.items()),
        *((record, rows) for rows in before.values()),
    ]:
        if refusal := of_other_kind(place, own, is_real=arguments.real):
            parser.error(refusal)
    rows = merged(before, fresh, arguments.part)
    record.write_text(
        "".join(json.dumps({"evaluation": name} | dict(row)) + "\n" for name, own in rows.items() for row in own),
        encoding="utf-8",
    )
    charts: dict[str, list[str]] = {}
    if arguments.real:
        for evaluation in fresh:
            for chart in sorted((directory / evaluation).glob("real_*.svg")):
                copy(chart, RESULTS / f"{evaluation}_{chart.name}")
                charts.setdefault(evaluation, []).append(f"{evaluation}_{chart.name}")
    head = REAL_HEAD if arguments.real else HEAD
    (RESULTS / f"{name}.md").write_text(page(rows, head, charts), encoding="utf-8")
    return 0


def merged(before: Mapping[str, Rows], fresh: Mapping[str, Rows], part: Sequence[str]) -> dict[str, Rows]:
    """Return the rows to be shown by evaluation: those that were run, and those of before that were not.

    ``part``: evaluations of which rows that were not run stay; of others all that were not run go. What stays is
    marked ``earlier``.
    """
    result: dict[str, Rows] = {}
    for name in NAMES:
        old = [dict(row) | {"earlier": True} for row in before.get(name, ())]
        if name not in fresh:
            result |= {name: old} if old else {}
            continue
        new = {row["row"]: dict(row) | {"earlier": False} for row in fresh[name]}
        kept = [new.pop(row["row"], row) for row in old] if name in part else []
        result[name] = [*kept, *new.values()]
    return result


def of_other_kind(place: Path, rows: Rows, *, is_real: bool) -> str:
    """Return why rows of a file do not belong on a page of rows on real parts, or of simulated ones; "": they do."""
    others = [row["row"] for row in rows if row.get("real", False) is not is_real]
    if not others:
        return ""
    kind, advice = (
        ("not said to be measured on real parts", "leave --real out, or make rows anew, of the runs that are kept")
        if is_real
        else ("measured on real parts", "say --real, or give the folder of rows that were simulated")
    )
    return f"{place} has {len(others)} of {len(rows)} rows that were {kind}, such as {others[0]!r}: {advice}"


HEAD = (
    "# The papers' figures and ours",
    "",
    "Simulated: `penstock papers NAME --out DIR/NAME`, then `python -m penstock.benchmarks.papers.report DIR`. "
    "Each figure is the median over draws of the parameters with +-30%; the column says how many. The baseline is "
    "what it is compared with; in the control the effect must vanish. A row without a goal is reported only. "
    "Draws marked *earlier* were run before the last change to the model or the policies, which does not touch "
    "them. Nothing here was measured on the engine.",
)
REAL_HEAD = (
    "# The papers' figures and ours, on real parts",
    "",
    "Measured: `penstock papers NAME --real short --out DIR/NAME`, then `python -m penstock.benchmarks.papers.report "
    "--real DIR`. A broker of Kafka, an injector and a job ran on one machine with two cores, of which the job had one "
    "([decision 123](../../docs/decisions/0123-real-runs-count-outside-the-job.md)). Each figure is the median over "
    "runs; the column *draws* says how many. Runs marked *earlier* were made before the last change. Nothing here was "
    "simulated.",
)


def page(rows: Mapping[str, Rows], head: Sequence[str] = HEAD, charts: Mapping[str, Sequence[str]] = NO_CHARTS) -> str:
    """Return the page: by evaluation, its rows in their order, then what was missed, softened, and is to be known.

    ``charts``: files beside the page, by evaluation.
    """
    lines = [*head]
    for name, own in rows.items():
        verdicts = [row["met"] for row in own if row["met"] is not None]
        soft = [row for row in own if row.get("softened")]
        lines += [
            "",
            f"## {name}",
            "",
            f"{sum(verdicts)} of {len(verdicts)} goals are met; {len(soft)} are softened.",
            "",
        ]
        lines += [_line(_TITLES), _line(["---"] * len(_TITLES)), *(_line(_cells(row)) for row in own)]
        lines += _listed("Missed", "note", [row for row in own if row["met"] is False])
        lines += _listed("Softened: less is asked than the paper has", "softened", soft)
        lines += _listed(
            "Met or reported, and what is to be known of it", "note", [r for r in own if r["met"] is not False]
        )
        for chart in charts.get(name, ()):
            lines += ["", f"![{chart}]({chart})"]
    return "\n".join(lines) + "\n"


def _listed(title: str, field: str, rows: Rows) -> list[str]:
    """Return a list of what rows say; rows that say the same share a line."""
    by_text: dict[str, list[str]] = {}
    for row in rows:
        if row.get(field):
            by_text.setdefault(row[field], []).append(row["row"])
    lines = [f"- **{'; '.join(names)}**: {text}" for text, names in by_text.items()]
    return ["", f"{title}:", "", *lines] if lines else []


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _by_evaluation(rows: Iterable[dict[str, Any]]) -> dict[str, Rows]:
    rows_by_evaluation: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        rows_by_evaluation.setdefault(row.pop("evaluation"), []).append(row)
    return dict(rows_by_evaluation)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    ours = row["ours"]
    yield from (row["row"], row["paper"], row["goal"], f"{figure_text(ours['median'])} {row['unit']}".strip())
    yield "" if ours["p10"] == ours["p90"] else f"{figure_text(ours['p10'])} to {figure_text(ours['p90'])}"
    for other in ("baseline", "control"):
        yield "" if row[other] is None else figure_text(row[other]["median"])
    yield f"{ours.get('draws', 1)}{', earlier' if row.get('earlier') else ''}"
    yield {None: "", True: "yes", False: "**no**"}[row["met"]]


if __name__ == "__main__":
    raise SystemExit(main())
