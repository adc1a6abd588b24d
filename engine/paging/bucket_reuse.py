"""How far back the buckets of an operator instance were last used: how large its memory would have to be to hit.

What lies in memory is buckets, so distances are those of buckets. They are few, so all accesses count, and none is
looked at by row (docs/decisions/0144-distances-are-those-of-buckets.md). Kept by `bucket_accesses`.
"""

from collections.abc import Sequence

import numpy as np

from penstock.model.columns import Floats
from penstock.model.reuse_distances import REUSE_BOUNDS

_SWEEPS = 256
"""As many sweeps back are told apart."""


class BucketReuse:
    """Accesses of rows by the bytes of the buckets that were used since theirs was, itself included."""

    def __init__(self) -> None:
        """Nothing was used."""
        self.counted: Floats = np.zeros(len(REUSE_BOUNDS))
        """Rows by `REUSE_BOUNDS`; replaced, never changed, so that another thread may read it."""
        self._ends = np.zeros(0, np.int64)

    def swept(
        self, uses: Sequence[int], sizes: Sequence[int], visits: Sequence[int], rows: Sequence[int], last_use: int
    ) -> None:
        """Take in a sweep that ended with the use of this number.

        ``uses`` and ``sizes`` are of all buckets: the number of the last use of each, before the sweep where it was
        visited, and its bytes. ``visits`` are those numbers of the buckets that had a turn, ``rows`` what came to each.

        Those in memory have their turns first, whichever they are, so that with memory c an access hits with
        probability

            hit(c) = (c - D) / (U - D) in [0, 1]
              D   bytes of the buckets that were last used in a later sweep than this one
              U   bytes of those that were last used in the same sweep or later, itself included
        """
        ends = self._ends
        sweep_of_bucket, sweep_of_visit = (
            np.minimum(np.searchsorted(ends, numbers), max(len(ends) - 1, 0)) for numbers in (uses, visits)
        )
        count = max(len(ends), 1)
        own: Floats = np.bincount(sweep_of_bucket, np.asarray(sizes, np.float64), count).astype(np.float64)
        until: Floats = np.cumsum(own[::-1])[::-1]
        came: Floats = np.bincount(sweep_of_visit, np.asarray(rows, np.float64), count).astype(np.float64)
        some = np.flatnonzero(came)
        self.add(came[some], until[some] - own[some], until[some])
        self._ends = np.append(ends, last_use)[-_SWEEPS:].astype(np.int64)

    def add(self, rows: Floats, over: Floats, up_to: Floats) -> None:
        """Take in rows whose distances lie evenly in (over, up_to], bytes."""
        self.counted = self.counted + spread_evenly(rows, over, up_to)


def spread_evenly(rows: Floats, over: Floats, up_to: Floats) -> Floats:
    """Return rows by `REUSE_BOUNDS`, whose distances lie evenly in (over, up_to], bytes, or at both if they are one."""
    wide = np.maximum(up_to - over, 1.0)[:, np.newaxis]
    below = np.clip((REUSE_BOUNDS - over[:, np.newaxis]) / wide, 0.0, 1.0)
    below[:, -1] = 1.0
    return np.asarray(rows @ np.diff(below, axis=1, prepend=0.0), np.float64)


def spread_below(rows: int, up_to: int) -> Floats:
    """Return rows by `REUSE_BOUNDS`, whose distances lie evenly in (0, up_to], bytes."""
    below: Floats = np.minimum(REUSE_BOUNDS / max(up_to, 1), 1.0)
    below[-1] = 1.0
    below[1:] -= below[:-1].copy()
    return below * float(rows)
