"""Time of a decision about 10,000 batches, for few and for many queries; and the cost model's example."""

import time
from collections.abc import Mapping

import numpy as np

from penstock.benchmarks.papers.evaluation import Row, spread
from penstock.shedding.cost_model import IntervalHistory, UsefulCost
from penstock.shedding.fair_shedder import FairShedder, PartialBatchMode
from penstock.shedding.shedders import EqualShareShedder, FifoShedder, InputBuffer, RandomShedder, Shedder, Standing

BATCHES = 10_000
LIMIT_MS = 0.05 * 250
REPEATS = 40
SHEDDERS: Mapping[str, Shedder] = {
    "fair, literal": FairShedder(PartialBatchMode.LITERAL),
    "fair, strict": FairShedder(PartialBatchMode.STRICT),
    "fair, slice": FairShedder(),
    "fair by cost": FairShedder(by_cost=True),
    "random": RandomShedder(),
    "FIFO": FifoShedder(),
    "equal CPU time": EqualShareShedder(),
}


def decision_ms(shedder: Shedder, queries: int, seed: int) -> list[float]:
    """Return the processor time of some decisions on batches of 1 to 1,000 rows, half of which may stay.

    Not the time on the wall: the cores may be shared.
    """
    random = np.random.default_rng(seed)
    rows = random.integers(1, 1001, BATCHES)
    buffer = InputBuffer(random.integers(0, queries, BATCHES).astype(np.int32), random.random(BATCHES), rows)
    standing = Standing(random.random(queries), np.full(queries, float(BATCHES)), random.uniform(0.1, 2, queries))
    took = []
    for _ in range(REPEATS):
        begun = time.thread_time()
        shedder.load_shed(buffer, int(rows.sum()) // 2, standing, random)
        took.append((time.thread_time() - begun) * 1000)
    return took


def time_rows(seed: int) -> list[Row]:
    """Return measured times: the only rows that differ from run to run."""
    result = []
    for queries in (20, 1_000, 10_000):
        plain = spread(decision_ms(SHEDDERS["random"], queries, seed))
        for name, shedder in SHEDDERS.items():
            took = decision_ms(shedder, queries, seed)
            is_fair = name.startswith("fair")
            result.append(
                Row(
                    seed, f"{name}: {BATCHES:,} batches, {queries:,} queries", "none", f"<= {LIMIT_MS} (5% of 250)",
                    spread(took), plain, met=float(np.median(took)) <= LIMIT_MS if is_fair else None, unit="ms",
                    note=f"p99 {np.percentile(took, 99):.2f} ms; baseline: random",
                )
            )  # fmt: skip
    return result


def example_rows(seed: int) -> list[Row]:
    """Return the example of section 5.3: 5,000 tuples in 300 ms."""
    history = IntervalHistory().after(300, 300, 5000)
    cost_ms, n_tuples = UsefulCost().tuple_cost_ms(history), UsefulCost().n_tuples(history)
    assert cost_ms is not None and n_tuples is not None
    return [
        Row(seed, "C_T of the example", "0.06 ms", "0.06", spread([cost_ms]), met=round(cost_ms, 9) == 0.06, unit="ms"),
        Row(
            seed, "N_tuples of the example", "roughly 4,100 (smoothed)", "4,166", spread([float(int(n_tuples))]),
            met=int(n_tuples) == 4166, unit="tuples",
        ),
    ]  # fmt: skip
