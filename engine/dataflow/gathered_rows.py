"""Small reads of a source that wait to become one batch."""

import pyarrow as pa

from penstock.engine.core.contract import chunks
from penstock.engine.core.elements import Batch, Sic, part_of_sic, sum_of_sic

SMALL_FRACTION = 8
"""Reads below 1/8 of a batch are gathered, larger ones leave at once (joining them would copy more than it saves)."""


class GatheredRows:
    """Rows in the order in which they were read."""

    def __init__(self, batch_rows: int, linger_ns: int) -> None:
        """Let rows leave in batches of at most ``batch_rows``, after ``linger_ns`` at the latest."""
        self.rows = 0
        self.keep = 1.0
        """The keep rate of all of them."""
        self.branches = b""
        """Of all of them, see `Batch`."""
        self.keys = b""
        """Of all of them, see `Batch`."""
        self._batches: list[pa.RecordBatch] = []
        self._sic: Sic = ()
        self._since_ns = 0
        self._batch_rows = batch_rows
        self._linger_ns = linger_ns

    def add(
        self,
        rows: pa.RecordBatch,
        now_ns: int,
        keep: float = 1.0,
        branches: bytes = b"",
        keys: bytes = b"",
        sic: Sic = (),
    ) -> None:
        """Take rows in, and their SIC; those of other keep rates have left."""
        if not self.rows:
            self._since_ns, self.keep, self.branches, self.keys = now_ns, keep, branches, keys
        self._batches.append(rows)
        self._sic = sum_of_sic(self._sic, sic)
        self.rows += rows.num_rows

    def due_ns(self) -> int | None:
        """Return when the rows have waited long enough, None when there are none."""
        return self._since_ns + self._linger_ns if self.rows else None

    def leave(self, now_ns: int, *, force: bool) -> list[Batch]:
        """Return all rows, if they are many or have waited long enough or with ``force``, else none."""
        if not self.rows:
            return []
        large = self.rows * SMALL_FRACTION >= self._batch_rows
        if not (force or large or now_ns - self._since_ns >= self._linger_ns):
            return []
        batches, self._batches, self.rows = self._batches, [], 0
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        sic, self._sic = self._sic, ()
        return [
            Batch(
                chunk,
                self.keep,
                self._since_ns,
                branches=self.branches,
                keys=self.keys,
                sic=part_of_sic(sic, chunk.num_rows, rows.num_rows),
            )
            for chunk in chunks(rows, self._batch_rows)
        ]
