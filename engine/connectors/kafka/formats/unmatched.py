"""Notices that a topic's messages have nothing of what a schema declares. Asked by the JSON decoder."""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from penstock.engine.connectors.text.required_fields import FIELDS, listed

FIRST_MESSAGES = 1_000
"""So many messages without a declared field, or all of fewer at a topic's end, give reason to say so."""


class Unmatched:
    """Looks at the first messages, until one has a field that is declared."""

    def __init__(self, declared: Sequence[str]) -> None:
        """Take the names of the fields."""
        self._declared = declared
        self._others: dict[str, None] = {}
        self._count = 0
        self._over = False

    def look(self, rows: pa.RecordBatch, values: Iterable[bytes]) -> None:
        """Look at messages and the rows that were made of them: one with a value settles it without a look."""
        if self._over or self._count >= FIRST_MESSAGES:
            return
        if any(column.null_count < rows.num_rows for column in rows.columns):
            self._over = True
            return
        for value in values:
            try:
                names = FIELDS.decode(value)
            except (ValueError, RecursionError):
                continue
            if any(name in names for name in self._declared):
                self._over = True
                return
            self._others |= dict.fromkeys(names)
            self._count += 1
            if self._count == FIRST_MESSAGES:
                return

    def remark(self, *, last: bool) -> str | None:
        """Return what there is to say, once; ``last``: no message will follow."""
        if self._over or not self._count or not (last or self._count >= FIRST_MESSAGES):
            return None
        self._over = True
        declared, others = list(map(repr, self._declared)), list(map(repr, self._others))
        return (
            f"none of the first {self._count:,} messages has a field {listed(declared, ' or ')}, so the columns are "
            f"null; messages have fields {listed(others, ', ') or 'of no name'}"
        )
