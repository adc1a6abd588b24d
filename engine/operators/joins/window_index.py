"""A hash index over the rows of a window join's smaller side, by (window, key)."""

from collections.abc import Iterator

import numpy as np

from penstock.engine.kernels.join import find_chains, index_rows
from penstock.engine.operators.joins.chains import chained
from penstock.engine.operators.row_chunks import ChunkRows
from penstock.state.keys.arrays import Ints, read_only


class WindowIndex:
    """Rows placed by window, with one word of their key beside them; equal words are taken for equal keys."""

    def __init__(self, rows: ChunkRows, most_pairs: int) -> None:
        """Index rows; `match` yields at most ``most_pairs`` pairs at a time."""
        self.rows = rows
        self._windows, self._words = read_only(rows.at), read_only(rows.words)
        table = np.full(1 << (2 * rows.ids.size).bit_length(), -1, np.int64)
        older = np.empty(rows.ids.size, np.int64)
        index_rows(self._windows, self._words, table, older)
        self._table, self._older = read_only(table), older
        self._room = np.empty(most_pairs, np.int64), np.empty(most_pairs, np.int64)

    def match(self, rows: ChunkRows) -> Iterator[tuple[Ints, Ints]]:
        """Yield (position in ``rows``, position among the indexed rows) of equal (window, key).

        The arrays are reused: they are good until the next pairs are asked for.
        """
        heads = find_chains(read_only(rows.at), read_only(rows.words), self._table, self._windows, self._words)
        return chained(heads, self._older, self._room)
