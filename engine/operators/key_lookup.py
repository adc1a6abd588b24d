"""The slot of every row's key in a table; a key that many rows of a batch share is looked up about once."""

import numpy as np

from penstock.engine.kernels.recent_keys import first_rows
from penstock.state.keys.arrays import NO_INTEGERS, Ints, read_only
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import KeyedTable, SlotLookup

_FEWEST_ROWS = 256
_RECENT_KEYS = 4_096
_WORTH_IT = 0.5
_BATCHES_WITHOUT = 31


class KeyLookup:
    """Looks keys up in one table; tries now and then whether keys repeat enough for it to pay."""

    def __init__(self, table: KeyedTable) -> None:
        """Look up in this table."""
        self._table = table
        self._recent = np.empty(_RECENT_KEYS, np.int32)
        # Kept, because fresh memory costs more than what is written to it.
        self._entry_of_row = np.empty(0, np.int64)
        self._rows = np.empty(0, np.int64)
        self._pause = 0
        self._failures = 0

    def upsert(self, keys: KeyBatch, prefix: Ints | None = None) -> SlotLookup:
        """Find the slot of every row's key, creating the absent ones; see `KeyedTable.upsert`.

        Raises:
            StateBudgetError: the table would exceed the budget.
        """
        count = len(keys)
        if count < _FEWEST_ROWS:
            return self._table.upsert(keys, prefix)
        if self._pause:
            self._pause -= 1
            return self._table.upsert(keys, prefix)
        if len(self._rows) < count:
            self._entry_of_row, self._rows = np.empty(count, np.int64), np.empty(count, np.int64)
        entry_of_row, rows = self._entry_of_row[:count], self._rows
        prefixes = NO_INTEGERS if prefix is None else read_only(prefix)
        listed = first_rows(keys.arrays(), prefixes, self._recent, entry_of_row, rows)
        if listed > _WORTH_IT * count:
            # One instance of several may have few repeats for a moment only.
            self._pause = min(_BATCHES_WITHOUT, (1 << self._failures) - 1)
            self._failures = min(self._failures + 1, 5)
            return self._table.upsert(keys, prefix)
        self._failures = 0
        rows = rows[:listed]
        located = self._table.upsert(keys.take(rows), None if prefix is None else prefix[rows])
        return SlotLookup(located.slots.take(entry_of_row), located.fresh)
