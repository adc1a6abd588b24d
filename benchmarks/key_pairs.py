"""Pairs of a sample of keys, by the real window join, for `key_estimates`."""

import numpy as np
import pyarrow as pa

from penstock.benchmarks.opened_operator import opened
from penstock.engine.core.contract import MAIN
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.joins.join_descriptor import JOIN
from penstock.model.expressions import col
from penstock.model.join_specs import JoinSpec
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.result_columns import BUCKET
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Tumbling, Windowing

DAY_US = 1_000_000
SIDE = StreamSchema(pa.schema({"key": pa.int64(), "paid": pa.float64(), "t": pa.timestamp("us")}), TimeColumn("t"))
SPEC = JoinSpec(
    (col("key"),),
    (col("key"),),
    (("paid", 0, "paid"), ("window_end", -1, "window_end"), (BUCKET, -1, BUCKET)),
    Windowing(Tumbling(DAY_US)),
    samplers=(0, 0),
)
PAIRS = JOIN.outputs(SPEC, [SIDE, SIDE], "pairs")[MAIN]
"""The schema of pairs."""

Sides = tuple[pa.RecordBatch, pa.RecordBatch]


def sides_of(keys: int, whose: np.ndarray, own: np.ndarray, generator: np.random.Generator) -> tuple[Sides, np.ndarray]:
    """Return one to three rows of each key on the left, two at most on the right, and what their pairs pay.

    A row of the left pays what is the key's (``whose``) and its own, of which there are three a key.
    """
    left, right = generator.integers(1, 4, keys), generator.integers(0, 3, keys)
    of_left, of_right = np.repeat(np.arange(keys), left), np.repeat(np.arange(keys), right)
    paid = whose[of_left] + own[: len(of_left)]
    sides = _side(of_left, paid), _side(of_right, np.zeros(len(of_right)))
    return sides, np.repeat(paid, right[of_left])


def pairs_of(sides: Sides, keep: float, seed: int) -> list[Batch]:
    """Return the pairs of the keys that stay: the left is read at the keep rate, the right at twice that rate."""
    join = opened(JOIN.make(SPEC, [SIDE, SIDE], "pairs"), seed)
    limit = steps_of(keep)
    for port, steps in enumerate((limit, min(2 * limit, STEPS))):
        keys = bytes([steps]) if steps < STEPS else b""
        assert not list(join.process(port, Batch(sides[port], keys=keys)))
    return [batch for _, batch in join.on_watermark(END_OF_TIME_US)]


def _side(keys: np.ndarray, paid: np.ndarray) -> pa.RecordBatch:
    columns = [pa.array(keys), pa.array(paid), pa.array(np.arange(len(keys)) % DAY_US, pa.timestamp("us"))]
    return pa.RecordBatch.from_arrays(columns, schema=SIDE.fields)
