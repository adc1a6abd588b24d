"""The union of streams of the same columns: what comes out of it and its operator; the gate has merged the inputs."""

from collections.abc import Iterable, Mapping, Sequence, Set

import pyarrow as pa

from penstock.engine.core.contract import MAIN, Emission
from penstock.engine.core.elements import Batch
from penstock.engine.operators.descriptions import Words
from penstock.engine.operators.descriptor import Columns, OperatorDescriptor, Sampling, Wanted
from penstock.engine.operators.select import Pass
from penstock.model.errors import PlanError
from penstock.model.job_graph import OperatorNode, UnionSpec
from penstock.model.schema import StreamSchema


class Union(Pass):
    """Passes every row, as one of the common schema: a column that one input requires may be null in another."""

    def __init__(self, inputs: Sequence[StreamSchema], name: str) -> None:
        """Take the inputs' schemas.

        Raises:
            PlanError: see `union_output`.
        """
        self._schema = union_output(inputs, name).physical

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Pass one batch."""
        for output, passed in super().process(port, batch):
            rows = passed.rows
            if not rows.schema.equals(self._schema):
                rows = pa.RecordBatch.from_arrays(rows.columns, schema=self._schema)
            yield output, passed.with_rows(rows)


def union_output(inputs: Sequence[StreamSchema], name: str) -> StreamSchema:
    """Return the schema of the union: a column may be null if it may in one input; event time is what all have.

    Raises:
        PlanError: the columns differ, or only some of the streams are updating.
    """
    first = inputs[0]
    for other in inputs[1:]:
        if other.fields.names != first.fields.names or other.fields.types != first.fields.types:
            raise PlanError(
                f"{name!r} unites streams of different columns: {_describe(first)} and {_describe(other)}; "
                "select the same columns first"
            )
    changelog = any(item.changelog for item in inputs)
    if changelog and not all(item.changelog for item in inputs):
        raise PlanError(f"{name!r} unites an updating stream with an append-only one; make both the same")
    time = first.time if all(item.time == first.time for item in inputs) else None
    nullable = [
        any(fields) for fields in zip(*([field.nullable for field in item.fields] for item in inputs), strict=True)
    ]
    fields = [field.with_nullable(may_be) for field, may_be in zip(first.fields, nullable, strict=True)]
    return StreamSchema(pa.schema(fields), time, changelog)


def _describe(schema: StreamSchema) -> str:
    return "(" + ", ".join(f"{field.name} {field.type}" for field in schema.fields) + ")"


class UnionDescriptor(OperatorDescriptor[UnionSpec]):
    """Rows of several streams become one stream."""

    spec = UnionSpec
    verb = "union"
    stateful = False
    needs_time = False
    has_dead_letters = False
    like_inputs = True

    def outputs(self, spec: UnionSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the common schema; see `union_output`."""
        return {MAIN: union_output(inputs, name)}

    def make(self, spec: UnionSpec, inputs: Sequence[StreamSchema], name: str) -> Union:
        """Return a fresh operator."""
        return Union(inputs, name)

    def needed(self, spec: UnionSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Return the same columns for every input."""
        columns = wanted.get(MAIN) or frozenset(inputs[0].fields.names)
        return [columns for _ in inputs]

    def with_hidden(self, spec: UnionSpec, names: Columns) -> UnionSpec:
        """Return the spec: rows are what they were."""
        return spec

    def sampling(self, spec: UnionSpec) -> Sampling:
        """Return that rows are what they were; which of the inputs they come from is not told."""
        return Sampling.PASSED

    def words(self, spec: UnionSpec, node: OperatorNode) -> Words:
        """Count the streams."""
        return Words(f"union of {len(node.inputs)} streams")


UNION = UnionDescriptor()
