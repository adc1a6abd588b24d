"""Coverage and bias of estimates: ``python -m penstock.benchmarks.estimates`` prints them as a table.

The real aggregate operators over rows that `sample_steps` keeps, a key for each run; of every cell all rows are known.
``--runs`` says how many runs a cell has, ``--unweighted`` takes their weights from the kept rows: then it must fail.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.benchmarks.opened_operator import opened
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.aggregate_descriptor import AGGREGATE
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.result_columns import certified_of, high_of, low_of
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Hopping, Tumbling, Window, Windowing
from penstock.shedding.offset_sampling import sample_steps

Floats = NDArray[np.float64]

FIELDS = pa.schema({"run": pa.int64(), "x": pa.float64(), "t": pa.timestamp("us")})
CALLS = {
    "count": AggregateCall("count"),
    "sum": AggregateCall("sum", (col("x"),)),
    "mean": AggregateCall("mean", (col("x"),)),
}
SIZE_US = 1_000
WINDOWS: dict[str, Window] = {"tumbling": Tumbling(SIZE_US), "hopping": Hopping(SIZE_US, SIZE_US // 4)}
MIXED = (1.0, 0.5, 0.375, 0.25)
"""Keep rates that follow each other within a window."""

KEEPS = (2 / STEPS, 16 / STEPS, 45 / STEPS, None)
KEPT_ROWS = (80, 200, 1_000)
SIGMAS = (0.0, 0.5, 1.0)
COVERAGE = (0.93, 0.97)
BIAS = 3.5
_ROWS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Cell:
    """So many rows expected to stay, of values of a lognormal sigma (0: 1 + uniform), at a keep rate (None: mixed)."""

    window: str
    kept_rows: int
    keep: float | None
    sigma: float

    @property
    def rows(self) -> int:
        """The rows of a window before shedding."""
        return round(self.kept_rows / (float(np.mean(MIXED)) if self.keep is None else self.keep))


@dataclass(frozen=True)
class Grade:
    """What the intervals of one aggregate in a cell did: the share that covered, and the bias in standard errors."""

    aggregate: str
    cell: Cell
    graded: int
    coverage: float
    bias: float
    certified: float

    @property
    def holds(self) -> bool:
        """Whether the goal is met."""
        return COVERAGE[0] <= self.coverage <= COVERAGE[1] and abs(self.bias) <= BIAS


def cells() -> Iterator[Cell]:
    """Yield all cells of the table."""
    for window, kept_rows, keep, sigma in product(WINDOWS, KEPT_ROWS, KEEPS, SIGMAS):
        # Of 80 rows at mixed rates too few have the greatest weights for an interval.
        if keep is not None or kept_rows > 80:
            yield Cell(window, kept_rows, keep, sigma)


def grade(cell: Cell, runs: int, seed: int, *, weighted: bool = True) -> list[Grade]:
    """Return what came of each aggregate; ``weighted`` False is the control, whose batches do not say their keep."""
    errors: dict[str, list[Floats]] = {name: [] for name in CALLS}
    graded: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in (*CALLS, *map(certified_of, CALLS))}
    at_once = max(1, min(runs, _ROWS_AT_ONCE // cell.rows))
    for first in range(0, runs, at_once):
        count = min(at_once, runs - first)
        x, results = _run(cell, count, first, seed, weighted)
        truths = {"count": np.full(count, float(cell.rows)), "sum": x.sum(axis=1), "mean": x.mean(axis=1)}
        for name, truth in truths.items():
            value, low, high = (_doubles(results.column(column)) for column in (name, low_of(name), high_of(name)))
            known = np.isfinite(low)
            errors[name].append((value - truth)[known])
            graded[name].append(((low <= truth) & (truth <= high))[known])
            certified = results.column(certified_of(name)).fill_null(False).to_numpy(zero_copy_only=False)
            graded[certified_of(name)].append(certified[known])
    return [_grade(name, cell, errors[name], graded[name], graded[certified_of(name)]) for name in CALLS]


def main() -> None:
    """Print the table, and how many cells miss the goal."""
    parser = argparse.ArgumentParser(description="Coverage and bias of estimates")
    parser.add_argument("--runs", type=int, default=4_000, help="runs of each cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unweighted", action="store_true", help="the control: kept rows stand for themselves alone")
    options = parser.parse_args()
    print("| aggregate | window | kept rows | keep | sigma | graded | coverage | bias (standard errors) | certified |")
    print("|---|---|---|---|---|---|---|---|---|")
    missed = total = 0
    for cell in cells():
        for item in grade(cell, options.runs, options.seed, weighted=not options.unweighted):
            keep = "mixed" if cell.keep is None else f"{cell.keep:.3f}"
            figures = f"{item.graded} | {item.coverage:.3f} | {item.bias:+.2f} | {item.certified:.2f}"
            print(
                f"| {item.aggregate} | {cell.window} | {cell.kept_rows} | {keep} | {cell.sigma} | {figures} |",
                flush=True,
            )
            total += 1
            missed += not item.holds
    print(f"\n{missed} of {total} miss coverage in [{COVERAGE[0]}, {COVERAGE[1]}] and bias of {BIAS} standard errors.")


def _run(cell: Cell, runs: int, first: int, seed: int, weighted: bool) -> tuple[Floats, pa.Table]:
    """Return the values of every run, one a row, and the results of its one whole window, in order of runs."""
    generator = np.random.default_rng([seed, first, cell.rows, round(10 * cell.sigma)])
    shape = (runs, cell.rows)
    x = np.exp(cell.sigma * generator.standard_normal(shape)) if cell.sigma else 1.0 + generator.random(shape)
    offsets = np.arange(x.size, dtype=np.int64) + first * cell.rows
    steps = sample_steps(seed, f"{cell.window}/{cell.kept_rows}/{cell.sigma}", offsets).reshape(shape)
    spec = AggregateSpec((("run", col("run")),), tuple(CALLS.items()), Windowing(WINDOWS[cell.window]), estimates=True)
    operator = opened(AGGREGATE.make(spec, [StreamSchema(FIELDS, TimeColumn("t"))], "estimates"), seed)
    times = np.linspace(0, SIZE_US, cell.rows, endpoint=False).astype(np.int64)
    keeps = MIXED if cell.keep is None else (cell.keep,)
    for part, keep in enumerate(keeps):
        run, row = np.nonzero(steps[:, part :: len(keeps)] < steps_of(keep))
        row = row * len(keeps) + part
        arrays = [pa.array(run), pa.array(x[run, row]), pa.array(times[row], pa.timestamp("us"))]
        rows = pa.RecordBatch.from_arrays(arrays, schema=FIELDS)
        assert not list(operator.process(0, Batch(rows, keep if weighted else 1.0)))
    shown = pa.Table.from_batches([batch.rows for _, batch in operator.on_watermark(END_OF_TIME_US)])
    whole = shown.filter(pc.equal(shown.column("window_start").cast(pa.int64()), 0)).sort_by("run")
    assert whole.num_rows == runs
    return x, whole


def _doubles(column: pa.ChunkedArray) -> Floats:
    """Return numbers, NaN where null."""
    numbers: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _grade(
    name: str, cell: Cell, errors: list[Floats], covered: list[NDArray[np.bool_]], certified: list[NDArray[np.bool_]]
) -> Grade:
    error = np.concatenate(errors)
    bias = float(error.mean() / (error.std() / np.sqrt(len(error)))) if error.any() else 0.0
    shares = (float(np.mean(np.concatenate(parts))) for parts in (covered, certified))
    coverage, trusted = shares
    return Grade(name, cell, len(error), coverage, bias, trusted)


if __name__ == "__main__":
    main()
