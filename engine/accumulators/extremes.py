"""The row of each group that comes first by some keys: min, max, first, last, arg_min, arg_max.

min orders by its value, first by (time, value), arg_min(value, by) by (by, value), and so on with
the direction turned; ties are thereby decided by the row's own columns. Append-only:
``extremes_updating.py`` can retract.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import (
    NO_SIGNS,
    Rows,
    Signs,
    Words,
    kept_rows,
    numbered,
    signs_of,
    taken,
)
from penstock.engine.accumulators.cells import FLAG, Accumulator, Cells
from penstock.engine.accumulators.ordering import Keys, SortColumn
from penstock.engine.kernels.accumulate_best import least_pair, least_text, least_word
from penstock.engine.kernels.running_totals import scan_least
from penstock.model.errors import BugError
from penstock.state.keys.arrays import NO_BYTES, Bytes, Ints, Mask, read_only
from penstock.state.store import INTEGER, ColumnSpec, KeyedTable, Slots, TextColumn

_GREATEST = np.iinfo(np.int64).max


def best(order: "BestOrder") -> Accumulator:
    """Keep the best row of an append-only input."""
    return Accumulator(
        order.columns(),
        order.answer_part.type,
        lambda table, prefix: BestCells(table, prefix, order),
        retractable=False,
    )


class BestOrder:
    """Columns to compare, with directions; the last of them is the answer, which the aggregate returns.

    ``sources`` says for each column which input of the aggregate it is (None: the event time).
    """

    def __init__(self, columns: Sequence[SortColumn], sources: Sequence[int | None]) -> None:
        self.parts = tuple(columns)
        self.sources = tuple(sources)
        self.levels = tuple(part for part in self.parts for _ in range(part.width))
        self.texts = any(part.text for part in self.parts)
        self.answer_part = self.parts[-1]
        self.answer_levels = range(len(self.levels) - self.answer_part.width, len(self.levels))

    def columns(self) -> dict[str, ColumnSpec]:
        """Return the state columns: a word or a text for each level, and whether the group has a
        row.
        """
        names: dict[str, ColumnSpec] = {"has": FLAG}
        for level, part in enumerate(self.levels):
            names[f"key{level}"] = TextColumn(text_type(part)) if part.text else INTEGER
        return names

    def keys(self, rows: Rows, values: Sequence[pa.Array]) -> Keys:
        """Return one key a level of every row.

        Raises:
            BugError: event times are needed and were not given.
        """
        keys: Keys = []
        for part, source in zip(self.parts, self.sources, strict=True):
            if source is not None:
                keys += part.keys(values[source])
            elif rows.times_us is None:
                raise BugError("first and last were given rows without event times; please report it")
            else:
                keys.append(read_only(~rows.times_us if part.descending else rows.times_us))
        return keys


class BestCells(Cells):
    """The keys of each group's best row."""

    def __init__(self, table: KeyedTable, prefix: str, order: BestOrder) -> None:
        super().__init__(table, prefix)
        self.order = order

    def reset(self, slots: Slots) -> None:
        """Make every row better than an empty group."""
        for level, part in enumerate(self.order.levels):
            if not part.text:
                self.array(f"key{level}")[slots] = _GREATEST

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Keep the better of each row and its group."""
        if rows.weights is not None and np.any(rows.weights < 0):
            raise BugError("an append-only aggregate was given a retraction; please report it")
        self.fold(rows.slots, signs_of(rows, where, values), self.order.keys(rows, values))

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Keep the better of both groups."""
        theirs = self.peer(other)
        self.fold(into, theirs.has(slots).view(np.int8), theirs.keys(slots))

    def scan(self, slots: Slots, places: Ints) -> None:
        """Keep the better in one pass, if one or two words decide."""
        levels = len(self.order.levels)
        if self.order.texts or levels > 2:
            super().scan(slots, places)
            return
        seconds = self.array("key1") if levels == 2 else np.zeros(0, np.int64)
        scan_least(read_only(slots), read_only(places), self.array("key0"), seconds, self.array("has"))

    def result(self, slots: Slots) -> pa.Array:
        """Return the answer's column of the best rows."""
        keys = [self._key(level, slots) for level in self.order.answer_levels]
        return self.order.answer_part.values(keys, self.has(slots).view(np.bool_))

    def has(self, slots: Slots) -> Bytes:
        """Return 1 where the group has a row."""
        flags: Bytes = self.array("has")[slots]
        return flags

    def keys(self, slots: Slots) -> Keys:
        """Return the keys of the best rows, level by level."""
        return [self._key(level, slots) for level in range(len(self.order.levels))]

    def forget(self, slots: Slots) -> None:
        """Make groups empty again."""
        self.array("has")[slots] = 0
        self.reset(slots)

    def fold(self, slots: Slots, signs: Signs, keys: Keys) -> None:
        """Keep the better of each group and of the rows that count; no sign is below zero."""
        slots, signs, has = read_only(slots), read_only(signs), self.array("has")
        if self.order.texts or len(keys) > 2:
            self._fold_any(slots, signs, keys)
        elif len(keys) == 1:
            least_word(slots, signs, read_only(keys[0]), self.array("key0"), has)
        else:
            first, second = read_only(keys[0]), read_only(keys[1])
            least_pair(slots, signs, first, second, self.array("key0"), self.array("key1"), has)

    def _fold_any(self, slots: Slots, signs: Signs, keys: Keys) -> None:
        """Let the groups' own rows compete with the new ones; write down the new winners."""
        kept = kept_rows(slots, signs)
        mine = taken(slots, kept)
        if len(mine) == 0:
            return
        groups, touched = numbered(mine)
        old = np.flatnonzero(self.has(touched))
        ours = self.keys(touched[old])
        rows = [_joined(ours[level], taken(key, kept)) for level, key in enumerate(keys)]
        winners = _winners(np.concatenate([old, groups]), len(touched), rows, self.order.levels)
        new = np.flatnonzero(winners >= old.size)
        targets, sources = touched[new], winners[new]
        self.array("has")[targets] = 1
        for level, (part, key) in enumerate(zip(self.order.levels, rows, strict=True)):
            if part.text:
                self.table.text(f"{self.prefix}key{level}").set(targets, taken(key, sources))
            else:
                self.array(f"key{level}")[targets] = key[sources]

    def _key(self, level: int, slots: Slots) -> Words | pa.Array:
        if self.order.levels[level].text:
            return self.table.text(f"{self.prefix}key{level}").get(slots)
        words: Words = self.array(f"key{level}")[slots]
        return words


