"""Rows of 24 bytes that cross, and the numbers of those that an exchange picks: every other one, at random."""

import numpy as np
import pyarrow as pa

from penstock.engine.transport.picked_rows import Picks

SCHEMA = pa.schema([("key", pa.int64()), ("time", pa.timestamp("us")), ("value", pa.float64())])
ROW_BYTES = 24


def source_rows(picked: int) -> tuple[pa.RecordBatch, Picks]:
    """Return twice as many rows as are picked of them, and the picks."""
    random = np.random.default_rng(picked)
    values = random.integers(0, 1 << 40, 2 * picked)
    columns = [pa.array(values), pa.array(values).cast(pa.timestamp("us")), pa.array(values.astype(np.float64))]
    picks = np.sort(random.permutation(2 * picked)[:picked]).astype(np.int32)
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA), picks
