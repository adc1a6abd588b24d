"""The draws of one partition's records by strata: each takes its step from a pack of 64 that its stratum deals out.

Of any 64 records of a stratum in a row, counted from where dealing began, each step comes to one, in random order: a
rate of k/64 keeps k of them. Alone each record has every step with the same chance, as without strata. Called by
shedders, and by replays, which deal anew from the same offset on (docs/design/shedders.md 7).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.kernels.deal_steps import deal_steps, move_strata
from penstock.shedding.offset_sampling import Steps, random_words
from penstock.state.keys.arrays import read_only
from penstock.state.keys.key_columns import read_column

MOST_STRATA = 1 << 17
"""Dealing begins anew behind so many keys, so that what is kept of them stays below some megabytes."""

MOST_OFFSETS = 1 << 20
"""Dealing begins anew behind so many offsets, so that a replay can begin there."""

_AT_ONCE = 1 << 12
_LEAST = 64
_ONE = read_only(np.ones(_AT_ONCE, np.uint64))


class StrataDraws:
    """Deals steps to the records of one partition from offset ``since`` on, in order."""

    def __init__(self, seed: int, partition: str, since: int) -> None:
        """``partition`` is named as for `sample_steps`."""
        self.since = since
        self._seed, self._partition = seed, partition
        self._strata = 0
        self._set_table(_LEAST)

    def is_over(self, offset: int) -> bool:
        """Return whether dealing is to begin anew at an offset."""
        return self._strata > MOST_STRATA or offset - self.since >= MOST_OFFSETS

    def draw(self, offsets: NDArray[np.int64], strata: NDArray[np.uint64] | None) -> Steps:
        """Return the steps of the next records; ``strata``: that of each (`strata_of_keys`), None: they are of one."""
        words = random_words(self._seed, self._partition, offsets)
        steps = np.empty(len(words), np.uint8)
        for start in range(0, len(words), _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, len(words)))
            count = part.stop - part.start
            if strata is not None:
                self._make_room(count)
            mine = _ONE[:count] if strata is None else strata[part]
            table = self._ids, self._dealt, self._counts
            self._strata += int(deal_steps(read_only(words[part]), read_only(mine), *table, steps[part]))
        return steps

    def _make_room(self, more: int) -> None:
        size = len(self._ids)
        while 2 * (self._strata + more) > size:
            size *= 2
        if size > len(self._ids):
            ids, dealt, counts = self._ids, self._dealt, self._counts
            self._set_table(size)
            move_strata(ids, dealt, counts, self._ids, self._dealt, self._counts)

    def _set_table(self, size: int) -> None:
        self._ids, self._dealt = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
        self._counts = np.zeros(size, np.uint8)


def strata_of_keys(keys: Sequence[bytes | None] | None, count: int) -> NDArray[np.uint64]:
    """Return the stratum of each of ``count`` messages by its key; those without a key are of one."""
    column = pa.nulls(1, pa.binary()) if keys is None else pa.array(keys, pa.binary())
    hashes = np.maximum(read_column(column, pa.binary()).hashes(), np.uint64(1))
    return np.repeat(hashes, count) if keys is None else hashes
