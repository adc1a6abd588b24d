"""The last operator of a query: hands rows to the sink's writer in the sink's mode."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.core.contract import Emission, Operator, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.operators.descriptions import Words
from penstock.engine.operators.descriptor import KeyExpressions, OperatorDescriptor
from penstock.engine.operators.sink_columns import SinkColumns
from penstock.engine.operators.sink_errors import SinkErrors
from penstock.engine.operators.sink_loss import SinkLoss
from penstock.model.connectors import Writer
from penstock.model.durations import format_microseconds
from penstock.model.errors import PlanError
from penstock.model.expressions import col
from penstock.model.job_graph import OperatorNode, SinkSpec
from penstock.model.option_literals import WriteMode
from penstock.model.outstanding import Outstanding
from penstock.model.schema import WEIGHT, StreamSchema, check_names
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.tables.grouping import KeyGrouper

_WEIGHT = pa.field("weight", pa.int8(), nullable=False)
_DELETED = pa.field("deleted", pa.bool_(), nullable=False)

LOOK_NS = 5_000_000
"""How long a writer is left alone that was not ready."""


class SinkOperator(Operator):
    """Writes every batch at once. Whatever its writer would have to wait for, the chain waits for in its place.

    Modes: ``append`` as it is; ``changelog`` with the weight as the field ``weight``; ``upsert`` with one row per key
    of the batch and a boolean field ``deleted`` for keys that were retracted and not inserted again.

    At a barrier the writer prepares what it has, and its receipt waits here until the checkpoint takes it. The receipt
    of one that was given up belongs to the next commit: `Sink.commit` takes both.
    """

    def __init__(self, spec: SinkSpec, schema: StreamSchema, name: str) -> None:
        """Take the spec; ``schema`` is the input's."""
        self._spec = spec
        self._columns = _columns(spec, schema)
        self.loss = SinkLoss()
        """The share of its query's input that was dropped by SIC lately."""
        self.errors: SinkErrors | None = None
        """The errors of its rows, where the query wants them to be small."""
        if self._columns is not None and spec.max_error is not None:
            self.errors = SinkErrors(self._columns.intervals, spec.max_error)
        self._schema = schema = schema if self._columns is None else self._columns.schema
        self._codec = KeyCodec([schema.fields.field(key).type for key in spec.key]) if spec.key else None
        self._grouper = KeyGrouper()
        self._writer: Writer | None = None
        self._receipts: dict[int, Any] = {}
        self._look_ns: int | None = None

    @property
    def receipts(self) -> Mapping[int, Any]:
        """The writer's receipts that were not taken yet, by rising epochs."""
        return MappingProxyType(self._receipts)

    def take_receipt(self, epoch: int) -> Any:
        """Return the receipt of a checkpoint and forget it.

        Raises:
            KeyError: its barrier did not come, or the receipt was taken.
        """
        return self._receipts.pop(epoch)

    def open(self, context: OperatorContext) -> None:
        """Open the writer."""
        super().open(context)
        schema = sink_schema(self._spec, self._schema)
        self._writer = self._spec.sink.open(schema, context.instance, context.parallelism)

    def has_room(self) -> bool:
        """Return whether the writer takes more."""
        assert self._writer is not None
        return self._looked(ready=self._writer.has_room())

    def takes_barrier(self) -> bool:
        """Return whether all that was written has arrived, so that nothing waits for it; the end asks that, too."""
        return self._looked(ready=self.outstanding() is None)

    def outstanding(self) -> Outstanding | None:
        """Return what the writer has on its way."""
        return None if self._writer is None else self._writer.outstanding()

    def timer_ns(self) -> int | None:
        """Return when to look at a writer again that was not ready."""
        return self._look_ns

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Write one batch."""
        assert self._writer is not None
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        rows = batch.rows if self._columns is None else self._columns.rows(batch, self._share())
        if self.errors is not None:
            rows = self.errors.rows(rows)
        self._writer.write(self._in_mode(rows))
        counters.passed += batch.rows.num_rows
        return ()

    def _share(self) -> float:
        return self.loss.share(self.context.clock.monotonic_ns()) if self.loss.is_told else 1.0

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Bring what was written since the last barrier to where a crash does not lose it."""
        self.prepare(epoch)
        return ()

    def prepare(self, epoch: int) -> None:
        """Let the writer prepare for a checkpoint: its barrier has come, or the input has ended before."""
        assert self._writer is not None
        self._receipts[epoch] = self._writer.prepare(epoch)

    def on_end(self) -> Iterable[Emission]:
        """Flush."""
        assert self._writer is not None
        self._writer.flush()
        return ()

    def close(self) -> None:
        """Make everything written final."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def abort(self) -> None:
        """Leave nothing half-written."""
        if self._writer is not None:
            self._writer.abort()
            self._writer = None

    def _looked(self, *, ready: bool) -> bool:
        self._look_ns = None if ready else self.context.clock.monotonic_ns() + LOOK_NS
        return ready

    def _in_mode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._spec.mode == "append":
            return rows
        if self._spec.mode == "changelog":
            if self._schema.changelog:
                return rows.rename_columns([*self._schema.fields.names, "weight"])
            return rows.append_column(_WEIGHT, pa.array(np.ones(rows.num_rows, np.int8)))
        return self._upsert(rows)

    def _upsert(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the last row of each key, an insertion before a retraction."""
        assert self._codec is not None
        number = rows.num_rows
        groups, first = self._grouper.group(self._codec.encode([rows.column(key) for key in self._spec.key]))
        inserts = np.ones(number, np.bool_)
        if self._schema.changelog:
            inserts = rows.column(WEIGHT).to_numpy() > 0
        position = np.arange(number) + np.where(inserts, number, 0)
        last = np.full(len(first), -1, np.int64)
        np.maximum.at(last, groups, position)
        chosen = last % number
        kept = rows.take(pa.array(chosen)).select(self._schema.fields.names)
        deleted = pc.invert(pa.array(inserts[chosen]))
        return kept.append_column(_DELETED, deleted)


