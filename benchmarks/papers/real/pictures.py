"""``python -m penstock.benchmarks.papers.real.pictures``: runs the example that sheds, and draws its pictures.

They go to ``docs/pictures/``; ``--csv FILE`` draws what an earlier run of the example has kept.
"""

import argparse
import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.benchmarks.papers.charts import draw
from penstock.benchmarks.papers.evaluation import Chart, ChartLine

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "shed_on_a_laptop.py"
PICTURES = ROOT / "docs" / "pictures"


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the pictures."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.papers.real.pictures", description=__doc__)
    parser.add_argument("--csv", metavar="FILE", type=Path, help="what the example has kept; default: it is run")
    parser.add_argument("--out", metavar="DIR", type=Path, default=PICTURES)
    arguments = parser.parse_args(argv)
    with TemporaryDirectory(prefix="penstock-pictures-") as folder:
        kept = arguments.csv or Path(folder) / "laptop.csv"
        if arguments.csv is None:
            subprocess.run([sys.executable, EXAMPLE, "--csv", kept], check=True)
        arguments.out.mkdir(parents=True, exist_ok=True)
        for path in draw(charts(kept), arguments.out):
            if path.suffix != ".svg":
                path.unlink()
    return 0


def charts(kept: Path) -> tuple[Chart, ...]:
    """Return the pictures of what the example has kept."""
    seconds, windows = _columns(kept), _columns(kept.with_stem(f"{kept.stem}_windows"))
    zone = [row for row, number in enumerate(windows["zone"]) if number == 0]
    at_s = [windows["s"][row] for row in zone]
    return (
        Chart(
            "overload-lag", "Rides that wait, and the share that is kept", "s", "s of input, or share",
            (ChartLine("lag", seconds["s"], seconds["lag_s"]), ChartLine("kept", seconds["s"], seconds["keep"])),
        ),
        Chart(
            "overload-totals", "Fares of one zone by window of five seconds", "s", "fares",
            (
                ChartLine("offered", at_s, [windows["offered"][row] for row in zone]),
                ChartLine("estimate", at_s, [windows["estimate"][row] for row in zone]),
                ChartLine("low", at_s, [windows["low"][row] for row in zone]),
                ChartLine("high", at_s, [windows["high"][row] for row in zone]),
            ),
        ),
    )  # fmt: skip


def _columns(path: Path) -> dict[str, list[float]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


if __name__ == "__main__":
    sys.exit(main())
