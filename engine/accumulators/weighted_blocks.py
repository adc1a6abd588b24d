"""The places of an aggregation's weighted sums in the vector of a group (docs/design/weights.md 2).

The first numbers are of all rows of the group, whatever their values; a block for each aggregate follows.
"""

from dataclasses import dataclass
from enum import Enum

from penstock.engine.kernels.accumulate_weighted import COUNT_WIDTH, VALUE_WIDTH
from penstock.model.keep_rates import STEPS
from penstock.shedding.key_sampling import BUCKETS

MISSING, FLAWED, HEADER = COUNT_WIDTH, COUNT_WIDTH + 1, COUNT_WIDTH + 2
"""Behind the moments of all rows: the sum of 1 - accuracy of the input's rows, how many of them are flawed; the end."""


class Sums(Enum):
    """The sums that follow the moments of a block, those of rows, then those of values: ``value`` is their number."""

    NONE = 0
    OF_KEYS = BUCKETS
    """By buckets of keys (`clusters`)."""

    OF_DRAWS = 2 * STEPS
    """By the steps of records, then by the keep rates at which they were kept (`strata`)."""


@dataclass(frozen=True, slots=True)
class Block:
    """The place of one aggregate's moments in a vector: [start, end); ``of_values``: not of rows alone.

    ``sums`` follow the moments.
    """

    start: int
    of_values: bool
    sums: Sums = Sums.NONE

    @property
    def rows(self) -> int:
        """Where sums of rows begin, if there are any."""
        return self.start + (VALUE_WIDTH if self.of_values else COUNT_WIDTH)

    @property
    def values(self) -> int:
        """Where sums of values begin, if there are any."""
        return self.rows + self.sums.value

    @property
    def end(self) -> int:
        """The first number behind it."""
        return self.values + (self.sums.value if self.of_values else 0)


ALL_ROWS = Block(0, of_values=False)
