"""The bound of rows handed to an operator at once: what they add must not outgrow its bucket by much.

Called by `paged_operator`, which cuts longer input and looks after every piece whether the bucket must be cut.
"""

from penstock.engine.core.elements import Batch
from penstock.engine.paging.options import PagingOptions

_PIECES = 4
"""Into how many pieces input is cut at least that fills a bucket."""

_MOST_ROWS = 32_768
_LEAST_ROWS = 64
_FIRST_ROWS = 4_096
_REMEMBERED_ROWS = 16_384


class Growth:
    """The growth of one operator's state per row, by the rows that came last."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._rows = 0.0
        self._bytes = 0.0

    def note(self, rows: int, added_bytes: int) -> None:
        """So many rows (at least one) have made a bucket larger by so much, or smaller."""
        forgotten = 0.5 if self._rows > _REMEMBERED_ROWS else 1.0
        self._rows = self._rows * forgotten + rows
        self._bytes = self._bytes * forgotten + max(added_bytes, 0)

    def bytes_of(self, rows: int) -> int:
        """Return about how much so many rows add, if all of them add as much."""
        return int(rows * self._bytes / self._rows) if self._rows else 0

    def cut(self, batch: Batch, options: PagingOptions) -> tuple[Batch, Batch | None]:
        """Return as many rows as a bucket may be given at once, and the others; without a budget all."""
        if options.budget_bytes is None:
            return batch, None
        rows = self.rows_within(options.largest_bytes(2) // _PIECES)
        if batch.rows.num_rows <= rows * 5 // 4:
            return batch, None
        return batch.with_rows(batch.rows.slice(0, rows)), batch.with_rows(batch.rows.slice(rows))

    def rows_within(self, room_bytes: int) -> int:
        """Return how many rows may come at once where there is room for so much."""
        if not self._rows:
            return _FIRST_ROWS
        one_bytes = self._bytes / self._rows
        return _MOST_ROWS if one_bytes * _MOST_ROWS <= room_bytes else max(_LEAST_ROWS, int(room_bytes / one_bytes))
