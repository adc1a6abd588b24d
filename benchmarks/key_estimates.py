"""Coverage and bias of totals over keys: ``python -m penstock.benchmarks.key_estimates`` prints them as a table.

The real operators: sessions, or pairs of a join, of a sample of keys, then aggregates over them; of every cell all of
them are known. ``--runs`` says how many runs a cell has, ``--of`` of which of both, ``--unweighted`` takes the rates
from what leaves the sampled operator: then it must fail.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.benchmarks.estimates import BIAS, COVERAGE
from penstock.benchmarks.key_pairs import DAY_US, PAIRS, Sides, pairs_of, sides_of
from penstock.benchmarks.opened_operator import opened
from penstock.engine.core.contract import MAIN
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.aggregate_descriptor import AGGREGATE
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.result_columns import high_of, low_of
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Session, Tumbling, Windowing

Floats = NDArray[np.float64]

FIELDS = pa.schema({"key": pa.int64(), "x": pa.float64(), "t": pa.timestamp("us")})
STREAM = StreamSchema(FIELDS, TimeColumn("t"))
TOTALS = {
    "count": AggregateCall("count"),
    "sum": AggregateCall("sum", (col("paid"),)),
    "mean": AggregateCall("mean", (col("paid"),)),
}
GAP_US, APART_US = 10, 100
RUNS_OF_ONE = 10
"""So many samples are drawn of the same keys."""

KEEPS = (2 / STEPS, 16 / STEPS, 45 / STEPS)
KEPT_KEYS = (80, 200, 1_000)
SIGMAS = (0.0, 0.5, 1.0)
KINDS = ("sessions", "pairs")

Made = Callable[[float, int], tuple[list[Batch], StreamSchema]]
"""Returns what is made of the keys that stay at a keep rate, by a seed, and its schema."""


@dataclass(frozen=True)
class Cell:
    """So many keys expected to stay, that pay lognormal amounts of a sigma (0: 1 + uniform).

    A key has 1 to 5 sessions, or 0 to 6 pairs; of pairs the keys are three halves of those that have any. Half of what
    is paid goes by the key: what is of a key is alike.
    """

    kept_keys: int
    keep: float
    sigma: float
    of: str = "sessions"

    @property
    def keys(self) -> int:
        """The keys before shedding."""
        shown = self.kept_keys / self.keep
        return round(shown if self.of == "sessions" else 1.5 * shown)


@dataclass(frozen=True)
class Grade:
    """What the intervals of one total in a cell did: the share that covered, and the bias in standard errors."""

    total: str
    cell: Cell
    graded: int
    coverage: float
    bias: float

    @property
    def holds(self) -> bool:
        """Whether the goal is met."""
        return COVERAGE[0] <= self.coverage <= COVERAGE[1] and abs(self.bias) <= BIAS


def cells(of: str) -> Iterator[Cell]:
    """Yield the cells of sessions, or of pairs."""
    for kept_keys, keep, sigma in product(KEPT_KEYS, KEEPS, SIGMAS):
        yield Cell(kept_keys, keep, sigma, of)


def grade(cell: Cell, runs: int, seed: int, *, weighted: bool = True) -> list[Grade]:
    """Return what came of each total; ``weighted`` False is the control, whose sessions do not say their rate."""
    errors: dict[str, list[float]] = {name: [] for name in TOTALS}
    covered: dict[str, list[bool]] = {name: [] for name in TOTALS}
    generator = np.random.default_rng([seed, cell.keys, round(10 * cell.sigma)])
    draw: Callable[[Cell, np.random.Generator], tuple[Made, dict[str, float]]] = (
        _visits if cell.of == "sessions" else _meetings
    )
    for run in range(runs):
        if run % RUNS_OF_ONE == 0:
            make, truths = draw(cell, generator)
        # Cells share no draws.
        sampling_seed = int(generator.integers(1 << 48))
        result = _totals(*make(cell.keep, sampling_seed), sampling_seed, weighted)
        for name, truth in truths.items():
            value, low, high = (result[column] for column in (name, low_of(name), high_of(name)))
            if value is not None and low is not None and high is not None:
                errors[name].append(value - truth)
                covered[name].append(low <= truth <= high)
    return [_grade(name, cell, np.array(errors[name]), covered[name]) for name in TOTALS]


def main() -> None:
    """Print the table, and how many cells miss the goal."""
    parser = argparse.ArgumentParser(description="Coverage and bias of totals over keys")
    parser.add_argument("--runs", type=int, default=1_000, help="runs of each cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", choices=KINDS, help="those alone; both unless it is given")
    parser.add_argument("--unweighted", action="store_true", help="the control: what is there stands for itself alone")
    options = parser.parse_args()
    print("| total over | kept keys | keep | sigma | graded | coverage | bias (standard errors) |")
    print("|---|---|---|---|---|---|---|")
    missed = total = 0
    for cell in (cell for of in KINDS if options.of in (None, of) for cell in cells(of)):
        for item in grade(cell, options.runs, options.seed, weighted=not options.unweighted):
            figures = f"{item.graded} | {item.coverage:.3f} | {item.bias:+.2f}"
            print(
                f"| {cell.of}: {item.total} | {cell.kept_keys} | {cell.keep:.3f} | {cell.sigma} | {figures} |",
                flush=True,
            )
            total += 1
            missed += not item.holds
    print(f"\n{missed} of {total} miss coverage in [{COVERAGE[0]}, {COVERAGE[1]}] and bias of {BIAS} standard errors.")


def _visits(cell: Cell, generator: np.random.Generator) -> tuple[Made, dict[str, float]]:
    """Return sessions of one or two rows, and the totals over all of them."""
    sessions = generator.integers(1, 6, cell.keys)
    key = np.repeat(np.arange(cell.keys), sessions)
    number = np.arange(len(key)) - np.repeat(np.cumsum(sessions) - sessions, sessions)
    whose, own = (_amounts(count, cell.sigma, generator) for count in (cell.keys, len(key)))
    paid = whose[key] + own
    twice = np.tile([0, 1], len(key))
    columns = [
        pa.array(np.repeat(key, 2)),
        pa.array(np.repeat(paid, 2) / 2.0),
        pa.array(np.repeat(number, 2) * APART_US + twice, pa.timestamp("us")),
    ]
    return partial(_sessions, pa.RecordBatch.from_arrays(columns, schema=FIELDS)), _truths(paid)


def _meetings(cell: Cell, generator: np.random.Generator) -> tuple[Made, dict[str, float]]:
    """Return pairs of rows of both sides, and the totals over all of them."""
    whose, own = (_amounts(count, cell.sigma, generator) for count in (cell.keys, 3 * cell.keys))
    sides, paid = sides_of(cell.keys, whose, own, generator)
    return partial(_pairs, sides), _truths(paid)


def _truths(paid: Floats) -> dict[str, float]:
    return {"count": float(len(paid)), "sum": float(paid.sum()), "mean": float(paid.mean())}


def _amounts(count: int, sigma: float, generator: np.random.Generator) -> Floats:
    if not sigma:
        return 1.0 + generator.random(count)
    amounts: Floats = np.exp(sigma * generator.standard_normal(count))
    return amounts


def _sessions(rows: pa.RecordBatch, keep: float, seed: int) -> tuple[list[Batch], StreamSchema]:
    """Return the sessions of the keys that stay."""
    calls = (("paid", AggregateCall("sum", (col("x"),))),)
    spec = AggregateSpec((("key", col("key")),), calls, Windowing(Session(GAP_US)), estimates=True, sampler=0)
    sessions = opened(AGGREGATE.make(spec, [STREAM], "sessions"), seed)
    assert not list(sessions.process(0, Batch(rows, keys=bytes([steps_of(keep)]))))
    found = [batch for _, batch in sessions.on_watermark(END_OF_TIME_US)]
    return found, AGGREGATE.outputs(spec, [STREAM], "sessions")[MAIN]


def _pairs(sides: Sides, keep: float, seed: int) -> tuple[list[Batch], StreamSchema]:
    """Return the pairs of the keys that stay."""
    return pairs_of(sides, keep, seed), PAIRS


def _totals(results: list[Batch], schema: StreamSchema, seed: int, weighted: bool) -> dict[str, float | None]:
    """Return the totals over results of the keys that stay, with the ends of their intervals."""
    day = Windowing(Tumbling(DAY_US))
    totals = AggregateSpec((("all", col("paid") < 0.0),), tuple(TOTALS.items()), day, estimates=True)
    aggregate = opened(AGGREGATE.make(totals, [schema], "totals"), seed)
    for batch in results:
        list(aggregate.process(0, batch if weighted else Batch(batch.rows)))
    shown = [batch.rows for _, batch in aggregate.on_watermark(END_OF_TIME_US)]
    (result,) = pa.Table.from_batches(shown).to_pylist()
    return dict(result)


def _grade(name: str, cell: Cell, error: Floats, covered: list[bool]) -> Grade:
    if not len(error):
        return Grade(name, cell, 0, 0.0, 0.0)
    bias = float(error.mean() / (error.std() / np.sqrt(len(error)))) if error.std() else 0.0
    return Grade(name, cell, len(error), float(np.mean(covered)), bias)


if __name__ == "__main__":
    main()
