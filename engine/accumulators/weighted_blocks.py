"""The places of an aggregation's weighted sums in the vector of a group (docs/design/weights.md 2).

The first numbers are of all rows of the group, whatever their values; a block for each aggregate follows.
"""

from dataclasses import dataclass

from penstock.engine.kernels.accumulate_weighted import COUNT_WIDTH, VALUE_WIDTH
from penstock.shedding.key_sampling import BUCKETS

MISSING, FLAWED, HEADER = COUNT_WIDTH, COUNT_WIDTH + 1, COUNT_WIDTH + 2
"""Behind the moments of all rows: the sum of 1 - accuracy of the input's rows, how many of them are flawed; the end."""


@dataclass(frozen=True, slots=True)
class Block:
    """The place of one aggregate's moments in a vector: [start, end); ``of_values``: not of rows alone.

    ``of_keys``: sums by `BUCKETS` of keys follow the moments, those of rows, then those of values.
    """

    start: int
    of_values: bool
    of_keys: bool = False

    @property
    def rows(self) -> int:
        """Where sums of rows by bucket begin, if there are any."""
        return self.start + (VALUE_WIDTH if self.of_values else COUNT_WIDTH)

    @property
    def values(self) -> int:
        """Where sums of values by bucket begin, if there are any."""
        return self.rows + BUCKETS

    @property
    def end(self) -> int:
        """The first number behind it."""
        if not self.of_keys:
            return self.rows
        return self.values + (BUCKETS if self.of_values else 0)


ALL_ROWS = Block(0, of_values=False)
