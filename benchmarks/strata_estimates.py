"""Coverage, bias and width of estimates over strata: ``python -m penstock.benchmarks.strata_estimates`` prints a table.

Rows of many keys come mixed into one partition, and draw their steps by key, or each by itself. Windows cut the stream
where they like, so that packs of 64 rows begin and end within them. Every group is a key and a window; totals are over
all keys of one. ``--runs`` says how many groups a cell has, ``--unweighted`` is the control whose batches do not say
their keep, which must fail.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.benchmarks.opened_operator import opened
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.dataflow.strata_draws import StrataDraws
from penstock.engine.operators.aggregates.aggregate_descriptor import AGGREGATE
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.result_columns import high_of, low_of
from penstock.model.sampling import DRAW_FIELD
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Tumbling, Windowing
from penstock.shedding.offset_sampling import sample_steps

Floats = NDArray[np.float64]
Draw = Literal["strata", "independent"]

FIELDS = pa.schema({"key": pa.int64(), "x": pa.float64(), "t": pa.timestamp("us")})
CALLS = {
    "count": AggregateCall("count"),
    "sum": AggregateCall("sum", (col("x"),)),
    "mean": AggregateCall("mean", (col("x"),)),
}
KEYS = 50
COVERAGE = (0.93, 0.97)
BIAS = 3.5


@dataclass(frozen=True)
class Cell:
    """Groups of about so many kept rows, of values of a lognormal sigma (0: 1 + uniform), at a keep rate."""

    kept_rows: int
    keep: float
    sigma: float

    @property
    def rows(self) -> int:
        """The rows of a group before shedding, on the average."""
        return round(self.kept_rows / self.keep)


@dataclass(frozen=True)
class Grade:
    """What became of the groups of one aggregate: how many covered, the bias in standard errors, and their error.

    ``ratio`` is the error (root of the mean square) by that of rows that were dropped independently; ``total_ratio``
    that of totals over keys, 0 for means.
    """

    aggregate: str
    cell: Cell
    graded: int
    coverage: float
    bias: float
    ratio: float
    total_ratio: float

    @property
    def holds(self) -> bool:
        """Whether the goal is met: of counts, whose intervals are of whole rows, no less than the goal."""
        most = 1.0 if self.aggregate == "count" else COVERAGE[1]
        return COVERAGE[0] <= self.coverage <= most and abs(self.bias) <= BIAS


@dataclass(frozen=True)
class _Results:
    truth: Floats
    value: Floats
    low: Floats
    high: Floats

    def errors(self) -> Floats:
        return self.value - self.truth


def cells() -> Iterator[Cell]:
    """Yield all cells of the table."""
    for kept_rows, keep, sigma in product(
        (80, 200, 1_000), (8 / STEPS, 16 / STEPS, 32 / STEPS, 48 / STEPS), (0.0, 0.5, 1.0)
    ):
        yield Cell(kept_rows, keep, sigma)


def grade(cell: Cell, groups: int, seed: int, *, weighted: bool = True, drawn: bool = True) -> list[Grade]:
    """Return what came of each aggregate.

    Controls: batches that do not say their keep (``weighted`` False), rows that do not say what they drew (``drawn``).
    """
    windows = -(-groups // KEYS)
    strata = _run(cell, windows, seed, "strata", weighted=weighted, told=drawn)
    independent = _run(cell, windows, seed, "independent", weighted=weighted, told=False)
    grades = []
    for name in CALLS:
        mine, others = strata[name], independent[name]
        known = np.isfinite(mine.low)
        error = mine.errors()[known]
        covered = (mine.low <= mine.truth) & (mine.truth <= mine.high)
        bias = float(error.mean() / (error.std() / np.sqrt(len(error)))) if error.any() else 0.0
        ratio = _root_mean_square(error) / _root_mean_square(others.errors())
        totals = [_root_mean_square(item.errors().reshape(windows, KEYS).sum(axis=1)) for item in (mine, others)]
        total_ratio = 0.0 if name == "mean" else totals[0] / totals[1]
        grades.append(Grade(name, cell, int(known.sum()), float(covered[known].mean()), bias, ratio, total_ratio))
    return grades


def _run(cell: Cell, windows: int, seed: int, draw: Draw, *, weighted: bool, told: bool) -> dict[str, _Results]:
    generator = np.random.default_rng([seed, cell.rows, round(10 * cell.sigma)])
    size = KEYS * cell.rows
    spec = AggregateSpec((("key", col("key")),), tuple(CALLS.items()), Windowing(Tumbling(size)), estimates=True)
    schema = StreamSchema(pa.schema([*FIELDS, DRAW_FIELD]) if told else FIELDS, TimeColumn("t"))
    operator = opened(AGGREGATE.make(spec, [schema], "estimates"), seed)
    draws = StrataDraws(seed, "estimates/0", 0)
    truths: dict[str, list[Floats]] = {name: [] for name in CALLS}
    for window in range(windows):
        key = generator.integers(0, KEYS, size)
        x = np.exp(cell.sigma * generator.standard_normal(size)) if cell.sigma else 1.0 + generator.random(size)
        offsets = np.arange(window * size, (window + 1) * size)
        if draw == "strata":
            steps = draws.draw(offsets, (key + 1).astype(np.uint64))
        else:
            steps = sample_steps(seed, "estimates/0", offsets)
        stays = steps < steps_of(cell.keep)
        columns = [pa.array(key[stays]), pa.array(x[stays]), pa.array(offsets[stays], pa.timestamp("us"))]
        columns += [pa.array(steps[stays])] if told else []
        rows = pa.RecordBatch.from_arrays(columns, schema=schema.fields)
        assert not list(operator.process(0, Batch(rows, cell.keep if weighted else 1.0)))
        count, total = np.bincount(key, minlength=KEYS).astype(np.float64), np.bincount(key, x, KEYS)
        for name, truth in {"count": count, "sum": total, "mean": total / count}.items():
            truths[name].append(truth.astype(np.float64))
    results = pa.Table.from_batches([batch.rows for _, batch in operator.on_watermark(END_OF_TIME_US)])
    results = results.sort_by([("window_start", "ascending"), ("key", "ascending")])
    assert results.num_rows == windows * KEYS
    return {
        name: _Results(
            np.concatenate(truths[name]),
            *(_doubles(results.column(column)) for column in (name, low_of(name), high_of(name))),
        )
        for name in CALLS
    }


def main() -> None:
    """Print the table, and how many cells miss the goal."""
    parser = argparse.ArgumentParser(description="Coverage, bias and width of estimates over strata")
    parser.add_argument("--runs", type=int, default=4_000, help="groups of each cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unweighted", action="store_true", help="the control: kept rows stand for themselves alone")
    options = parser.parse_args()
    print("| aggregate | kept rows | keep | sigma | graded | coverage | bias (standard errors) | error | of totals |")
    print("|---|---|---|---|---|---|---|---|---|")
    missed = total = 0
    for cell in cells():
        for item in grade(cell, options.runs, options.seed, weighted=not options.unweighted):
            figures = (
                f"{item.graded} | {item.coverage:.3f} | {item.bias:+.2f} | {item.ratio:.2f} | {item.total_ratio:.2f}"
            )
            print(f"| {item.aggregate} | {cell.kept_rows} | {cell.keep:.3f} | {cell.sigma} | {figures} |", flush=True)
            total += 1
            missed += not item.holds
    print(f"\n{missed} of {total} miss coverage in [{COVERAGE[0]}, {COVERAGE[1]}] and bias of {BIAS} standard errors.")


def _root_mean_square(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _doubles(column: pa.ChunkedArray) -> Floats:
    numbers: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


if __name__ == "__main__":
    main()