def sink_schema(spec: SinkSpec, schema: StreamSchema) -> pa.Schema:
    """Return the fields a writer receives in the spec's mode."""
    if spec.mode == "changelog":
        return schema.fields.append(_WEIGHT)
    if spec.mode == "upsert":
        return schema.fields.append(_DELETED)
    return schema.fields


def written_schema(spec: SinkSpec, schema: StreamSchema) -> pa.Schema:
    """Return the fields a writer receives of a plan's rows, which hide how good they are in a query under contract."""
    columns = _columns(spec, schema)
    return sink_schema(spec, schema if columns is None else columns.schema)


def _columns(spec: SinkSpec, schema: StreamSchema) -> SinkColumns | None:
    """Return what shows how good the rows of a query are, None if it does not."""
    return SinkColumns(schema, nullable=spec.leaves_out_wide) if spec.shows_quality else None


class SinkDescriptor(OperatorDescriptor[SinkSpec]):
    """Rows leave; what is kept are receipts. Rows of one key of an upsert leave by one instance."""

    spec = SinkSpec
    verb = "sink"
    operator = SinkOperator
    needs_time = False
    has_dead_letters = False

    def outputs(self, spec: SinkSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return nothing.

        Raises:
            PlanError: there is no such mode, or it does not fit the input.
        """
        schema = inputs[0]
        if spec.mode not in get_args(WriteMode):
            raise PlanError(f"mode of sink {name!r} must be append, changelog or upsert, not {spec.mode!r}")
        if spec.mode == "append" and schema.changelog:
            raise PlanError(
                f"sink {name!r} receives an updating stream: write it with mode='changelog' (each row with a weight of "
                "+1 or -1) or mode='upsert' with key=[...]"
            )
        if spec.mode == "upsert" and not spec.key:
            raise PlanError(f"sink {name!r} has mode='upsert' and needs key=[...] to know which row replaces which")
        check_names(spec.key, schema.fields.names, f"the key of sink {name!r}")
        added = {"changelog": "weight", "upsert": "deleted"}.get(spec.mode)
        if added in schema.fields.names:
            raise PlanError(f"sink {name!r} adds a column {added!r} in mode {spec.mode!r}; rename yours")
        return {}

    def keys(self, spec: SinkSpec, port: int) -> KeyExpressions | None:
        """Return the key of an upsert."""
        return tuple(col(name) for name in spec.key) if spec.mode == "upsert" else None

    def words(self, spec: SinkSpec, node: OperatorNode) -> Words:
        """Say what is written, in which mode, and what may be shed for it."""
        mode = spec.mode if not spec.key else f"{spec.mode} by {', '.join(spec.key)}"
        quality = f"{mode}, min accuracy {spec.min_accuracy:g}, priority {spec.priority}"
        if spec.max_error is not None:
            quality += f", {spec.max_error.text()}"
        if spec.max_lag_us is not None:
            quality += f", max lag {format_microseconds(spec.max_lag_us)}"
        return Words(f"sink: {spec.sink.describe()}", (("mode", quality),))


SINK = SinkDescriptor()
