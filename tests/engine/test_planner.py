"""What the optimiser rewrites, how the planner cuts, and that neither changes an answer."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock import col
from penstock.engine.embedded import EmbeddedJob
from penstock.engine.planner import cut, plan
from penstock.model.config import LoopOptions
from penstock.model.connectors import Reader, Source
from penstock.model.execution_graph import Edge, ExecutionGraph
from penstock.model.expressions import Expr, columns_of
from penstock.model.job_graph import FilterSpec, ProjectSpec, SourceSpec

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


def test_filters_move_below_projections_and_into_the_source() -> None:
    graph = planned(lambda s: s.rename(a="x").select("x", "b", y=col("b") + 1).filter(col("x") > 3).collect())
    predicate = source(graph).predicate
    assert predicate is not None
    assert predicate.same_as(col("a") > 3)
    assert source(graph).schema.names == ["a", "b"]


def test_a_filter_on_a_computed_column_stays() -> None:
    graph = planned(lambda s: s.select("a", y=col("b") + 1).filter(col("y") > 3).collect())
    assert kinds(graph) == ["source", "project", "filter", "sink"]
    assert source(graph).predicate is None


def test_a_filter_stays_above_a_projection_that_others_use() -> None:
    def build(stream: ps.Stream) -> None:
        common = stream.select("a", "b")
        common.filter(col("a") > 3).collect()
        common.collect()

    assert source(planned(build)).predicate is None


def test_neighbouring_filters_stay_apart() -> None:
    graph = planned(lambda s: s.filter(col("s").str.length() == 1).filter(col("s").cast("int64") > 3).collect())
    assert kinds(graph) == ["source", "filter", "filter", "sink"]
    predicate = source(graph).predicate
    assert predicate is not None
    assert predicate.same_as(col("s").str.length() == 1)


def test_a_predicate_stays_with_a_source_that_others_read() -> None:
    def build(stream: ps.Stream) -> None:
        stream.filter(col("a") > 3).collect()
        stream.select("a").collect()

    assert source(planned(build)).predicate is None


def test_a_predicate_stops_at_user_functions() -> None:
    graph = planned(lambda s: s.filter(lambda a: a > 1).filter(col("a") > 3).collect())
    assert source(graph).predicate is None


def test_projections_merge_into_one() -> None:
    graph = planned(lambda s: s.with_columns(c=col("a") + col("b")).drop("a").rename(c="d").select("d").collect())
    (spec,) = projections(graph)
    ((name, expression),) = spec.columns
    assert name == "d"
    assert expression.same_as(col("a") + col("b"))
    assert source(graph).schema.names == ["a", "b"]


def test_projections_do_not_merge_where_that_computes_twice() -> None:
    graph = planned(lambda s: s.select(c=col("a") * col("b")).select(d=col("c") + col("c")).collect())
    assert len(projections(graph)) == 2


def test_a_long_pipeline_makes_no_bottomless_expressions() -> None:
    job = ps.Job()
    doubled = added = ps.read_memory([{"x": 1}], job=job)
    for _ in range(20):
        doubled = doubled.with_columns(x=col("x") + col("x"))
    for _ in range(120):
        added = added.with_columns(x=col("x") + 1)
    results = [doubled.collect(), added.collect()]
    job.run("long", parallelism=1)
    assert [result.rows() for result in results] == [[{"x": 1 << 20}], [{"x": 121}]]


def test_a_projection_with_a_name_stays() -> None:
    graph = planned(lambda s: s.select("a", "b").name("kept").select("a").collect())
    assert len(projections(graph)) == 2


def test_a_projection_takes_the_filter_below_it_in() -> None:
    graph = planned(lambda s: s.filter(col("a") > 3).select(c=col("b") * 2).collect())
    (spec,) = projections(graph)
    assert kinds(graph) == ["source", "project", "sink"]
    assert spec.where is not None
    assert spec.where.same_as(col("a") > 3)


def test_a_filter_with_a_name_or_two_readers_stays() -> None:
    graph = planned(lambda s: s.filter(col("a") > 3).name("kept").select("b").collect())
    assert "filter" in kinds(graph)

    def build(stream: ps.Stream) -> None:
        some = stream.filter(col("a") > 3)
        some.select("b").collect()
        some.select("s").collect()

    assert "filter" in kinds(planned(build))


@pytest.mark.parametrize(
    ("build", "columns"),
    [
        (lambda s: s.select("b").collect(), ["b"]),
        (lambda s: s.filter(col("s") == "x").select("b").collect(), ["b", "s"]),
        (lambda s: s.agg(n=ps.count()).collect(), ["a"]),
        (lambda s: s.key_by("s").agg(m=ps.max_(col("a") + 1).filter(col("t") == "x")).collect(), ["a", "s", "t"]),
        (lambda s: s.map(lambda b, t: {"c": 1}, {"c": int}).collect(), ["b", "t"]),
        (lambda s: s.map(lambda row: {"c": 1}, {"c": int}).collect(), FIELDS.names),
        (lambda s: s.filter(lambda t: True).select("a").collect(), ["a", "t"]),
        (lambda s: s.map_batches(lambda batch: batch).select("a").collect(), FIELDS.names),
        (lambda s: s.split(x=col("t") == "x")["x"].select("a").collect(), ["a", "t"]),
        (lambda s: s.union(s.filter(col("b") > 1)).select("a").collect(), ["a", "b"]),
        (lambda s: s.map(lambda row: row).key_by("s").agg().collect(), FIELDS.names),
        (lambda s: s.join(s, on="s").select("a").collect(), ["a", "s"]),
        (lambda s: s.write_black_hole(), FIELDS.names),
        (lambda s: s.for_each_batch(print), FIELDS.names),
        (lambda s: s.key_by("s").agg(m=ps.sum_("a")).write_black_hole(mode="changelog"), ["a", "s"]),
    ],
)
def test_sources_read_the_columns_in_use(build: Callable[[ps.Stream], Any], columns: list[str]) -> None:
    assert source(planned(build)).schema.names == columns


@pytest.mark.parametrize(
    ("build", "columns"),
    [
        (lambda s: s.select("b").collect(), ["b"]),
        (lambda s: s.window(ps.tumbling("1s")).agg(m=ps.sum_("a")).collect(), ["a", "at"]),
        (lambda s: s.key_by("s").agg(m=ps.last("a")).collect(), ["a", "s", "at"]),
        (lambda s: s.key_by("s").reduce(lambda one, other: one).select("s").collect(), FIELDS.names),
        (lambda s: s.window(ps.tumbling("1s")).agg(m=ps.sum_("a")).side_output("late").collect(), FIELDS.names),
        (lambda s: s.join(s, on="s", window=ps.tumbling("1s")).select("a").collect(), ["a", "s", "at"]),
    ],
)
def test_event_time_is_read_where_it_matters(build: Callable[[ps.Stream], Any], columns: list[str]) -> None:
    assert source(planned(build, time="at")).schema.names == columns


def test_several_sources_keep_their_event_time_for_alignment() -> None:
    job = ps.Job()
    told(job, "at").select("a").union(told(job, "at").select("a")).collect()
    assert [
        node.spec.source.schema.names
        for node in job.plan().graph.operators.values()
        if isinstance(node.spec, SourceSpec)
    ] == [["a", "at"], ["a", "at"]]


def test_inputs_of_a_union_get_the_same_columns() -> None:
    job = ps.Job()
    stream = told(job)
    stream.filter(col("s") == "x").union(stream.select(*FIELDS.names), stream).select("b", "a").collect()
    graph = job.plan().graph
    union = next(node for node in graph.operators.values() if node.kind == "union")
    inputs = [graph[item.operator].outputs[item.output].fields.names for item in union.inputs]
    assert inputs == [["a", "b"]] * 3


def test_what_no_sink_reads_is_left_out() -> None:
    def build(stream: ps.Stream) -> None:
        stream.select("a").collect()
        stream.key_by("s").agg(n=ps.count())

    assert "aggregate" not in kinds(planned(build))


def test_operators_without_exchange_are_one_task() -> None:
    graph = planned(lambda s: s.filter(col("a") > 3).map(lambda row: row).select("a").collect(), parallelism=2)
    (task,) = graph.tasks
    assert task.parallelism == 2
    assert all(item.chained and item.exchange == "forward" for item in graph.edges)


def test_at_parallelism_one_everything_is_one_task() -> None:
    graph = planned(lambda s: s.key_by("s").agg(n=ps.count()).key_by("n").agg(m=ps.count()).collect())
    assert len(graph.tasks) == 1


def test_a_keyed_aggregate_is_fed_by_hash() -> None:
    graph = planned(lambda s: s.key_by("s").agg(n=ps.count()).collect(), parallelism=2)
    into = edge(graph, "agg-1")
    assert (into.exchange, into.chained) == ("hash", False)
    assert [key.name for key in into.keys] == ["s"]


def test_an_aggregate_without_key_has_one_instance() -> None:
    graph = planned(lambda s: s.agg(n=ps.count()).collect(), parallelism=3)
    assert [task.parallelism for task in graph.tasks] == [3, 1]
    assert edge(graph, "agg-1").exchange == "rebalance"
    assert edge(graph, "sink-1").chained


def again(change: Callable[[ps.Stream], ps.Stream], *keys: Any) -> Edge:
    """Aggregate by s, change the result, aggregate again; return the edge into the second aggregate."""
    graph = planned(
        lambda s: change(s.key_by("s").agg(n=ps.count(), m=ps.max_("t"))).key_by(*keys).agg(x=ps.sum_("n")).collect(),
        parallelism=2,
    )
    return edge(graph, "agg-2")


def test_a_second_aggregate_by_the_same_key_needs_no_exchange() -> None:
    for change, key in (
        (lambda s: s, "s"),
        (lambda s: s.filter(col("n") > 1), "s"),
        (lambda s: s.filter(lambda n: n > 1), "s"),
        (lambda s: s.rename(s="key").with_columns(n=col("n") + 1), "key"),
        (lambda s: s.select("n", key="s"), "key"),
        (lambda s: s.split(big=col("n") > 1)["big"], "s"),
    ):
        into = again(change, key)
        assert (into.exchange, into.chained) == ("forward", True)


def test_a_second_aggregate_by_another_key_is_exchanged() -> None:
    for change, keys in (
        (lambda s: s, ["m"]),
        (lambda s: s, ["s", "m"]),
        (lambda s: s, [col("s").str.lower()]),
        (lambda s: s.with_columns(s=col("s").str.lower()), ["s"]),
        (lambda s: s.rename(s="m", m="s"), ["s"]),
        (lambda s: s.map(lambda row: row), ["s"]),
        (lambda s: s.rebalance().filter(col("n") > 1), ["s"]),
        (lambda s: s.filter(col("n") > 1).parallelism(3), ["s"]),
    ):
        assert again(change, *keys).exchange == "hash"


def test_a_join_reuses_the_partitioning_of_a_side() -> None:
    job = ps.Job()
    counts = told(job, "at").key_by("s").window(ps.tumbling("1s")).agg(n=ps.count())
    told(job, "at").join(counts, on="s").collect()
    graph = job.plan(2)
    assert [(edge(graph, "join-1", port).exchange, edge(graph, "join-1", port).chained) for port in (0, 1)] == [
        ("hash", False), ("forward", False),
    ]  # fmt: skip


def test_an_upsert_sink_gets_all_rows_of_a_key() -> None:
    def into(parallelism: int | None, *key: str) -> tuple[str, bool]:
        def build(stream: ps.Stream) -> None:
            sink = stream.key_by("s").agg(n=ps.count()).write_black_hole(mode="upsert", key=key)
            if parallelism is not None:
                sink.parallelism(parallelism)

        found = edge(planned(build, parallelism=2), "sink-1")
        return found.exchange, found.chained

    assert into(None, "s") == ("forward", True)
    assert into(None, "n", "s") == ("forward", True)
    assert into(None, "n") == ("hash", False)
    assert into(3, "s") == ("hash", False)
    assert into(1, "s") == ("rebalance", False)


def test_a_change_of_parallelism_rebalances() -> None:
    graph = planned(lambda s: s.filter(col("a") > 1).parallelism(3).collect(), parallelism=2)
    assert edge(graph, "filter-1").exchange == "rebalance"
    assert [task.parallelism for task in graph.tasks] == [2, 3]


ROWS = [
    {"a": a, "b": b, "s": s, "t": t}
    for a, b, s, t in zip(
        [1, 2, 3, None, 5, 6, 7, 8] * 3,
        [None, 4, 4, 1, 2, 2, 0, 9, 3, 3, 1, 5] * 2,
        ["x", "y", "x", None, "z", "y"] * 4,
        ["p", "q", None, "p"] * 6,
        strict=True,
    )
]
ROWS_SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "s": pa.string(), "t": pa.string()})
INTEGERS, TEXTS = ("a", "b", "c"), ("s", "t", "u")


def _of(stream: ps.Stream, wanted: Sequence[str]) -> list[str]:
    kind = pa.int64() if wanted is INTEGERS else pa.string()
    return [field.name for field in stream.schema if field.type == kind]


def condition(stream: ps.Stream, chance: Random) -> Expr:
    """Return a condition over some columns."""
    numbers, texts = _of(stream, INTEGERS), _of(stream, TEXTS)
    options: list[Expr] = [ps.lit(chance.random() < 0.5)]
    if numbers:
        one, other = col(chance.choice(numbers)), col(chance.choice(numbers))
        options = [one > chance.randrange(7), one.is_null(), one % 2 == 0, one <= other]
    if texts:
        text = col(chance.choice(texts))
        options += [text == chance.choice("xyzpq"), text.is_not_null() | (text > "p")]
    return chance.choice(options)


def computed(stream: ps.Stream, chance: Random) -> Expr:
    """Return an expression that has a value for every row."""
    numbers, texts = _of(stream, INTEGERS), _of(stream, TEXTS)
    options: list[Expr] = [ps.lit(chance.randrange(4)), ps.lit("x")]
    if numbers:
        one, other = col(chance.choice(numbers)), col(chance.choice(numbers))
        options += [one + other, one * 2 - 1, one.fill_null(0), other, ps.when(one > 2).then(other).otherwise(one)]
    if texts:
        text = col(chance.choice(texts))
        options += [text, text.str.upper(), text.str.length().cast("int64"), ps.concat(text, "x")]
    return chance.choice(options)


def bump(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value + 1 if isinstance(value, int) else value for name, value in row.items()}


def step(stream: ps.Stream, chance: Random) -> ps.Stream:
    """Return the stream with one more operator."""
    names = stream.schema.names
    often = ["filter", "select", "with_columns", "rename"] * 2
    seldom = ["map", "function"] if stream.updating else ["map", "function", "union", "split", "key", "batches"]
    match chance.choice(often + seldom):
        case "filter":
            return stream.filter(condition(stream, chance))
        case "select":
            kept = chance.sample(names, chance.randint(1, len(names)))
            return stream.select(*kept, **{"extra": computed(stream, chance)} if "extra" not in kept else {})
        case "with_columns":
            return stream.with_columns(**{chance.choice([*names, "c", "u"]): computed(stream, chance)})
        case "rename":
            return stream.rename(dict(zip(names, chance.sample(names, len(names)), strict=True)))
        case "map":
            return stream.map(bump)
        case "function":
            return stream.filter(_truthy(chance.choice(names)))
        case "union":
            return stream.union(stream.filter(condition(stream, chance)))
        case "split":
            parts = stream.split(one=condition(stream, chance), two=condition(stream, chance))
            return parts[chance.choice(["one", "two", "rest"])]
        case "batches":
            return stream.map_batches(lambda batch: batch.slice(0, batch.num_rows - 1))
        case _:
            key, value = chance.choice(names), chance.choice(names)
            calls = {"c": ps.count(value), "u": ps.max_(value)}
            calls.pop(key, None)
            keyed = stream.key_by(key)
            return keyed.agg(**calls) if chance.random() < 0.5 else keyed.window(ps.global_window()).agg(**calls)


def _truthy(name: str) -> Callable[..., Any]:
    """Return a function with one parameter of this name."""
    scope: dict[str, Any] = {}
    exec(f"def truthy({name}): return bool({name})", scope)
    function: Callable[..., Any] = scope["truthy"]
    return function


def answer(job: ps.Job, graph: ExecutionGraph, results: list[ps.Result], folder: Path) -> list[Counter[str]]:
    EmbeddedJob("test", graph, LoopOptions(batch_rows=64), folder).run()
    return [Counter(json.dumps(row, default=str) for row in result.rows()) for result in results]


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 1 << 32))
def test_the_optimised_plan_gives_the_same_answer(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    chance = Random(seed)
    job = ps.Job()
    stream = ps.read_memory(ROWS, schema=ROWS_SCHEMA, job=job)
    results = []
    for _ in range(chance.randint(3, 9)):
        stream = step(stream, chance)
        if chance.random() < 0.15:
            results.append(stream.collect())
    results.append(stream.collect())
    parallelism, folder = chance.randint(1, 2), tmp_path_factory.getbasetemp()
    plain = answer(job, cut(job.graph, parallelism), results, folder)
    assert answer(job, plan(job.graph, parallelism), results, folder) == plain


def test_the_optimiser_leaves_the_users_graph_alone() -> None:
    job = ps.Job()
    told(job).select("a", "b").filter(col("a") > 3).select(c=col("b") + 1).collect()
    before = dict(job.graph.operators)
    job.plan()
    assert job.graph.operators == before
    assert columns_of(next(n.spec.predicate for n in before.values() if isinstance(n.spec, FilterSpec))) == {"a"}
