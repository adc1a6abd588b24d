"""A plan made by hand to test its pictures: two sources, a window join, an aggregate, two sinks."""

from dataclasses import dataclass

import pyarrow as pa

from penstock.model.aggregates import AggregateCall
from penstock.model.connectors import Reader, Sink, Source, Writer
from penstock.model.execution_graph import Edge, ExecutionGraph, Task
from penstock.model.expressions import Expr, col
from penstock.model.ids import OperatorId, TaskId
from penstock.model.job_graph import (
    LATE,
    MAIN,
    AggregateSpec,
    FilterSpec,
    Input,
    JobGraph,
    OperatorNode,
    OperatorSpec,
    ProjectSpec,
    SinkSpec,
    SourceSpec,
)
from penstock.model.join_specs import JoinSpec
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Emission, Tumbling, Windowing

TIME = pa.timestamp("ms")
BIDS = pa.schema({"auction": pa.int64(), "price": pa.int64(), "at": TIME})
AUCTIONS = pa.schema({"id": pa.int64(), "seller": pa.string(), "at": TIME})


@dataclass(frozen=True)
class File(Source):
    """A source that only says what it is."""

    path: str
    fields: pa.Schema
    predicate: Expr | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.fields

    def partitions(self, parallelism: int) -> list[str]:
        return ["0"]

    def open(self, partition: str, position: object) -> Reader:
        raise AssertionError("a picture must not start work")

    def describe(self) -> str:
        return f"parquet {self.path}"


@dataclass(frozen=True)
class Folder(Sink):
    """A sink that only says what it is."""

    path: str

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        raise AssertionError("a picture must not start work")

    def describe(self) -> str:
        return f"parquet {self.path}"


def node(name: str, spec: OperatorSpec, *inputs: str, named: bool = False, fields: pa.Schema = BIDS) -> OperatorNode:
    """Return an operator that reads the main outputs of others."""
    schema = StreamSchema(fields, TimeColumn("at") if "at" in fields.names else None)
    edges = tuple(Input(OperatorId(producer)) for producer in inputs)
    return OperatorNode(OperatorId(name), name, spec, edges, {MAIN: schema, LATE: schema}, named, where="hot.py:7")


def edge(
    producer: str,
    consumer: str,
    exchange: str = "forward",
    *keys: str,
    port: int = 0,
    output: str = MAIN,
    chained: bool = False,
) -> Edge:
    """Return an edge between operators given by name."""
    expressions = tuple(col(key) for key in keys)
    return Edge(OperatorId(producer), output, OperatorId(consumer), port, exchange, chained, expressions)


def plan_of(nodes: list[OperatorNode], tasks: list[tuple[list[str], int]], edges: list[Edge]) -> ExecutionGraph:
    """Put a plan together."""
    graph = JobGraph({item.id: item for item in nodes})
    cut = (
        Task(TaskId(index), tuple(OperatorId(name) for name in names), parallelism)
        for index, (names, parallelism) in enumerate(tasks)
    )
    return ExecutionGraph(graph, tuple(cut), tuple(edges))


def sample_plan() -> ExecutionGraph:
    """Return the plan: bids filtered and joined to auctions, counted per seller, late rows kept."""
    predicate = (col("price") > 100) & (col("auction") < 5000)
    window = Windowing(Tumbling(10_000_000), lateness_us=2_000_000)
    dear = AggregateCall("count").filter(col("price") >= 1000)
    nodes = [
        node("source-1", SourceSpec(File("bid.parquet", BIDS, predicate), 4_000_000)),
        node("filter-1", FilterSpec(predicate), "source-1"),
        node("source-2", SourceSpec(File("auction.parquet", AUCTIONS), 0, "skip"), fields=AUCTIONS),
        node(
            "sold",
            JoinSpec(
                (col("auction"),),
                (col("id"),),
                (("price", 0, "price"), ("seller", 1, "seller"), ("at", 0, "at")),
                window,
            ),
            "filter-1",
            "source-2",
            named=True,
        ),
        node(
            "select-1",
            ProjectSpec((("seller", col("seller")), ("euro", col("price") * 0.908))),
            "sold",
        ),
        node(
            "per-seller",
            AggregateSpec(
                (("seller", col("seller")),),
                (
                    ("n", AggregateCall("count")),
                    ("top", AggregateCall("max", (col("euro"),))),
                    ("dear", dear),
                ),
                window,
                Emission("final"),
            ),
            "select-1",
            named=True,
        ),
        node("sink-1", SinkSpec(Folder("sellers"), min_accuracy=0.7, priority=5), "per-seller"),
        node("late-rows", SinkSpec(Folder("late"), "upsert", ("seller",)), "per-seller", named=True),
    ]
    tasks = [
        (["source-1", "filter-1"], 2),
        (["source-2"], 1),
        (["sold", "select-1"], 2),
        (["per-seller", "sink-1"], 2),
        (["late-rows"], 1),
    ]
    edges = [
        edge("source-1", "filter-1", chained=True),
        edge("filter-1", "sold", "hash", "auction"),
        edge("source-2", "sold", "hash", "id", port=1),
        edge("sold", "select-1", chained=True),
        edge("select-1", "per-seller", "hash", "seller"),
        edge("per-seller", "sink-1", chained=True),
        edge("per-seller", "late-rows", "rebalance", output=LATE),
    ]
    return plan_of(nodes, tasks, edges)
