"""Every kind of operator has one descriptor, whose answers fit together; the planner and the optimiser rely on it."""

from collections.abc import Iterator, Set
from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock import Stream, col
from penstock.dsl.job import Job
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.core.contract import Operator
from penstock.engine.operators.descriptor import PlanContext, key_places, plain_columns
from penstock.engine.operators.registry import OPERATORS, by_spec, descriptor_of, descriptors, make_operator
from penstock.model.errors import BugError
from penstock.model.job_graph import MAIN, BranchSpec, OperatorNode
from penstock.model.schema import StreamSchema
from tests.operator_specs import spec_classes
from tests.penstock.recovery.stateful_pipelines import PIPELINES as STATEFUL
from tests.penstock.recovery.stopped_jobs import LEFT, RIGHT, Pipeline, Rows

SETS_OF_COLUMNS = 20


def without_state(left: Stream, right: Stream) -> Stream:
    """Use every operator that keeps nothing."""
    parts = left.split(dear=col("price") > 5, cheap=col("price") < 3)
    computed = parts["dear"].filter(col("fee") > 0).with_columns(twice=col("price") * 2).drop("twice")
    rows = computed.union(parts["rest"], parts["cheap"]).filter(lambda price: price > 1)
    table = pa.table({"shop": ["north"], "town": ["Oslo"]})
    found = rows.map(lambda row: row).map_batches(lambda batch: batch).lookup(ps.lookup_table(table), on="shop")
    return found.rename(town="place")


PIPELINES: dict[str, Pipeline] = {**STATEFUL, "without_state": without_state}

BY_THE_PLANNER = {BranchSpec}
"""No user writes them."""


def nodes(build: Pipeline) -> Iterator[tuple[OperatorNode, list[StreamSchema]]]:
    """Yield the operators of a pipeline with the schemas of their inputs; a source's is what it reads."""
    job = Job()
    left, right = (ps.read(Rows(rows), time="at", watermark="4s", job=job) for rows in (LEFT, RIGHT))
    result = build(left, right)
    result.write(MemorySink(), mode="changelog" if result.updating else "append")
    for node in job.graph.operators.values():
        inputs = [job.graph[edge.operator].outputs[edge.output] for edge in node.inputs]
        yield node, inputs or [node.outputs[MAIN]]


def test_every_spec_has_one_descriptor_and_every_descriptor_one_line() -> None:
    assert sorted(descriptors(), key=lambda spec: spec.__name__) == spec_classes()
    assert len(descriptors()) == len(OPERATORS)
    assert list(OPERATORS) == sorted(OPERATORS)


def test_two_descriptors_of_one_spec_are_a_bug() -> None:
    with pytest.raises(BugError, match="aggregate_descriptor:AGGREGATE is another line for AggregateSpec; leave one"):
        by_spec(OPERATORS[:1] * 2)


def test_these_pipelines_have_every_kind_of_operator() -> None:
    written = {type(node.spec) for build in PIPELINES.values() for node, _ in nodes(build)}
    assert written | BY_THE_PLANNER == set(spec_classes())


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_descriptor_describes_what_was_asked_for(pipeline: str) -> None:
    for node, inputs in nodes(PIPELINES[pipeline]):
        descriptor = descriptor_of(node.spec)
        keys = [descriptor.keys(node.spec, port) for port in range(len(inputs))]
        outputs = descriptor.outputs(node.spec, inputs, node.name)
        assert all(node.outputs[output] == schema for output, schema in outputs.items())
        assert isinstance(make_operator(node.spec, inputs, node.name), Operator)
        assert descriptor.words(node.spec, node).headline
        assert descriptor.keyed <= (None not in keys)
        placed, sources = tuple(key or () for key in keys), tuple(("one",) for _ in inputs)
        context = PlanContext(node.name, tuple(inputs), placed, sources)
        meaning = descriptor.meaning(node.spec, context)
        assert meaning.kind == descriptor.verb
        tables = descriptor.state_layout(node.spec, meaning, inputs[0], node.name).tables
        assert tables.keys() >= {item.table for item in meaning.aggregates if item.table is not None}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_columns_that_it_needs_suffice(pipeline: str) -> None:
    rng = Random(pipeline)
    for node, inputs in nodes(PIPELINES[pipeline]):
        if not node.inputs or MAIN not in node.outputs:
            continue
        descriptor, result = descriptor_of(node.spec), node.outputs[MAIN].fields
        for _ in range(SETS_OF_COLUMNS):
            wanted = frozenset(rng.sample(result.names, rng.randint(1, len(result.names))))
            spec = descriptor.narrowed(node.spec, wanted)
            needed = descriptor.needed(node.spec, inputs, {MAIN: wanted})
            left = [_only(schema, names) for schema, names in zip(inputs, needed, strict=True)]
            outputs = descriptor.outputs(spec, left, node.name)
            assert all(outputs[MAIN].fields.field(name) == result.field(name) for name in wanted), (node.name, wanted)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_columns_that_show_where_rows_lie_are_in_the_result(pipeline: str) -> None:
    for node, inputs in nodes(PIPELINES[pipeline]):
        descriptor, names = (
            descriptor_of(node.spec),
            {name for item in node.outputs.values() for name in item.fields.names},
        )
        if descriptor.keyed:
            placed = [descriptor.keys(node.spec, port) or () for port in range(len(inputs))]
            assert names.issuperset(descriptor.partitioned_by(node.spec, placed) or ())
        elif MAIN in node.outputs and len(inputs) == 1:
            for name in inputs[0].fields.names:
                assert names.issuperset(descriptor.carried(node.spec, (name,)) or ())


def test_keys_are_told_by_their_places() -> None:
    shop, item = col("shop"), col("item")
    assert key_places((shop, item), (item,)) == (1,)
    assert plain_columns((shop, item)) == ("shop", "item")
    assert plain_columns((shop, item + 1)) is None
    assert plain_columns(()) is None


def _only(schema: StreamSchema, names: Set[str]) -> StreamSchema:
    assert names <= set(schema.fields.names)
    time = schema.time if schema.time is not None and schema.time.name in names else None
    return StreamSchema(pa.schema([item for item in schema.fields if item.name in names]), time, schema.changelog)
