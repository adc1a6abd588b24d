"""From what changed on one side of an incremental join to the rows of its changelog, a bounded batch at a time.

Every output row is a changed row with a partner, one without, or a row of the other side that lost its null partner or
got it back: a retraction or an insertion. They come in these six *runs*, retractions first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.kernels.incremental_join import CopyPosition, NodeChains, expand_copies
from penstock.engine.operators.changelog import consolidate, with_weights
from penstock.engine.operators.joins.incremental_join_rows import JoinedRows, SideChange
from penstock.engine.operators.joins.join_side import taken
from penstock.state.keys.arrays import Ints, read_only

_PAIRED, _ALONE, _OTHER_ALONE = range(3)
"""The kinds of runs: one and the other of each sign."""


@dataclass(frozen=True, slots=True)
class Items:
    """The pairs to put out: a chain of the other side for each item, and the changed row it is joined with.

    ``bounds`` are the ends of the six runs. An item's chain begins at ``heads`` (-1: it has no partner) and comes
    ``copies`` times; its changed row is ``rows``, which says nothing where the other side is alone.
    """

    rows: Ints
    heads: Ints
    copies: Ints
    bounds: Ints

    @staticmethod
    def of(change: SideChange, heads: Ints, keeps: bool, other_keeps: bool) -> "Items":
        """Compare a change with the other side's chains; ``keeps`` says whether rows without a partner are put out."""
        rows: list[Ints] = []
        for changed, turned in ((change.gained < 0, change.appeared), (change.gained > 0, change.vanished)):
            positions = np.flatnonzero(changed)
            matched = heads[positions] >= 0
            rows.append(positions[matched])
            rows.append(positions[~matched] if keeps else positions[:0])
            rows.append(turned[heads[turned] >= 0] if other_keeps else turned[:0])
        bounds = np.cumsum([run.size for run in rows])
        whole = np.concatenate(rows)
        copies = np.abs(change.gained[whole])
        for run in (_OTHER_ALONE, 3 + _OTHER_ALONE):
            copies[bounds[run - 1] : bounds[run]] = 1
        return Items(whole, heads[whole], copies, bounds)


class PairBuilder:
    """Builds the changelog of one join operator.

    ``sources`` are the side and the column of each field of the output. ``exact`` says that two output rows are equal
    only if they are made of equal rows, or of a null partner and a partner that is null in every column.
    """

    def __init__(self, fields: pa.Schema, sources: Sequence[tuple[int, str]], exact: bool, batch_rows: int) -> None:
        """Reserve room for a batch of pairs."""
        self._fields = fields
        self._sources = sources
        self._exact = exact
        self._item_out = np.empty(batch_rows, np.int64)
        self._node_out = np.empty(batch_rows, np.int64)

    def build(self, port: int, changed: pa.RecordBatch, items: Items, other: JoinedRows) -> Iterator[pa.RecordBatch]:
        """Yield the changelog of items; ``changed`` has the output's columns of the rows of side ``port``.

        Nothing may change on the other side meanwhile.
        """
        chains = NodeChains(read_only(other.older), read_only(other.counts))
        heads, copies = read_only(items.heads), read_only(items.copies)
        position = CopyPosition()
        filled = self._item_out.size
        while filled == self._item_out.size:
            filled, position = expand_copies(heads, copies, chains, position, self._item_out, self._node_out)
            if filled:
                rows = self._rows(port, changed, items, other, filled)
                if rows.num_rows:
                    yield rows

    def _rows(self, port: int, changed: pa.RecordBatch, items: Items, other: JoinedRows, filled: int) -> pa.RecordBatch:
        places, nodes = self._item_out[:filled], self._node_out[:filled]
        ends = np.searchsorted(places, items.bounds)
        parts: list[tuple[pa.RecordBatch | None, ...]] = []
        sizes: list[int] = []
        for run, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if start == end:
                continue
            kind = run % 3
            ours = None if kind == _OTHER_ALONE else taken(changed, items.rows[places[start:end]])
            theirs = None if kind == _ALONE else other.take(nodes[start:end])
            parts.append((theirs, ours) if port else (ours, theirs))
            sizes.append(int(end - start))
        columns = [
            [_column(part[side], name, kind.type, size) for part, size in zip(parts, sizes, strict=True)]
            for kind, (side, name) in zip(self._fields, self._sources, strict=True)
        ]
        whole = [runs[0] if len(runs) == 1 else pa.concat_arrays(runs) for runs in columns]
        retracted = int(ends[2])
        weights = np.ones(filled, np.int8)
        weights[:retracted] = -1
        rows = with_weights(pa.RecordBatch.from_arrays(whole, schema=self._fields), weights)
        if 0 < retracted < filled and self._may_cancel(parts):
            return consolidate(rows)
        return rows

    def _may_cancel(self, parts: Sequence[tuple[pa.RecordBatch | None, ...]]) -> bool:
        """Return whether two rows of opposite weight may be equal.

        A null partner is told from every other one by a column that has no nulls of its own.
        """
        if not self._exact:
            return True
        for side in (0, 1):
            present = [rows for part in parts if (rows := part[side]) is not None]
            names = [name for of, name in self._sources if of == side]
            telling = any(all(not rows.column(name).null_count for rows in present) for name in names)
            if len(present) < len(parts) and not telling:
                return True
        return False


def _column(rows: pa.RecordBatch | None, name: str, kind: pa.DataType, size: int) -> pa.Array:
    return pa.nulls(size, kind) if rows is None else rows.column(name)
