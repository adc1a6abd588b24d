"""The entries of every key of a top-n, each key's in a block: words and a row id (see ``kernels/entry_blocks.py``).

They repeat what the row log holds and are built from it again when an operator opens.
"""

from collections.abc import Callable

import numpy as np

from penstock.engine.kernels.entry_blocks import (
    CHANGED_SLOTS,
    COUNT,
    COUNTERS,
    HEAD_FIELDS,
    LEVELS,
    BlockArrays,
    append_entries,
    gather_entries,
    write_entries,
)
from penstock.engine.kernels.ranking import name_entries
from penstock.state.keys.arrays import Ints, read_only, zeros
from penstock.state.store import Slots

_UNBOUNDED = 1 << 62

_SMALLEST = 1_024
# Memory nobody wrote to costs nothing, copies do: large arrays grow by much.
_GROWTH = 4


class EntryBlocks:
    """Entries by slot, in an order that whoever writes them decides; at most ``limit`` a slot, if given.

    ``touched`` lists the slots that changed since the last `take_touched`.
    """

    def __init__(self, width: int, limit: int = _UNBOUNDED) -> None:
        """Start without entries, which have ``width`` words."""
        self.limit = min(limit, _UNBOUNDED)
        self.heads: Ints = zeros((_SMALLEST, HEAD_FIELDS), np.int64)
        self.entries: Ints = zeros((_SMALLEST, width + 1), np.int64)
        self._covered = 0
        self.arena = np.zeros(LEVELS, np.int64)
        self.counts = np.zeros(COUNTERS, np.int64)
        self._changed = np.empty(0, np.int64)
        self._touched = np.empty(1_024, np.int64)
        self._touched_count = 0

    @property
    def arrays(self) -> BlockArrays:
        """The arrays that kernels take; entries that grow are other arrays."""
        return BlockArrays(self.heads, self.entries, self.arena, self.counts)

    @property
    def touched(self) -> Slots:
        """The slots changed, in the order of their first change."""
        return self._touched[: self._touched_count]

    def cover(self, slots: Slots) -> None:
        """Make room for new slots."""
        need = int(slots.max()) + 1 if slots.size else 0
        while need > len(self.heads):
            self.heads = _grown(self.heads, self._covered)
        self._covered = max(self._covered, need)

    def widen(self, place: int) -> None:
        """Give every entry a further word, 0, before its word number ``place``."""
        entries = zeros((len(self.entries), self.entries.shape[1] + 1), np.int64)
        end = int(self.arena[0])
        entries[:end, :place] = self.entries[:end, :place]
        entries[:end, place + 1 :] = self.entries[:end, place:]
        self.entries = entries

    def fill(self, run: Callable[[int], int], count: int) -> None:
        """Call a kernel until it got to ``count``; it returns where to go on once there is room for more entries."""
        at = run(0)
        while at < count:
            self.entries = _grown(self.entries, int(self.arena[0]))
            at = run(at)

    def changed_room(self, rows: int) -> Ints:
        """Return an array for the slots that a batch of so many rows changes, and start counting anew."""
        self.counts[CHANGED_SLOTS] = 0
        if rows > len(self._changed):
            self._changed = np.empty(rows, np.int64)
        return self._changed

    def name(self, ids: Ints) -> None:
        """Give the entries that the batch at hand brought their ids, by row; its slots are touched."""
        changed = read_only(self._changed[: self.counts[CHANGED_SLOTS]])
        room = self._touched_count + changed.size
        if room > len(self._touched):
            touched = np.empty(2 * room, np.int64)
            touched[: self._touched_count] = self.touched
            self._touched = touched
        self._touched_count = name_entries(changed, read_only(ids), self.arrays, self._touched, self._touched_count)

    def append(self, slots: Slots, words: Ints, ids: Ints) -> None:
        """Put entries behind those of their slots."""
        changed = self.changed_room(slots.size)
        slots, words, ids = read_only(slots), read_only(words), read_only(ids)
        self.fill(
            lambda at: append_entries(at, slots, words, ids, self.arrays, changed),
            slots.size,
        )
        self.name(ids)

    def sizes(self, slots: Slots) -> Ints:
        """Return how many entries each slot has."""
        sizes: Ints = self.heads[slots, COUNT]
        return sizes

    def gather(self, slots: Slots) -> tuple[Ints, Ints]:
        """Return the entries of slots in turn: the position in ``slots`` of each, and its words and id as a row."""
        count = int(self.sizes(slots).sum())
        groups, gathered = np.empty(count, np.int64), np.empty((count, self.entries.shape[1]), np.int64)
        gather_entries(read_only(slots), self.arrays, groups, gathered)
        return groups, gathered

    def write(self, slots: Slots, groups: Ints, written: Ints) -> None:
        """Replace the entries of slots; ``groups``, ascending, holds the position in ``slots`` of each one written.

        A slot of which none is written is as if it were new.
        """
        bounds = read_only(np.searchsorted(groups, np.arange(slots.size + 1)))
        slots, written = read_only(slots), read_only(written)
        self.fill(
            lambda at: write_entries(at, slots, bounds, written, self.limit, self.arrays),
            slots.size,
        )

    def clear_touched(self) -> None:
        """Start a new list of touched slots; whoever calls has taken the flags back."""
        self._touched_count = 0


def _grown(array: Ints, used: int) -> Ints:
    grown: Ints = zeros((_GROWTH * len(array), array.shape[1]), np.int64)
    grown[:used] = array[:used]
    return grown
