"""How the planner cuts a graph into tasks: chains, exchanges and parallelism."""

from collections.abc import Callable
from typing import Any

import penstock as ps
from penstock import col
from penstock.model.execution_graph import Edge
from penstock.model.expressions import column_name
from tests.engine.planning import edge, planned, told


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


def test_an_aggregate_by_more_keys_lies_by_those_its_rows_are_partitioned_by() -> None:
    for change, keys, lies_by in (
        (lambda s: s, ["s", "m"], ["s"]),
        (lambda s: s, ["m", "s"], ["s"]),
        (lambda s: s, [col("n") + 1, "s"], ["s"]),
        (lambda s: s.rename(s="key"), ["m", "key"], ["key"]),
    ):
        into = again(change, *keys)
        assert (into.exchange, into.chained) == ("forward", True)
        assert [column_name(key) for key in into.keys] == lies_by
    # It is so at any parallelism, or state could not be found at another one.
    for parallelism in (1, 2, 3):
        graph = planned(
            lambda s: s.key_by("s").agg(m=ps.max_("t")).key_by("s", "m").agg(n=ps.count()).collect(), parallelism
        )
        assert [column_name(key) for key in edge(graph, "agg-2").keys] == ["s"]


def test_what_an_aggregate_passes_on_is_partitioned_as_it_lies() -> None:
    def pipeline(stream: ps.Stream) -> Any:
        wide = stream.key_by("s").agg(m=ps.max_("t")).key_by("m", "s").agg(n=ps.count())
        return wide.key_by("n", "s").agg(k=ps.count()).key_by("n").agg(k=ps.count()).collect()

    graph = planned(pipeline, parallelism=2)
    assert [edge(graph, f"agg-{number}").exchange for number in (2, 3, 4)] == ["forward", "forward", "hash"]


def test_a_second_aggregate_by_another_key_is_exchanged() -> None:
    for change, keys in (
        (lambda s: s, ["m"]),
        (lambda s: s, [col("s").str.lower(), "m"]),
        (lambda s: s, [col("s").str.lower()]),
        (lambda s: s.with_columns(s=col("s").str.lower()), ["s"]),
        (lambda s: s.rename(s="m", m="s"), ["s"]),
        (lambda s: s.map(lambda row: row), ["s"]),
        (lambda s: s.rebalance().filter(col("n") > 1), ["s"]),
        (lambda s: s.filter(col("n") > 1).parallelism(3), ["s"]),
        (lambda s: s.filter(col("n") > 1).parallelism(3), ["s", "m"]),
    ):
        into = again(change, *keys)
        assert (into.exchange, len(into.keys)) == ("hash", len(keys))


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


def test_late_rows_are_not_partitioned_by_a_key_of_the_same_name() -> None:
    def pipeline(stream: ps.Stream) -> Any:
        windows = stream.key_by(a=col("b")).window(ps.tumbling("1s")).agg(n=ps.count())
        return windows.side_output("late").key_by("a").agg(n=ps.count()).collect()

    assert edge(planned(pipeline, parallelism=2, time="at"), "agg-2").exchange == "hash"
