"""A source of rows in memory that says of each that others were dropped beside it, as one does that sheds undecoded."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.model.sampling import Sampled, Sampler

SCHEMA = pa.schema({"key": pa.int64(), "x": pa.float64(), "at": pa.timestamp("us")})
KEYS = 1_000
BATCH_ROWS = 32_768


class KeptRows(ps.Source):
    """So many rows, 20 us apart; as long as a rate is set, each stands for as many as it says."""

    bounded = False

    def __init__(self, rows: int) -> None:
        """Make the rows."""
        numbers = np.arange(rows)
        values = (numbers * 7919 % 10_007) / 7.0
        columns = [pa.array(numbers * 31 % KEYS), pa.array(values), pa.array(numbers * 20, pa.timestamp("us"))]
        self.batches = pa.table(columns, schema=SCHEMA).to_batches(max_chunksize=BATCH_ROWS)

    @property
    def schema(self) -> pa.Schema:
        """A key, a value and a time."""
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the one partition."""
        return ["0"]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        """Begin at the beginning."""
        return _KeptReader(self.batches)


class _KeptReader(ps.Reader):
    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches, self._next, self._offset = batches, 0, 0
        self._sampler: Sampler | None = None

    def sample_by(self, sampler: Sampler) -> bool:
        """Say what was dropped."""
        self._sampler = sampler
        return True

    def read(self, max_rows: int) -> ps.Read:
        """Return the next batch."""
        if self._next == len(self._batches):
            return ps.Read(ended=True)
        rows = self._batches[self._next]
        self._next += 1
        if self._sampler is None:
            return ps.Read(rows)
        keep, start = self._sampler.keep, self._offset
        shed = round(rows.num_rows / keep) - rows.num_rows
        self._offset += rows.num_rows + shed
        return ps.Read(rows, sampled=Sampled(keep, start, self._offset, shed))

    def position(self) -> int:
        """Return the batches read."""
        return self._next
