"""Where rows may be shed: which sources, which branches, and the reasons why not."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import col
from penstock.engine.operators.descriptor import Sampling
from penstock.engine.operators.registry import descriptor_of
from penstock.engine.plan.branch_shedders import shed_branches
from penstock.engine.plan.key_samplers import key_samplers_behind, sampled_edges
from penstock.engine.plan.shedding_points import SheddingPoints, shedding_points
from penstock.model.job_graph import BranchSpec, JobGraph, OperatorNode, SinkSpec, SourceSpec

FIELDS = {"key": "int64", "paid": "int64", "at": "timestamp[us]"}


@dataclass(frozen=True)
class Endless(ps.Source):
    """A source that never ends, and is never opened."""

    bounded = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema({"key": pa.int64(), "paid": pa.int64(), "at": pa.timestamp("us")})

    def partitions(self, parallelism: int) -> list[str]:
        return ["0"]

    def open(self, partition: str, position: object) -> ps.Reader:
        raise AssertionError("a plan opens nothing")


def rows(job: ps.Job) -> ps.Stream:
    return ps.read(Endless(), time="at", job=job)


def points(job: ps.Job) -> SheddingPoints:
    return shedding_points(job.plan().graph)


def minute(stream: ps.Stream) -> ps.Stream:
    return stream.key_by("key").window(ps.tumbling("1m")).agg(n=ps.count())


def test_a_source_of_one_query_under_contract_may_be_shed() -> None:
    job = ps.Job()
    minute(rows(job).filter(col("paid") > 3)).write_black_hole().with_min_accuracy(0.7)
    assert points(job) == SheddingPoints({"source-1": 0.7})


def test_nothing_may_be_shed_without_a_contract() -> None:
    job = ps.Job()
    rows(job).write_black_hole().name("all")
    assert points(job).reasons == {"source-1": "query 'all' has no minimum accuracy below 1"}
    assert not points(job).sources


def test_what_ends_by_itself_is_shed_only_where_the_run_says_so() -> None:
    job = ps.Job()
    ps.read_memory([{"a": 1}], job=job).write_black_hole().with_min_accuracy(0.5)
    assert points(job).reasons == {"source-1": "it ends by itself, so what comes late is not lost"}
    assert shedding_points(job.plan().graph, bounded=True) == SheddingPoints({"source-1": 0.5})


def test_the_more_exact_of_two_queries_bounds_their_source_and_the_other_one_has_a_branch() -> None:
    job = ps.Job()
    dear = rows(job).filter(col("paid") > 3).name("dear")
    minute(dear).write_black_hole().with_min_accuracy(0.8)
    dear.write_black_hole().name("rough").with_min_accuracy(0.3)
    assert points(job) == SheddingPoints({"source-1": 0.8}, {("dear", "agg-1"): 0.8, ("dear", "rough"): 0.3})


def test_a_query_without_contract_keeps_all_while_its_neighbour_is_shed() -> None:
    job = ps.Job()
    stream = rows(job)
    stream.select("key").write_black_hole().name("whole")
    stream.select("paid").name("paid").write_black_hole().with_min_accuracy(0.3)
    assert points(job) == SheddingPoints({"source-1": 1.0}, {("source-1", "paid"): 0.3})


def test_queries_of_one_contract_need_no_branch() -> None:
    job = ps.Job()
    stream = rows(job)
    for _ in range(2):
        stream.write_black_hole().with_min_accuracy(0.5).with_priority(2)
    assert points(job) == SheddingPoints({"source-1": 0.5})


def test_queries_that_part_behind_a_function_of_the_users_are_shed_alike() -> None:
    job = ps.Job()
    made = rows(job).map(lambda row: row)
    made.write_black_hole().name("whole")
    made.write_black_hole().with_min_accuracy(0.5)
    (reason,) = points(job).reasons.values()
    assert reason.startswith("query 'whole' has no minimum accuracy below 1, and the others do not part from it")


@pytest.mark.parametrize(
    "verb",
    ["over", "top", "distinct", "process", "updating session", "count", "user", "reduce"],
)
def test_operators_to_which_a_sample_says_nothing_need_all_rows(verb: str) -> None:
    job = ps.Job()
    stream = rows(job)
    keyed = stream.key_by("key")

    class Most(ps.UserAggregate):
        state: ClassVar = {"most": "int64"}
        result_type = pa.int64()

        def update(self, state: object, groups: object, values: object) -> None:
            raise AssertionError("a plan folds nothing")

        merge = result = update

    class Keep(ps.Process):
        def process(self, row: dict[str, object], context: object) -> Iterator[dict[str, object]]:
            yield row

    ends = {
        "over": lambda: keyed.over(rows=3).agg(n=ps.count()),
        "top": lambda: keyed.top(2, by="paid"),
        "distinct": lambda: stream.distinct("key"),
        "process": lambda: keyed.process(Keep(), schema=FIELDS),
        "updating session": lambda: keyed.window(ps.session("1s")).emit("updates").agg(n=ps.count()),
        "count": lambda: keyed.window(ps.count_window(3)).agg(n=ps.count()),
        "user": lambda: keyed.window(ps.tumbling("1s")).agg(n=ps.aggregate(Most(), "paid")),
        "reduce": lambda: keyed.window(ps.tumbling("1s")).reduce(lambda a, b: a),
    }
    result = ends[verb]()
    result.write_black_hole(mode="changelog").with_min_accuracy(0.5)
    found = points(job)
    assert not found.sources
    assert all("says nothing of all rows" in reason and __file__ in reason for reason in found.reasons.values())


def test_rows_that_may_come_several_times_are_no_sample_of_an_aggregate() -> None:
    job = ps.Job()
    stream = rows(job)
    minute(stream.flat_map(lambda row: [row, row])).write_black_hole().with_min_accuracy(0.5)
    assert "may be several rows" in points(job).reasons["source-1"]
    job = ps.Job()
    stream = rows(job)
    minute(stream.filter(col("paid") > 1).union(stream)).write_black_hole().with_min_accuracy(0.5)
    assert "may be several rows" in points(job).reasons["source-1"]


def sessions(stream: ps.Stream) -> ps.Stream:
    return stream.key_by("key").window(ps.session("1s")).agg(n=ps.count())


def test_rows_of_sessions_are_dropped_by_their_keys() -> None:
    job = ps.Job()
    some = rows(job).flat_map(lambda row: [row, row]).name("some")
    sessions(some).name("visits").filter(col("n") > 1).write_black_hole().with_min_accuracy(0.4)
    minute(rows(job).name("others")).write_black_hole().with_min_accuracy(0.7)
    edge = ("some", "visits")
    found = SheddingPoints({"source-1": 1.0, "others": 0.7}, {edge: 0.4}, keyed=frozenset({edge}))
    plan = job.plan(2).graph
    assert shedding_points(plan) == found
    assert sampled_edges(plan) == {edge}
    (source,) = [node.id for node in plan.operators.values() if node.name == "source-1"]
    assert key_samplers_behind(plan, source) == ("some>visits",)


def test_totals_over_sessions_are_estimates_whose_rows_know_their_buckets() -> None:
    job = ps.Job()
    visits = sessions(rows(job)).name("visits").filter(col("n") > 1).select("n", "window_end").name("some")
    minute(visits.with_columns(key=col("n") % 2)).name("sums").write_black_hole().with_min_accuracy(0.4)
    plan = job.plan(2).graph
    assert shedding_points(plan).keyed == sampled_edges(plan) == {("source-1", "visits")}
    schemas = {node.name: node.outputs for node in plan.operators.values()}
    assert "$bucket" in schemas["visits"]["main"].fields.names
    assert "$bucket" not in schemas["sums"]["main"].fields.names


def test_beside_branches_that_lose_single_rows_sessions_lose_keys() -> None:
    job = ps.Job()
    source = rows(job).name("all")
    sessions(source).name("visits").write_black_hole().with_min_accuracy(0.4)
    minute(source).name("minutes").write_black_hole().with_min_accuracy(0.6)
    plan = job.plan(2).graph
    edges = {("all", "visits"): 0.4, ("all", "minutes"): 0.6}
    assert shedding_points(plan) == SheddingPoints({"all": 1.0}, edges, keyed=frozenset({("all", "visits")}))
    assert sampled_edges(plan) == {("all", "visits")}
    assert shed_branches(plan) == {("all", "minutes")}


WHOLE = {
    "no contract": lambda found: found.write_black_hole(),
    "grouped by the key": lambda found: (
        found.rename(key="who").key_by("who").agg(most=ps.max_("n")).write_black_hole(mode="changelog")
    ),
    "ranked": lambda found: found.key_by("n").top(3, by="n").write_black_hole(mode="changelog"),
    "beside others": lambda found: (
        found.union(found).key_by("n").agg(count=ps.count()).write_black_hole(mode="changelog")
    ),
    "late rows": lambda found: found.side_output("late").write_black_hole(),
}


@pytest.mark.parametrize("other", WHOLE)
def test_sessions_of_which_something_needs_all_are_left_whole(other: str) -> None:
    job = ps.Job()
    found = sessions(rows(job))
    found.write_black_hole().with_min_accuracy(0.4)
    sink = WHOLE[other](found)
    if other != "no contract":
        sink.with_min_accuracy(0.4, columns=False)
    assert not points(job).keyed and not points(job).sources
    assert not sampled_edges(job.plan().graph)


def test_rows_that_are_broadcast_are_left_whole() -> None:
    job = ps.Job()
    rows(job).broadcast().map(lambda row: row).write_black_hole().with_min_accuracy(0.5)
    assert "broadcast" in points(job).reasons["source-1"]


@st.composite
def jobs(draw: st.DrawFn) -> ps.Job:
    """Draw a job of sources, operators that read any stream before them, and queries of any contract."""
    job = ps.Job()
    streams = [rows(job) for _ in range(draw(st.integers(1, 2)))]
    accuracy = st.sampled_from([0.2, 0.5, 1.0])
    for _ in range(draw(st.integers(1, 10))):
        stream = draw(st.sampled_from(streams))
        verb = draw(st.sampled_from(["filter", "select", "split", "map", "flat_map", "union", "agg", "over", "sink"]))
        if verb == "filter":
            streams.append(stream.filter(draw(st.sampled_from([col("paid") > 1, lambda paid: paid > 1]))))
        elif verb == "select":
            streams.append(stream.select("key", "at", paid=col("paid") + 1).select("key", "paid", "at"))
        elif verb == "split":
            streams += stream.split(dear=col("paid") > 5).values()
        elif verb == "map":
            streams.append(stream.map(lambda row: row))
        elif verb == "flat_map":
            streams.append(stream.flat_map(lambda row: [row]))
        elif verb == "union":
            streams.append(stream.union(draw(st.sampled_from(streams))))
        elif verb == "agg":
            minute(stream).write_black_hole().with_min_accuracy(draw(accuracy))
        elif verb == "over":
            stream.key_by("key").over(rows=2).agg(n=ps.count()).write_black_hole().with_min_accuracy(draw(accuracy))
        else:
            stream.write_black_hole().with_min_accuracy(draw(accuracy)).with_priority(draw(st.integers(0, 1)))
    streams[0].write_black_hole().with_min_accuracy(draw(accuracy))
    return job


def paths(graph: JobGraph, node: OperatorNode) -> Iterator[list[OperatorNode]]:
    """Yield the ways from an operator to every query behind it."""
    readers = {reader.id: reader for reader, _ in graph.consumers(node.id)}
    if isinstance(node.spec, SinkSpec):
        yield [node]
    for reader in readers.values():
        for path in paths(graph, reader):
            yield [node, *path]


@given(jobs())
def test_whatever_is_shed_no_query_gets_less_than_its_minimum(job: ps.Job) -> None:
    graph = job.plan().graph
    found = shedding_points(graph)
    parted = {producer for producer, _ in found.branches}
    for source in graph.operators.values():
        if not isinstance(source.spec, SourceSpec):
            continue
        assert (source.name in found.sources) != (source.name in found.reasons)
        for path in paths(graph, source):
            path = [node for node in path if not isinstance(node.spec, BranchSpec)]
            names = [node.name for node in path]
            rates = [found.branches.get(edge, 1.0) for edge in pairwise(names)]
            kept = min(found.sources.get(source.name, 1.0), *rates)
            sink = path[-1].spec
            assert isinstance(sink, SinkSpec)
            assert kept >= sink.min_accuracy
            samplings = [descriptor_of(node.spec).sampling(node.spec) for node in path[1:-1]]
            assert kept == 1.0 or Sampling.ALL_ROWS not in samplings
            carried = [item is Sampling.CARRIED for item in samplings]
            for place in (place for place, name in enumerate(names) if name in parted):
                assert all(carried[: max(place, 0)])


def test_a_source_that_was_read_so_is_never_shed() -> None:
    job = ps.Job()
    ps.read(Endless(), shed=False, job=job).write_black_hole().with_min_accuracy(0.5)
    ps.read_kafka("bids", kafka="nowhere:1", schema=FIELDS, shed=False, job=job).write_black_hole().with_min_accuracy(
        0.5
    )
    ps.read_iterable(list, schema=FIELDS, bounded=False, shed=False, job=job).write_black_hole().with_min_accuracy(0.5)
    assert points(job).reasons == {f"source-{number}": "it was read with shed=False" for number in (1, 2, 3)}
