"""The order of a top-n: as int64 words that decide almost every comparison, and exactly.

Rows are ordered by expressions, then by their own columns (docs/design/data-path.md 3). Called by ``top_ranks`` and
``top_counts``.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from penstock.engine.accumulators.ordering import SortColumn, is_ordered, is_text
from penstock.engine.kernels.ranking import text_words
from penstock.engine.operators.ordered_rows import sort_keys
from penstock.state.keys.arrays import Ints, read_only

_MOST_TIE_WORDS = 6


@dataclass(slots=True)
class _Part:
    """A column whose words are compared: a row's own, or (``computed``) one of the order's expressions.

    ``null`` is the word put before the others where the value is null, 0 elsewhere; there is none until a null comes.
    """

    column: int
    computed: bool
    sort: SortColumn
    null: int
    nullable: bool = False

    @property
    def width(self) -> int:
        return self.nullable + self.sort.width


class RowOrder:
    """A total order of rows.

    ``words`` are as many as the columns up to the first text or nested one need; ``complete`` says that no column was
    left out. Columns ``fixed`` are equal in all rows that are ever compared.
    """

    complete: bool

    def __init__(
        self,
        fields: pa.Schema,
        order: Sequence[tuple[pa.DataType, bool]],
        fixed: Collection[str],
        tie_descending: bool,
    ) -> None:
        """Take the types and directions of the order's expressions; then come the fields, ascending or descending."""
        self._directions = [descending for _, descending in order]
        self._tie_descending = tie_descending
        self._parts: list[_Part] = []
        self.complete = False
        for column, (kind, descending) in enumerate(order):
            self._parts.append(_Part(column, True, SortColumn(kind, descending), 1))
            if is_text(kind):
                return
        ties = 0
        for column, field in enumerate(fields):
            if field.name in fixed:
                continue
            if pt.is_null(field.type):
                continue
            if not is_ordered(field.type) or ties >= _MOST_TIE_WORDS:
                return
            sort = SortColumn(field.type, tie_descending)
            self._parts.append(_Part(column, False, sort, 1 if tie_descending else -1))
            ties += sort.width
            if sort.text:
                return
        self.complete = True

    @property
    def width(self) -> int:
        """The number of words of a row now."""
        return sum(part.width for part in self._parts)

    def widen(self, computed: Sequence[pa.Array], rows: pa.RecordBatch) -> list[int]:
        """Make room for nulls where the first ones come.

        Returns:
            Where words so far get a further one, 0, in turn.
        """
        places = []
        at = 0
        for part in self._parts:
            if not part.nullable and self._column(part, computed, rows).null_count:
                part.nullable = True
                places.append(at)
            at += part.width
        return places

    def words(self, computed: Sequence[pa.Array], rows: pa.RecordBatch) -> Ints:
        """Return the rows' words, int64[width, n]; `widen` has seen the rows. ``computed`` are the expressions."""
        words = np.empty((self.width, rows.num_rows), np.int64)
        at = 0
        for part in self._parts:
            column = self._column(part, computed, rows)
            keys = [_text_words(column, part.sort.descending)] if part.sort.text else part.sort.keys(column)
            nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
            if part.nullable:
                words[at] = 0 if nulls is None else np.where(nulls, part.null, 0)
                at += 1
            for key in keys:
                words[at] = key
                if nulls is not None:
                    words[at][nulls] = 0
                at += 1
        return words

    def exact(self, computed: Sequence[pa.Array], rows: pa.RecordBatch) -> list[Ints]:
        """Return arrays whose lexicographic order, first array first, is the rows' order; equal rows have equal ones.

        The arrays of other rows are not comparable with them.
        """
        keys: list[Ints] = []
        for column, descending in zip(computed, self._directions, strict=True):
            words = sort_keys(column)
            if column.null_count:
                keys.append(1 - words.pop(0))
            keys += [~word for word in words] if descending else words
        ties = [word for column in rows.columns for word in sort_keys(column)]
        return keys + ([~word for word in ties] if self._tie_descending else ties)

    def _column(self, part: _Part, computed: Sequence[pa.Array], rows: pa.RecordBatch) -> pa.Array:
        return computed[part.column] if part.computed else rows.column(part.column)


def sorted_within(groups: Ints, keys: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Sort rows by group and keys, equal ones in the order they came.

    Returns:
        The permutation, and per sorted row the number of its value: 0 at first, one more wherever the group or a key
        changes.
    """
    order = np.lexsort((*reversed(keys), groups))
    differs = np.zeros(order.size, np.bool_)
    for key in (groups, *keys):
        ordered = key[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    return order, np.cumsum(differs)


def _text_words(column: pa.Array, descending: bool) -> Ints:
    words = np.zeros(len(column), np.int64)
    if pt.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    _, bounds, data = column.buffers()
    if len(column) and data is not None:
        offsets = np.frombuffer(bounds, np.int32, len(column) + 1, 4 * column.offset)
        text_words(read_only(offsets), read_only(np.frombuffer(data, np.uint8)), words)
    else:
        words[:] = np.int64(-(2**63))
    return ~words if descending else words
