"""Lists of slots by prefix, with the prefixes in order: windows and timers."""

import numpy as np
from numpy.typing import NDArray

from penstock.model.errors import StateBudgetError
from penstock.state.kernels import prefixes as kernels
from penstock.state.kernels.prefixes import HEAP, LIVE, NOBODY, ListArrays
from penstock.state.keys.arrays import read_only
from penstock.state.tables.budget import Account

Slots = NDArray[np.int64]

_SMALLEST_INDEX = 64


class PrefixLists:
    """Lists of slots by prefix.

    With ``ordered``, queries by order cost O(answer) up to a logarithm; without, they are not allowed.
    """

    def __init__(self, account: Account, ordered: bool) -> None:
        self._account = account
        self._ordered = ordered
        self._counters = np.zeros(2, np.int64)
        self._lists = self._with_index(_SMALLEST_INDEX, np.zeros(0, np.int32), np.zeros(0, np.int32))

    def grow(self, slots: int) -> None:
        """Make room for slots < `slots`."""
        old = self._lists
        following, preceding = self._account.longer(slots, old.following, old.preceding)
        self._lists = old._replace(following=following, preceding=preceding)

    def add(self, slots: Slots, prefixes: NDArray[np.int64]) -> None:
        """Append each slot to the list of its prefix.

        Raises:
            StateBudgetError: no room for all of them; then none was added.
        """
        slots, prefixes = read_only(slots), read_only(prefixes)
        done = 0
        while True:
            done = kernels.link(slots, prefixes, self._lists, self._counters, done)
            if done == len(slots):
                return
            try:
                self._make_room()
            except StateBudgetError:
                self.remove(slots[:done], prefixes[:done])
                raise

    def remove(self, slots: Slots, prefixes: NDArray[np.int64]) -> None:
        """Take each slot out of the list of its prefix, where it must be."""
        kernels.unlink(read_only(slots), read_only(prefixes), self._lists, self._counters)

    def of(self, prefixes: NDArray[np.int64]) -> tuple[NDArray[np.int64], Slots]:
        """Return the number of slots of each prefix, and the slots, prefix by prefix, oldest first."""
        if len(prefixes) == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        prefixes = read_only(prefixes)
        counts = np.empty(len(prefixes), np.int64)
        kernels.count(prefixes, self._lists, counts)
        slots = np.empty(counts.sum(), np.int64)
        kernels.collect(prefixes, self._lists, slots)
        return counts, slots

    def first(self) -> int | None:
        """Return the smallest prefix that has slots."""
        kernels.pop_dead(self._lists, self._counters)
        return int(self._lists.heap[0]) if self._counters[LIVE] else None

    def below(self, bound: int) -> Slots:
        """Return the slots of all prefixes < bound, ordered by prefix."""
        return self.of(self._prefixes_below(bound))[1]

    def between(self, first: int, end: int) -> Slots:
        """Return the slots of all prefixes in [first, end), ordered by prefix; O(prefixes below `end`)."""
        prefixes = self._prefixes_below(end)
        return self.of(prefixes[prefixes >= first])[1]

    def _prefixes_below(self, bound: int) -> NDArray[np.int64]:
        """Return prefixes < bound, ascending: all live ones and perhaps some that have no slots."""
        first = self.first()
        if first is None or first >= bound:
            return np.empty(0, np.int64)
        prefixes = np.empty(self._counters[HEAP], np.int64)
        return np.unique(prefixes[: kernels.below(bound, self._lists.heap, self._counters, prefixes)])

    def _make_room(self) -> None:
        """Enlarge the index if too much of it is used, and rebuild the heap from the live prefixes."""
        old = self._lists
        live = int(self._counters[LIVE])
        size = len(old.heads)
        self._lists = self._with_index(2 * size if 4 * live >= size else size, old.following, old.preceding)
        self._account.charge(-_index_bytes(old))
        used = np.flatnonzero(old.heads != NOBODY)
        kernels.enter(
            read_only(old.prefixes[used]),
            read_only(old.heads[used]),
            read_only(old.sizes[used]),
            self._lists,
        )
        if self._ordered:
            self._lists.heap[:live] = np.sort(old.prefixes[used])
            self._counters[HEAP] = live

    def _with_index(self, size: int, following: NDArray[np.int32], preceding: NDArray[np.int32]) -> ListArrays:
        lists = ListArrays(
            following,
            preceding,
            prefixes=np.zeros(size, np.int64),
            heads=np.full(size, NOBODY, np.int32),
            sizes=np.zeros(size, np.int64),
            heap=np.zeros(size if self._ordered else 0, np.int64),
        )
        self._account.charge(_index_bytes(lists))
        return lists


def _index_bytes(lists: ListArrays) -> int:
    return lists.prefixes.nbytes + lists.heads.nbytes + lists.sizes.nbytes + lists.heap.nbytes
