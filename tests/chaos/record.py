"""What `make chaos` has done so far: a line of JSON for every finished part, so that it can go on where it stopped."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.chaos.experiment import ChaosReport
from penstock.tables import Column, count_text, print_table, seconds_text


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a row of the table; its number is its seed."""

    row: str
    number: int


class Record:
    """The parts that are done. One that failed counts as done for the table, and is run again when asked for again."""

    def __init__(self, file: Path) -> None:
        """Read what is there; a line that a crash cut short is left out."""
        self._file = file
        self._done: dict[Part, dict[str, Any]] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            try:
                data = json.loads(line)
            except json.JSONDecodeError:
                continue
            self._done[Part(data["row"], data["part"])] = data

    def is_exact(self, part: Part) -> bool:
        """Return whether the part is done and all went well."""
        return part in self._done and bool(self._done[part]["exact"])

    def add(self, part: Part, report: ChaosReport, seconds: float) -> None:
        """Write the result of a part."""
        data = {
            "row": part.row,
            "part": part.number,
            "seconds": round(seconds, 1),
            "exact": report.exact,
            "kills": report.kills,
            "after_checkpoint": report.after_checkpoint,
            "restarts": report.restarts,
            "runs": report.runs,
            "rows_in": report.rows_in,
            "rows": report.rows,
            "lost": report.lost,
            "duplicated": report.duplicated,
            "fallbacks": report.fallbacks,
            "points": len(report.points),
            "unreached": list(report.unreached),
            "recoveries_s": [round(seconds, 4) for seconds in report.recoveries_s],
            "failure": report.failure,
        }
        self._done[part] = data
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            # The line break in front ends a line that a crash cut short.
            file.write("\n" + json.dumps(data) + "\n")

    def show(self, parts: Sequence[Part]) -> bool:
        """Print the table of these parts and what was not run; return whether all that was run is exact."""
        titles = ("parts", "kills", "runs", "rows read", "rows", "lost", "duplicated", "recovery p50", "p99", "max")
        rows, missing, failures = [], [], []
        for row in dict.fromkeys(part.row for part in parts):
            wanted = [part for part in parts if part.row == row]
            done = [self._done[part] for part in wanted if part in self._done]
            if len(done) < len(wanted):
                missing.append(f"{len(wanted) - len(done)} of {len(wanted)} parts of {row}")
            failures += [f"{row}, part {data['part']}: {data['failure']}" for data in done if data["failure"]]
            rows.append(_line(row, len(wanted), done))
        print_table([Column("test", figures=False), *map(Column, titles), Column("seeds")], rows)
        for text in (*failures, *(f"not run: {text}" for text in missing)):
            print(text)
        return all(data["exact"] for part, data in self._done.items() if part in parts)


def _line(row: str, wanted: int, done: Sequence[dict[str, Any]]) -> list[str]:
    counts = [sum(data[name] for data in done) for name in ("kills", "runs", "rows_in", "rows", "lost", "duplicated")]
    recoveries = [seconds for data in done for seconds in data["recoveries_s"]]
    times = [seconds_text(float(np.percentile(recoveries, of))) if recoveries else "" for of in (50, 99, 100)]
    seeds = sorted(data["part"] for data in done)
    told = f"{seeds[0]}..{seeds[-1]}" if seeds else ""
    return [row, f"{len(done)}/{wanted}", *map(count_text, counts), *times, told]
