"""Coverage and bias of totals over keys: ``python -m penstock.benchmarks.key_estimates`` prints them as a table.

The real operators: sessions of a sample of keys, then aggregates over them; of every cell all sessions are known.
``--runs`` says how many runs a cell has, ``--unweighted`` takes the rates from what leaves the sessions: then it must
fail.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.benchmarks.estimates import BIAS, COVERAGE, NoLetters
from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import MAIN, Operator, OperatorContext, RowCounters
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.aggregate_descriptor import AGGREGATE
from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import col
from penstock.model.job_graph import AggregateSpec
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.result_columns import high_of, low_of
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Session, Tumbling, Windowing
from penstock.state.stores.memory_store import MemoryStore

Floats = NDArray[np.float64]

FIELDS = pa.schema({"key": pa.int64(), "x": pa.float64(), "t": pa.timestamp("us")})
STREAM = StreamSchema(FIELDS, TimeColumn("t"))
TOTALS = {
    "count": AggregateCall("count"),
    "sum": AggregateCall("sum", (col("paid"),)),
    "mean": AggregateCall("mean", (col("paid"),)),
}
GAP_US, APART_US, DAY_US = 10, 100, 1_000_000
RUNS_OF_ONE = 10
"""So many samples are drawn of the same keys."""

KEEPS = (2 / STEPS, 16 / STEPS, 45 / STEPS)
KEPT_KEYS = (80, 200, 1_000)
SIGMAS = (0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Cell:
    """So many keys expected to stay, of 1 to 5 sessions each, that pay lognormal amounts of a sigma (0: 1 + uniform).

    Half of what is paid goes by the key: sessions of a key are alike.
    """

    kept_keys: int
    keep: float
    sigma: float

    @property
    def keys(self) -> int:
        """The keys before shedding."""
        return round(self.kept_keys / self.keep)


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


def cells() -> Iterator[Cell]:
    """Yield all cells of the table."""
    for kept_keys, keep, sigma in product(KEPT_KEYS, KEEPS, SIGMAS):
        yield Cell(kept_keys, keep, sigma)


def grade(cell: Cell, runs: int, seed: int, *, weighted: bool = True) -> list[Grade]:
    """Return what came of each total; ``weighted`` False is the control, whose sessions do not say their rate."""
    errors: dict[str, list[float]] = {name: [] for name in TOTALS}
    covered: dict[str, list[bool]] = {name: [] for name in TOTALS}
    generator = np.random.default_rng([seed, cell.keys, round(10 * cell.sigma)])
    for run in range(runs):
        if run % RUNS_OF_ONE == 0:
            rows, truths = _visits(cell, generator)
        # Cells share no draws.
        result = _totals(rows, cell.keep, int(generator.integers(1 << 48)), weighted)
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
    parser.add_argument("--unweighted", action="store_true", help="the control: sessions stand for themselves alone")
    options = parser.parse_args()
    print("| total | kept keys | keep | sigma | graded | coverage | bias (standard errors) |")
    print("|---|---|---|---|---|---|---|")
    missed = total = 0
    for cell in cells():
        for item in grade(cell, options.runs, options.seed, weighted=not options.unweighted):
            figures = f"{item.graded} | {item.coverage:.3f} | {item.bias:+.2f}"
            print(f"| {item.total} | {cell.kept_keys} | {cell.keep:.3f} | {cell.sigma} | {figures} |", flush=True)
            total += 1
            missed += not item.holds
    print(f"\n{missed} of {total} miss coverage in [{COVERAGE[0]}, {COVERAGE[1]}] and bias of {BIAS} standard errors.")


def _visits(cell: Cell, generator: np.random.Generator) -> tuple[pa.RecordBatch, dict[str, float]]:
    """Return rows in sessions of one or two rows, and the totals over all sessions."""
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
    truths = {"count": float(len(paid)), "sum": float(paid.sum()), "mean": float(paid.mean())}
    return pa.RecordBatch.from_arrays(columns, schema=FIELDS), truths


def _amounts(count: int, sigma: float, generator: np.random.Generator) -> Floats:
    if not sigma:
        return 1.0 + generator.random(count)
    amounts: Floats = np.exp(sigma * generator.standard_normal(count))
    return amounts


def _totals(rows: pa.RecordBatch, keep: float, seed: int, weighted: bool) -> dict[str, float | None]:
    """Return the totals over the sessions of the keys that stay, with the ends of their intervals."""
    calls = (("paid", AggregateCall("sum", (col("x"),))),)
    spec = AggregateSpec((("key", col("key")),), calls, Windowing(Session(GAP_US)), estimates=True, sampler=0)
    sessions = _opened(AGGREGATE.make(spec, [STREAM], "sessions"), seed)
    day = Windowing(Tumbling(DAY_US))
    totals = AggregateSpec((("all", col("paid") < 0.0),), tuple(TOTALS.items()), day, estimates=True)
    aggregate = _opened(AGGREGATE.make(totals, [AGGREGATE.outputs(spec, [STREAM], "sessions")[MAIN]], "totals"), seed)
    assert not list(sessions.process(0, Batch(rows, keys=bytes([steps_of(keep)]))))
    for _, batch in sessions.on_watermark(END_OF_TIME_US):
        list(aggregate.process(0, batch if weighted else Batch(batch.rows)))
    shown = [batch.rows for _, batch in aggregate.on_watermark(END_OF_TIME_US)]
    (result,) = pa.Table.from_batches(shown).to_pylist()
    return dict(result)


def _opened(operator: Operator, seed: int) -> Operator:
    operator.open(
        OperatorContext(
            name="totals",
            instance=0,
            parallelism=1,
            clock=SystemClock(),
            state=MemoryStore("totals"),
            counters=RowCounters(),
            dead_letters=NoLetters(),
            key_groups=np.zeros(1, np.int32),
            batch_rows=1 << 16,
            seed=seed,
            sampling_seed=seed,
        )
    )
    return operator


def _grade(name: str, cell: Cell, error: Floats, covered: list[bool]) -> Grade:
    if not len(error):
        return Grade(name, cell, 0, 0.0, 0.0)
    bias = float(error.mean() / (error.std() / np.sqrt(len(error)))) if error.std() else 0.0
    return Grade(name, cell, len(error), float(np.mean(covered)), bias)


if __name__ == "__main__":
    main()
