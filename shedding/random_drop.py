"""Which rows of a batch a shedder keeps: each with the same probability, by itself (Stream-Economics, section 3.2).

It is meant for a producer, before an exchange, and for a source, right after fetching; no job drops rows yet.
"""

import numpy as np

from penstock.model.columns import Bools


class RandomDrop:
    """The shedder of one edge of one instance: its draws are its own, and the same again after a restart.

    They are a function of `seed`, `edge`, `instance` and of how many rows came before; `edge` is -1 for what a source
    fetches. How rows are cut into batches changes nothing.
    """

    def __init__(self, seed: int, edge: int, instance: int, rows_before: int = 0) -> None:
        """Go on behind the first `rows_before` rows."""
        # One draw takes one step of this generator, which can also jump.
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, edge + 1, instance]))
        self._bits.advance(rows_before)
        self._draw = np.random.Generator(self._bits)
        self.rows = rows_before

    def keep(self, rows: int, d: float) -> Bools:
        """Return the mask of the next rows, each True with probability d in [0, 1].

        A row that is kept with one d is kept with every larger one.
        """
        if not 0.0 <= d <= 1.0:
            raise ValueError(f"a row is kept with a probability in [0, 1], not {d}")
        self.rows += rows
        return self._draw.random(rows) < d
