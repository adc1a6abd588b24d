"""The join of a stream with a side table that is read as a whole, and read again now and then."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission, Operator, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.operators.descriptions import Words
from penstock.engine.operators.descriptor import Columns, OperatorDescriptor, Sampling, Wanted, columns_used
from penstock.engine.operators.joins.join_schema import side_columns
from penstock.engine.operators.joins.join_side import JoinSide, PairColumns, taken
from penstock.engine.operators.joins.lookup_index import LookupIndex
from penstock.engine.operators.joins.lookup_schema import lookup_key_types, lookup_output
from penstock.engine.operators.joins.two_sided import columns_of_side, join_headline, narrowed_output, output_detail
from penstock.model.expressions import col
from penstock.model.job_graph import OperatorNode
from penstock.model.join_specs import LookupSpec
from penstock.model.result_columns import hidden_of
from penstock.model.schema import StreamSchema

_POLL_NS = 20_000_000
"""How often the loop looks whether a table that is being read is there."""

_log = logging.getLogger("penstock.lookup")


class Lookup(Operator):
    """Joins each row with the table as it is when the row comes.

    The table is read when the operator opens, and from then on by a thread: rows go on finding the old table until
    the new one is whole. A table that cannot be read again is logged and counted in ``failed_refreshes``.
    """

    def __init__(self, spec: LookupSpec, schema: StreamSchema, name: str) -> None:
        """Compile the keys.

        Raises:
            PlanError: see `lookup_output`.
        """
        self._spec = spec
        self._output = lookup_output(spec, schema, name)
        types = lookup_key_types(spec, schema, name)
        self._side = JoinSide(schema, side_columns(spec, 0), spec.left_keys, types, name)
        self._columns = PairColumns(spec.output, self._output.fields)
        self.failed_refreshes = 0

    def open(self, context: OperatorContext) -> None:
        """Read the table.

        Raises:
            PenstockError: it cannot be read.
        """
        super().open(context)
        self._index = self._load()
        self._loading: _Loading | None = None
        self._due_ns = self._next_ns()

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Emit the rows with what the table holds for them."""
        self._take_over()
        counters = self.context.counters
        counters.rows_in += batch.rows.num_rows
        left, _ = self._side.read(self.context, batch.rows, null_keys=True)
        passed = 0
        last = -1
        for positions, partners in self._pairs(left):
            joined = self._columns.build(taken(left, positions), self._index.take(partners), len(positions))
            # A row's pairs may go on in the next batch; it is counted with the first.
            distinct = int(np.count_nonzero(np.diff(positions)) + (len(positions) > 0 and positions[0] != last))
            passed += distinct
            last = int(positions[-1])
            counters.passed += distinct
            yield MAIN, batch.with_rows(joined)
        counters.filtered += left.num_rows - passed

    def due_us(self) -> int | None:
        """Return None: rows wait for no watermark."""
        return None

    def timer_ns(self) -> int | None:
        """Return when the table is read again, or looked after while it is being read."""
        return self._due_ns

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Begin to read the table again, or take it over."""
        self._due_ns = now_ns + _POLL_NS
        if self._loading is None:
            self._loading = _Loading(self._load)
        else:
            self._take_over()
        return ()

    def _pairs(self, left: pa.RecordBatch) -> Iterator[tuple[np.ndarray, pa.Array]]:
        """Yield positions and rows of the table (null: none) for the output, ``batch_rows`` at most at a time."""
        with_key = self._side.with_key(left)
        with_key_rows = np.arange(left.num_rows) if with_key is None else np.flatnonzero(with_key)
        encoded = self._side.encode(left if with_key is None else left.filter(pa.array(with_key)))
        limit = self.context.batch_rows
        if self._spec.how == "inner":
            for positions, rows in self._index.pairs(encoded, limit):
                yield with_key_rows[positions], pa.array(rows)
            return
        upto = 0
        for positions, rows in self._index.pairs(encoded, limit):
            last = int(with_key_rows[positions[-1]])
            yield from self._with_lonely(with_key_rows[positions], rows, upto, last)
            upto = last + 1
        yield from self._with_lonely(with_key_rows[:0], with_key_rows[:0], upto, left.num_rows - 1)

    def _with_lonely(
        self, positions: np.ndarray, rows: np.ndarray, first: int, last: int
    ) -> Iterator[tuple[np.ndarray, pa.Array]]:
        """Add the positions from ``first`` to ``last`` that have no pair, in their places."""
        lonely = np.setdiff1d(np.arange(first, last + 1), positions, assume_unique=False)
        everyone = np.concatenate([positions, lonely])
        order = np.argsort(everyone, kind="stable")
        matches = np.concatenate([rows, np.full(lonely.size, -1)])[order]
        step = self.context.batch_rows
        for start in range(0, order.size, step):
            part = matches[start : start + step]
            yield everyone[order[start : start + step]], pa.array(part, mask=part < 0)

    def _load(self) -> LookupIndex:
        columns = side_columns(self._spec, 1)
        return LookupIndex(self._spec.table.load(), self._spec.right_keys, self._side.codec, columns)

    def _next_ns(self) -> int | None:
        refresh_us = self._spec.table.refresh_us
        return None if refresh_us is None else self.context.clock.monotonic_ns() + refresh_us * 1_000

    def _take_over(self) -> None:
        """Use the table that was being read, if it is there."""
        loading = self._loading
        if loading is None or not loading.done:
            return
        self._loading = None
        self._due_ns = self._next_ns()
        if loading.index is not None:
            self._index = loading.index
            return
        self.failed_refreshes += 1
        _log.warning(
            "%s goes on with the table it has: %s could not be read again: %s",
            self.context.name,
            self._spec.table.describe(),
            loading.error,
        )


class _Loading:
    """Reads the table on a thread of its own; ``done`` is set last."""

    def __init__(self, load: Callable[[], LookupIndex]) -> None:
        self.index: LookupIndex | None = None
        self.error: Exception | None = None
        self.done = False
        self._load = load
        threading.Thread(target=self._run, name="penstock-lookup", daemon=True).start()

    def _run(self) -> None:
        try:
            self.index = self._load()
        except Exception as error:
            self.error = error
        self.done = True


class LookupDescriptor(OperatorDescriptor[LookupSpec]):
    """Each row meets rows of a table that every instance has; the table is read again after a restart."""

    spec = LookupSpec
    verb = "lookup"
    operator = Lookup
    stateful = False

    def outputs(self, spec: LookupSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the schema of joined rows; see `lookup_output`."""
        return {MAIN: lookup_output(spec, inputs[0], name)}

    def needed(self, spec: LookupSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return the keys and what is put out of the stream."""
        return [columns_used(spec.left_keys) | columns_of_side(spec.output, 0, wanted)]

    def narrowed(self, spec: LookupSpec, columns: Set[str]) -> LookupSpec:
        """Put out these columns, or one if only the number of rows matters."""
        return replace(spec, output=narrowed_output(spec.output, columns))

    def depends_on(self, spec: LookupSpec) -> str | None:
        """Return that a table may have changed, if it is read again."""
        return None if spec.table.refresh_us is None else "reads its table again as time goes by"

    def with_hidden(self, spec: LookupSpec, names: Columns) -> LookupSpec:
        """Put them out as well, as columns of the stream."""
        plain = [(name, column) for name, side, column in spec.output if side == 0]
        return replace(spec, output=(*spec.output, *((new, 0, old) for new, old in hidden_of(plain, names))))

    def sampling(self, spec: LookupSpec) -> Sampling:
        """Return that a row comes once with each of its partners, all of which are in the table."""
        return Sampling.SPREAD

    def words(self, spec: LookupSpec, node: OperatorNode) -> Words:
        """Say on which keys, in which table."""
        headline = join_headline("lookup", spec.how, spec.left_keys, [col(name) for name in spec.right_keys])
        return Words(headline, (("table", spec.table.describe()), output_detail(spec.output)))


LOOKUP = LookupDescriptor()