def text_type(part: SortColumn) -> pa.DataType:
    """Return the type in which a text column is kept."""
    return pa.string() if pa.types.is_string(part.type) else pa.binary()


def _joined(ours: Words | pa.Array, theirs: Words | pa.Array) -> Words | pa.Array:
    if isinstance(ours, np.ndarray):
        return np.concatenate([ours, theirs])
    return pa.concat_arrays([ours, theirs])


def _winners(groups: Words, count: int, keys: Keys, levels: Sequence[SortColumn]) -> Words:
    """Return the position of each group's first row by the keys; every group has a row."""
    rows = np.arange(len(groups))
    for level, (key, part) in enumerate(zip(keys, levels, strict=True)):
        here, mine = taken(key, rows if level else None), read_only(groups[rows])
        if part.text:
            best_rows = np.full(count, -1, np.int64)
            offsets, data = _text_buffers(here)
            least_text(mine, offsets, data, part.descending, best_rows)
            if level == len(levels) - 1:
                return rows[best_rows]
            tied = here.take(pa.array(best_rows[mine]))
            equal = pc.equal(here, tied).to_numpy(zero_copy_only=False)
        else:
            least = np.full(count, _GREATEST)
            least_word(mine, NO_SIGNS, read_only(here), least, np.zeros(count, np.uint8))
            equal = here == least[mine]
        rows = rows[equal]
    winners = np.empty(count, np.int64)
    winners[groups[rows]] = rows
    return winners


def _text_buffers(array: pa.Array) -> tuple[NDArray[np.int32], Bytes]:
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=4 * array.offset)
    starts = starts if starts.flags.aligned else read_only(starts.copy())
    return starts, NO_BYTES if data is None else np.frombuffer(data, np.uint8)
