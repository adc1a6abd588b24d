"""The memory of paged operators and its division. Handed to `bucket_store` and `paged_operator`."""

from dataclasses import dataclass

import numpy as np

from penstock.model.columns import Floats

MANY_BUCKETS = 32
"""Without a budget buckets are larger where there are more than so many: each takes time of its own at every batch."""

_MOST_PIECES = 64

_PAGE_PART = 4
"""One of so many parts of a budget is the page store's, within bounds."""

_LEAST_PAGE_BYTES, _MOST_PAGE_BYTES = 1 << 20, 64 << 20


@dataclass(frozen=True, slots=True)
class PagingOptions:
    """The memory of an operator instance.

    ``budget_bytes`` bounds state, waiting rows and the page store's memory together (None: everything stays in memory).
    ``bucket_bytes``: a bucket that is alone is cut when it grows beyond, and none that has less than
    ``least_bucket_bytes``. ``row_bytes`` is how many bytes of rows may wait before they are worked off (None: a quarter
    of the budget), ``patience_ns`` how long they wait at most for others to share a look at their bucket.
    ``page_bytes`` is the page store's part of the budget (None: a quarter, 64 MB at most). A bucket in memory whose
    image has at most ``inline_bytes`` gets no file of its own in a checkpoint.
    """

    budget_bytes: int | None = None
    bucket_bytes: int = 8 << 20
    least_bucket_bytes: int = 1 << 18
    row_bytes: int | None = None
    patience_ns: int = 1_000_000_000
    page_bytes: int | None = None
    inline_bytes: int = 1 << 16

    @property
    def waiting_bytes(self) -> int:
        """The bytes of rows that may wait before they are worked off."""
        if self.row_bytes is not None:
            return self.row_bytes
        return 64 << 20 if self.budget_bytes is None else max(self.budget_bytes // 4, 1 << 16)

    @property
    def page_memory_bytes(self) -> int:
        """The page store's part of the budget."""
        if self.page_bytes is not None:
            return self.page_bytes
        if self.budget_bytes is None:
            return 32 << 20
        return min(_MOST_PAGE_BYTES, max(_LEAST_PAGE_BYTES, self.budget_bytes // _PAGE_PART))

    @property
    def held_bytes(self) -> int | None:
        """The part of the budget for buckets, besides rows that wait."""
        return None if self.budget_bytes is None else self.budget_bytes - self.page_memory_bytes

    def largest_bytes(self, buckets: int) -> int:
        """Return how large a bucket may grow when there are so many."""
        if self.held_bytes is None:
            return max(self.bucket_bytes, self.bucket_bytes * buckets // MANY_BUCKETS)
        share = 2 if buckets == 1 else 5
        return max(min(self.held_bytes // share, self.bucket_bytes), self.least_bucket_bytes)

    def pieces(self, bucket_bytes: int, added_bytes: int, buckets: int) -> int:
        """Return into how many pieces one of so many buckets is cut that is too large, and about to grow by so much.

        Without a budget it is a power of two, as key groups mostly are, so that pieces are whole key groups.
        """
        if self.held_bytes is None:
            wanted = -(-(bucket_bytes * 3 // 2 + added_bytes) // self.largest_bytes(buckets))
            return int(min(_MOST_PIECES, 1 << max(1, (wanted - 1).bit_length())))
        return min(_MOST_PIECES, max(2, -(-(2 * bucket_bytes + added_bytes) // self.largest_bytes(2))))


def budgets_of(held_bytes: Floats) -> Floats:
    """Return the budgets of which so many bytes are for buckets; the inverse of `PagingOptions.held_bytes`."""
    page = np.clip(held_bytes / (_PAGE_PART - 1), _LEAST_PAGE_BYTES, _MOST_PAGE_BYTES)
    return np.ceil(held_bytes + page)
