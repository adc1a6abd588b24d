"""The shedder of a branch, where queries behind a source part: a row goes on if its record's step is below the limit.

The limits are decided where the rows are read, batch by batch, and come in their header (`Batch.branches`), so that the
log of the source says what held. While no branch sheds, rows have no steps, and pass as they are.
"""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.core.contract import MAIN, Emission, Operator
from penstock.engine.core.elements import Batch
from penstock.engine.operators.descriptions import Words
from penstock.engine.operators.descriptor import Columns, OperatorDescriptor, Sampling, Wanted
from penstock.model.job_graph import BranchSpec, OperatorNode
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.schema import StreamSchema


class Branch(Operator):
    """Passes the rows whose records stay at a branch; behind the last one they have no steps."""

    def __init__(self, spec: BranchSpec) -> None:
        """Take the branch's number and whether it is the last on its way."""
        self._number, self._is_last = spec.number, spec.is_last

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Shed one batch."""
        counters, rows = self.context.counters, batch.rows
        counters.rows_in += rows.num_rows
        if not batch.branches:
            counters.passed += rows.num_rows
            yield MAIN, batch
            return
        keep, branches, number = batch.keep, batch.branches, self._number
        steps = rows.column(rows.num_columns - 1)
        if self._is_last:
            rows, branches = rows.remove_column(rows.num_columns - 1), b""
        if number is not None and (limit := batch.branches[number]) < steps_of(keep):
            keep = limit / STEPS
            rows = rows.filter(pc.less(steps, pa.scalar(limit, pa.uint8())))
        counters.shed += batch.rows.num_rows - rows.num_rows
        counters.passed += rows.num_rows
        if rows.num_rows:
            yield MAIN, Batch(rows, keep, batch.ingest_ns, batch.opposite_us, branches, batch.keys)


class BranchDescriptor(OperatorDescriptor[BranchSpec]):
    """Rows go on as they are, or are shed."""

    spec = BranchSpec
    verb = "branch"
    stateful = False
    needs_time = False
    has_dead_letters = False

    def outputs(self, spec: BranchSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the input's schema."""
        return {MAIN: inputs[0]}

    def make(self, spec: BranchSpec, inputs: Sequence[StreamSchema], name: str) -> Branch:
        """Return a fresh operator."""
        return Branch(spec)

    def needed(self, spec: BranchSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[frozenset[str]]:
        """Return what is wanted of it."""
        return [frozenset(wanted.get(MAIN, frozenset()))]

    def carried(self, spec: BranchSpec, columns: Columns) -> Columns:
        """Return the columns: they are what they were."""
        return columns

    def with_hidden(self, spec: BranchSpec, names: Columns) -> BranchSpec:
        """Return the spec: rows are what they were."""
        return spec

    def sampling(self, spec: BranchSpec) -> Sampling:
        """Return that rows are what they were."""
        return Sampling.CARRIED

    def words(self, spec: BranchSpec, node: OperatorNode) -> Words:
        """Say whether it sheds."""
        return Words(
            "branch that keeps what its source keeps" if spec.number is None else "branch with a keep rate of its own"
        )


BRANCH = BranchDescriptor()
