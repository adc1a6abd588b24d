"""The unbounded inner join in which one side has each key once: its row is kept, the other's only until they meet.

The two streams are append-only. Of the two sides here, *one* is the one whose keys come once, *many* the other.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.expressions.compiler import compile_predicate
from penstock.engine.kernels.join import settle_keys, take_first
from penstock.engine.operators.isolate import evaluate
from penstock.engine.operators.joins.join_side import PairColumns, taken
from penstock.engine.operators.joins.unbounded_join import UnboundedJoin
from penstock.engine.operators.joins.waiting_rows import WaitingRows
from penstock.model.errors import BugError
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema
from penstock.state.keys.arrays import Mask, read_only
from penstock.state.keys.batch_keys import KeyBatch
from penstock.state.store import FixedColumn, Slots, TableSpec
from penstock.state.tables.image import positions_of

_WANTED = "$wanted"
_UNSEEN, _UNWANTED, _ROW = 0, 1, 2
"""What ``partner`` says of a key: its row has not come, or came and has no partners; from 2 on it is the row's id."""


class OneJoin(UnboundedJoin):
    """Joins rows with equal keys, for ever, where a key comes once on one side, or (``1:1``) on both.

    Rows are counted as folded, those with a null key as filtered: null equals nothing. A row whose key has come before
    on a side where it comes once is a dead letter. Rows that do not fulfil ``where`` have no partners.
    """

    def __init__(self, spec: JoinSpec, left: StreamSchema, right: StreamSchema, name: str) -> None:
        """Check the spec against both inputs, compile keys and condition.

        Raises:
            PlanError: see `join_output`.
        """
        super().__init__(spec, left, right, name)
        if self._output.changelog or spec.one_side is None:
            raise BugError(f"join {name!r} has a changelog as result or keys that repeat, which other joins keep")
        self._one = spec.one_side
        self._both = spec.validate == "1:1"
        self._columns = PairColumns(spec.output, self._output.fields)
        fields = self._sides[self._one].schema.fields
        self._where = None if spec.where is None else compile_predicate(spec.where, fields, name)
        self._repeated = f"its key has come before on this side, where validate={spec.validate!r} has it come once"

    def open(self, context: OperatorContext) -> None:
        """Open the table of keys and both sides' rows."""
        super().open(context)
        columns = {
            "partner": FixedColumn(np.dtype(np.int64), refers="partners", base=_ROW),
            "newest": FixedColumn(np.dtype(np.int64), refers="waiting", base=1),
        }
        if self._both:
            columns["taken"] = FixedColumn(np.dtype(np.int8))
        one, many = self._sides[self._one], self._sides[1 - self._one]
        self._table = context.state.table(TableSpec("keys", one.codec.types, columns))
        self._fields = pa.schema([one.fields.field(column) for column in one.needed])
        self._partners = context.state.log("partners", self._fields)
        self._waiting = WaitingRows(context.state, "waiting", many, self._table)
        ids = self._partners.live()
        self._next = int(ids[-1]) + 1 if ids.size else 0

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Emit the pairs of the batch's rows; keep those that may have more, or wait for theirs."""
        self.context.counters.rows_in += batch.rows.num_rows
        return self._process_one(batch) if port == self._one else self._process_many(batch)

    def _process_one(self, batch: Batch) -> Iterator[Emission]:
        side, given = self._sides[self._one], batch.rows
        if self._where is not None:
            given, mask = evaluate(self.context, self._where, given)
            if mask is None:
                return
            given = given.append_column(pa.field(_WANTED, pa.bool_()), mask)
        rows, beside = side.read(self.context, given, given.schema.names)
        if not rows.num_rows:
            return
        keys = side.encode(rows)
        slots = self._table.upsert(keys).slots
        kinds = np.empty(len(keys), np.int64)
        wanted = np.ones(len(keys), np.bool_)
        if self._where is not None:
            wanted = np.asarray(beside.column(_WANTED).fill_null(False))
            beside = beside.drop_columns([_WANTED])
        settle_keys(read_only(slots), wanted, self._next, self._table.array("partner"), kinds)
        self._reject(beside, kinds == 0)
        self._keep(rows, keys, np.flatnonzero(kinds == _ROW))
        settled = np.flatnonzero(kinds)
        heads = self._waiting.newest(slots[settled])
        if (heads < 0).all():
            return
        needed = self._sides[1 - self._one].needed
        for places, ids in self._waiting.chains(heads, self.context.batch_rows):
            positions = settled[places]
            pairs = kinds[positions] == _ROW
            if pairs.any():
                ours = rows.take(pa.array(positions[pairs]))
                yield self._pairs(batch, ours, self._waiting.take(ids[pairs], needed))
        self._waiting.let_go(slots[settled], heads)

    def _process_many(self, batch: Batch) -> Iterator[Emission]:
        side = self._sides[1 - self._one]
        rows, beside = side.read(self.context, batch.rows, batch.rows.schema.names if self._both else ())
        if not rows.num_rows:
            return
        slots = self._table.upsert(side.encode(rows)).slots
        if self._both:
            first = np.empty(slots.size, np.bool_)
            take_first(read_only(slots), self._table.array("taken"), first)
            self._reject(beside, ~first)
            rows, slots = rows.filter(pa.array(first)), slots[first]
        else:
            self.context.counters.folded += slots.size
        partner = self._table.array("partner")[slots]
        matched = np.flatnonzero(partner >= _ROW)
        for begin in range(0, matched.size, self.context.batch_rows):
            part = matched[begin : begin + self.context.batch_rows]
            yield self._pairs(batch, self._partners.take(partner[part] - _ROW), taken(rows, part))
        unseen = np.flatnonzero(partner == _UNSEEN)
        if unseen.size:
            self._waiting.insert(taken(rows, unseen), slots[unseen])

    def _reject(self, rows: pa.RecordBatch, repeated: Mask) -> None:
        """Count all rows, those that repeat a key as dead letters."""
        count = int(np.count_nonzero(repeated))
        self.context.counters.folded += rows.num_rows - count
        if count:
            self.context.counters.dead_lettered += count
            self.context.dead_letters.reject(
                self.context.name, rows.filter(pa.array(repeated)), [self._repeated] * count
            )

    def _keep(self, rows: pa.RecordBatch, keys: KeyBatch, wanted: Slots) -> None:
        if not wanted.size:
            return
        kept = taken(rows.select(self._fields.names), wanted)
        kept = pa.RecordBatch.from_arrays(kept.columns, schema=self._fields)
        ids = self._partners.append(kept, positions_of(keys.hashes[wanted]))
        if ids[0] != self._next:
            raise BugError(f"the ids of a join's rows go on at {ids[0]} where {self._next} was expected")
        self._next += wanted.size

    def _pairs(self, batch: Batch, one: pa.RecordBatch, many: pa.RecordBatch) -> Emission:
        left, right = (many, one) if self._one else (one, many)
        return MAIN, batch.with_rows(self._columns.build(left, right, one.num_rows))
