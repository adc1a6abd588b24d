"""``python -m penstock.benchmarks.functions.bench``: user functions of every kind on one core, beside PyFlink.

The rows lie in memory and the results go to a black hole, so what is measured is the function and what it takes to
call it. PyFlink's figures were measured by the project on the same kind of machine, in another sitting.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.dsl.job import Job
from penstock.dsl.readers import read_memory
from penstock.dsl.stream import Stream
from penstock.model.expressions import col

RESULTS = Path(__file__).resolve().parent.parent / "results"
ROW_GOAL, BATCH_GOAL = 1.0, 8.0
FLINK_SCALAR, FLINK_STREAM, FLINK_PANDAS = 0.35, 0.03, 0.75


@dataclass(frozen=True)
class FunctionCase:
    """One way to write a function; ``goal`` and ``pyflink`` in M rows/s (None: no goal, nothing alike)."""

    name: str
    build: Callable[[Stream], Stream]
    rows: int
    goal: float | None = None
    pyflink: float | None = None


def _total(price: int, amount: int) -> int:
    return price * amount


def _total_and_shop(price: int, amount: int, shop: str) -> dict[str, Any]:
    return {"total": price * amount, "shop": shop}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {"total": row["price"] * row["amount"]}


def _arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("total", pc.multiply(batch["price"], batch["amount"]))


def _polars(frame: Any) -> Any:
    return frame.with_columns((frame["price"] * frame["amount"]).alias("total"))


def _pandas(frame: Any) -> Any:
    return frame.assign(total=frame["price"] * frame["amount"])


def _numpy(columns: dict[str, Any]) -> dict[str, Any]:
    return {**columns, "total": columns["price"] * columns["amount"]}


TOTAL = {"total": "int64"}
ALL = {"shop": "string", "price": "int64", "amount": "int64", "total": "int64"}
NUMBERS = {"price": "int64", "amount": "int64", "total": "int64"}

CASES = (
    FunctionCase("expression", lambda rows: rows.with_columns(total=col("price") * col("amount")), 20_000_000),
    FunctionCase(
        "map, two columns to one value", lambda rows: rows.map(_total, TOTAL), 4_000_000, ROW_GOAL, FLINK_SCALAR
    ),
    FunctionCase(
        "map, three columns to a dict of two",
        lambda rows: rows.map(_total_and_shop, {"total": "int64", "shop": "string"}),
        4_000_000,
        ROW_GOAL,
        FLINK_SCALAR,
    ),
    FunctionCase("map, row as a dict", lambda rows: rows.map(_row, TOTAL), 2_000_000, None, FLINK_STREAM),
    FunctionCase(
        "filter, one column", lambda rows: rows.filter(lambda price: price > 500), 4_000_000, ROW_GOAL, FLINK_SCALAR
    ),
    FunctionCase("map_batches, pyarrow", lambda rows: rows.map_batches(_arrow, ALL), 20_000_000, BATCH_GOAL),
    FunctionCase(
        "map_batches, polars", lambda rows: rows.map_batches(_polars, ALL, format="polars"), 20_000_000, BATCH_GOAL
    ),
    FunctionCase(
        "map_batches, pandas",
        lambda rows: rows.map_batches(_pandas, ALL, format="pandas"),
        20_000_000,
        BATCH_GOAL,
        FLINK_PANDAS,
    ),
    FunctionCase(
        "map_batches, numpy",
        lambda rows: rows.select("price", "amount").map_batches(_numpy, NUMBERS, format="numpy"),
        20_000_000,
        BATCH_GOAL,
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it to ``benchmarks/results/functions.md``."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.functions.bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="this part of the rows, for a quick look")
    parser.add_argument("--write", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", action="store_true", help="print one line of JSON a case")
    arguments = parser.parse_args(argv)
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rates = {case.name: measure(case, arguments.runs, arguments.share) for case in CASES}
    if arguments.json:
        for name, rate in rates.items():
            print(json.dumps({"function": name, "rows_per_s": rate * 1e6}))
    text = render(rates, arguments.runs)
    if not arguments.json:
        print(text)
    if arguments.write:
        (RESULTS / "functions.md").write_text(text)
    return 0


def measure(case: FunctionCase, runs: int, share: float) -> float:
    """Return the median rate in M rows/s, after a short run to warm up."""
    table = _rows(max(1, int(case.rows * share)))
    _run(case, table.slice(0, 10_000))
    rates: list[float] = [table.num_rows / _run(case, table) / 1e6 for _ in range(runs)]
    return statistics.median(rates)


def render(rates: dict[str, float], runs: int) -> str:
    """Write the table as Markdown."""
    lines = [
        f"# User functions on one core\n\nM rows/s from memory to a black hole, medians of {runs} runs on one core. "
        "PyFlink's figures come from another sitting on the same kind of machine.\n",
        "| function | M rows/s | goal | PyFlink |",
        "|---|---|---|---|",
    ]
    for case in CASES:
        goal = "" if case.goal is None else f"{case.goal:g}"
        pyflink = "" if case.pyflink is None else f"{case.pyflink:g}"
        lines.append(f"| {case.name} | **{rates[case.name]:.2f}** | {goal} | {pyflink} |")
    return "\n".join(lines) + "\n"


def _rows(count: int) -> pa.Table:
    numbers = np.arange(count)
    shops = pa.DictionaryArray.from_arrays(pa.array(numbers % 100, pa.int8()), [f"shop {i}" for i in range(100)])
    return pa.table({"shop": shops.cast(pa.string()), "price": numbers % 1_000, "amount": numbers % 7})


def _run(case: FunctionCase, table: pa.Table) -> float:
    job = Job()
    case.build(read_memory(table, job=job)).write_black_hole()
    started = time.perf_counter()
    job.run("functions")
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
