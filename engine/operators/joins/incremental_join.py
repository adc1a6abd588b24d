"""The unbounded join of streams that may be changelogs, with or without rows that have no partner.

A batch changes its own side, then meets the other one as it is: what comes out is the change of the join of all rows
present, for any order of the inputs.
"""

from collections.abc import Iterable

import numpy as np

from penstock.engine.core.contract import MAIN, Emission, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.operators.changelog import weights_of
from penstock.engine.operators.joins.incremental_join_pairs import Items, PairBuilder
from penstock.engine.operators.joins.incremental_join_rows import AppendedRows, CountedSideRows, JoinedRows
from penstock.engine.operators.joins.join_schema import keeps_unmatched
from penstock.engine.operators.joins.unbounded_join import UnboundedJoin
from penstock.engine.operators.row_identity import RowCodec
from penstock.model.errors import BugError
from penstock.model.expressions import column_name
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import WEIGHT, StreamSchema


class IncrementalJoin(UnboundedJoin):
    """Joins rows with equal keys, for ever, and takes back what is no longer so; the result is a changelog.

    Rows of a changelog are equal if the columns in use are. A row whose retraction came first is not there until it
    has been inserted once more than retracted.

    Rows are counted as folded. Those with a null key equal nothing: they are filtered, or come out without a partner
    if their side keeps such rows, counted as passed if nothing can retract them.
    """

    def __init__(self, spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs and compile the keys.

        Raises:
            PlanError: see `join_output` and `RowCodec`.
        """
        super().__init__(spec, left, right, name)
        if not self._output.changelog:
            raise BugError(f"join {name!r} is an inner join of append-only streams, which needs no changelog")
        self._identities = [RowCodec(side.fields) if side.schema.changelog else None for side in self._sides]
        self._keeps = (keeps_unmatched(spec.how, 0), keeps_unmatched(spec.how, 1))
        self._sources = [(side, column) for _, side, column in spec.output]
        # A pair shows both its rows as soon as it shows one's keys, for the other's are equal.
        keys = (spec.left_keys, spec.right_keys)
        shown = [all(column_name(key) in self._sides[side].needed for key in keys[side]) for side in (0, 1)]
        self._exact = any(shown) and all(shown[side] or not self._keeps[side] for side in (0, 1))

    def open(self, context: OperatorContext) -> None:
        """Open both sides' tables and logs."""
        super().open(context)
        self._rows = (self._open_side(0, "left"), self._open_side(1, "right"))
        self._pairs = PairBuilder(self._output.fields, self._sources, self._exact, context.batch_rows)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Change the batch's side and emit what that changes in the join."""
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        side, other = self._sides[port], self._rows[1 - port]
        updating, keeps = side.schema.changelog, self._keeps[port]
        rows, beside = side.read(self.context, batch.rows, [WEIGHT] if updating else [], null_keys=keeps)
        if not rows.num_rows:
            return
        unkept = 0
        if keeps and not updating and (with_key := side.with_key(rows)) is not None:
            unkept = int(np.count_nonzero(~with_key))
        counters.folded += rows.num_rows - unkept
        counters.passed += unkept
        change = self._rows[port].change(rows, weights_of(beside) if updating else None)
        items = Items.of(change, other.newest(change.keys), keeps, self._keeps[1 - port])
        if not items.rows.size:
            return
        changed = change.rows.select(side.needed or change.rows.schema.names)
        for emitted in self._pairs.build(port, changed, items, other):
            yield MAIN, batch.with_rows(emitted)

    def _open_side(self, side: int, name: str) -> JoinedRows:
        state, identity = self.context.state, self._identities[side]
        if identity is None:
            return AppendedRows(state, name, self._sides[side])
        return CountedSideRows(state, name, self._sides[side], identity)
