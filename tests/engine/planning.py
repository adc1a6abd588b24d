"""Plans in a test's hands: a source that says what the optimiser told it, and what to look at in a plan."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.model.connectors import Reader, Source
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.expressions import Expr
from penstock.model.job_graph import ProjectSpec, SourceSpec

FIELDS = pa.schema({"a": pa.int64(), "b": pa.int64(), "s": pa.string(), "t": pa.string(), "at": pa.timestamp("us")})


class Told(Source):
    """Remembers what the optimiser told it to read; cannot be read."""

    def __init__(self, fields: pa.Schema = FIELDS, predicate: Expr | None = None) -> None:
        self._fields = fields
        self.predicate = predicate

    @property
    def schema(self) -> pa.Schema:
        return self._fields

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["only"]

    def open(self, partition: str, position: Any | None) -> Reader:
        raise AssertionError("a plan must not start work")

    def restrict(self, columns: Sequence[str], predicate: Expr | None) -> Source:
        fields = pa.schema([self._fields.field(name) for name in columns])
        return Told(fields, self.predicate if predicate is None else predicate)


def told(job: ps.Job, time: str | None = None) -> ps.Stream:
    return ps.read(Told(), time=time, job=job)


def planned(build: Callable[[ps.Stream], Any], parallelism: int = 1, time: str | None = None) -> ExecutionGraph:
    """Return the plan of what is built on one source."""
    job = ps.Job()
    build(told(job, time))
    return job.plan(parallelism)


def kinds(graph: ExecutionGraph) -> list[str]:
    return [node.kind for node in graph.graph.operators.values()]


def source(graph: ExecutionGraph) -> Told:
    """Return the source as the optimiser left it."""
    spec = next(node.spec for node in graph.graph.operators.values() if isinstance(node.spec, SourceSpec))
    assert isinstance(spec.source, Told)
    return spec.source


def projections(graph: ExecutionGraph) -> list[ProjectSpec]:
    return [node.spec for node in graph.graph.operators.values() if isinstance(node.spec, ProjectSpec)]


def edge(graph: ExecutionGraph, consumer: str, port: int = 0) -> Edge:
    return next(item for item in graph.edges if graph.node(item.consumer).name == consumer and item.port == port)
