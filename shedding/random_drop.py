"""Random shedding: each row of a batch is kept independently with one probability (Stream-Economics, section 3.2).

It is meant for a producer, before an exchange, and for a source, right after fetching; no job drops rows yet.
"""

import numpy as np

from penstock.model.columns import Bools


class RandomDrop:
    """The shedder of one edge of one instance, with its own sequence of draws, which a restart repeats.

    The draws are a function of `seed`, `edge`, `instance` and the number of rows before; `edge` is -1 for rows that a
    source fetches. The division into batches does not matter.
    """

    def __init__(self, seed: int, edge: int, instance: int, rows_before: int = 0) -> None:
        """Continue after the first `rows_before` rows."""
        # One draw takes one step of this generator, which can also jump.
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, edge + 1, instance]))
        self._bits.advance(rows_before)
        self._draw = np.random.Generator(self._bits)
        self.rows = rows_before

    def keep(self, rows: int, d: float) -> Bools:
        """Return the mask of the next rows, each True with probability d in [0, 1].

        A row that is kept with some d is kept with every larger d.
        """
        if not 0.0 <= d <= 1.0:
            raise ValueError(f"a row is kept with a probability in [0, 1], not {d}")
        self.rows += rows
        return self._draw.random(rows) < d
