"""Rows that are kept per key, in order: the rows of a key lie next to each other in a log.

`over` keeps the rows that frames will still look back at, `updates` all rows of a changelog.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.operators.ordered_rows import sort_keys, tie_order
from penstock.state.keys.arrays import Ints
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import INTEGER, FixedColumn, Locate, Positions, Slots, StateStore, TableSpec

KEPT_ROWS = "kept_rows"
"""The log of the rows."""

_COLUMNS = {"first": FixedColumn(np.dtype(np.int64), refers=KEPT_ROWS), "count": INTEGER}


class KeptRuns:
    """A run of rows per key. A run is written anew as a whole, so a key needs to know its first row and how many.

    Rows of a run have neighbouring ids, which stay neighbours when a store is loaded: a key's rows go together.
    """

    def __init__(
        self, store: StateStore, fields: pa.Schema, key_types: tuple[pa.DataType, ...], locate: Locate | None = None
    ) -> None:
        """Open the table of keys and the log of rows.

        ``locate`` says where the keys of rows lie; without it `write` is told.
        """
        self._table = store.table(TableSpec("kept", key_types, _COLUMNS))
        self._log = store.log(KEPT_ROWS, fields, locate)

    def slots(self, keys: KeyBatch) -> Slots:
        """Return the slot of each key, which occurs once."""
        return self._table.upsert(keys).slots

    def counts(self, slots: Slots) -> Ints:
        """Return how many rows these keys have."""
        counts: Ints = self._table.array("count")[slots]
        return counts

    def read(self, slots: Slots) -> pa.RecordBatch:
        """Return the rows of these keys, run by run."""
        return self._log.take(self._ids(slots))

    def write(self, slots: Slots, rows: pa.RecordBatch, counts: Ints, positions: Positions | None = None) -> None:
        """Replace the rows of these keys, run by run; keys without rows are forgotten.

        ``positions`` are the keys', unless rows are located otherwise.
        """
        self._log.remove(self._ids(slots))
        ids = self._log.append(rows, None if positions is None else np.repeat(positions, counts))
        if len(ids):
            self._table.array("first")[slots] = ids[0] + np.cumsum(counts) - counts
        self._table.array("count")[slots] = counts
        self._table.remove(slots[counts == 0])

    def _ids(self, slots: Slots) -> Ints:
        counts = self.counts(slots)
        before = np.cumsum(counts) - counts
        ids: Ints = np.arange(counts.sum()) + np.repeat(self._table.array("first")[slots] - before, counts)
        return ids


@dataclass(frozen=True, slots=True)
class Runs:
    """The grouping of rows into runs: ``order`` sorts them so; afterwards ``owners`` are their groups, in order.

    ``places`` says how many rows of its run come before each, ``sizes`` how many rows each group has.
    """

    order: Ints
    owners: Ints
    places: Ints
    sizes: Ints

    @classmethod
    def of(cls, groups: Ints, group_count: int) -> "Runs":
        """Sort by group, rows of one group staying in the order they have."""
        # NumPy sorts short integers by counting.
        short = groups.astype(np.uint16) if group_count <= 1 << 16 else groups
        order = np.argsort(short, kind="stable")
        sizes = np.bincount(groups, minlength=group_count)
        owners = groups[order]
        return cls(order, owners, np.arange(len(groups)) - (np.cumsum(sizes) - sizes)[owners], sizes)


def in_event_time(rows: pa.RecordBatch, times_us: Ints, groups: Ints, group_count: int) -> Ints:
    """Return the permutation that sorts rows by group, event time and their own columns."""
    by_time = np.argsort(times_us, kind="stable")
    ties = tie_order(rows.take(pa.array(by_time)), times_us[by_time], groups[by_time], group_count)
    order = by_time if ties is None else by_time[ties]
    return order[np.argsort(groups[order], kind="stable")]


def in_order(rows: pa.RecordBatch, keys: list[Ints], groups: Ints) -> Ints:
    """Return the permutation that sorts rows by group, ``keys`` (the first one first) and their own columns."""
    ties = [key for column in rows.columns for key in sort_keys(column)]
    return np.lexsort((*reversed([*keys, *ties]), groups))
