"""The plan of a running job with other numbers of instances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock import col, count
from penstock.engine.plan.recut import instances_by_name, recut
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph

KEY_GROUPS = 32


def shop() -> ps.Job:
    """Read, filter, count by key, write; and a total, which has one instance."""
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(), job=job).name("bids")
    dear = bids.filter(col("price") > 100).name("dear")
    counts = dear.key_by("auction").window(ps.tumbling("1s")).agg(n=count()).name("counts")
    counts.write_black_hole().name("out")
    dear.window(ps.tumbling("1s")).agg(n=count()).name("total").write_black_hole().name("sum")
    return job


def shape(graph: ExecutionGraph) -> list[tuple[str, int, str, bool]]:
    """Return what can be compared of plans that were made apart."""
    return [
        (graph.name(task), task.parallelism, edge.exchange, edge.chained)
        for edge in graph.edges
        for task in (graph.task_of(edge.consumer),)
    ]


@given(st.integers(1, 5), st.dictionaries(st.sampled_from(["bids", "dear", "counts", "out"]), st.integers(1, 5)))
def test_it_is_the_plan_of_a_pipeline_that_says_so_itself(parallelism: int, wanted: dict[str, int]) -> None:
    job = shop()
    before = job.plan(parallelism)
    for node in list(job.graph.operators.values()):
        if node.name in wanted:
            job.change(node.id, parallelism=wanted[node.name])
    expected = job.plan(parallelism)
    if instances_by_name(expected) == instances_by_name(before):
        with pytest.raises(OptionError, match="nothing would change"):
            recut(before, wanted, KEY_GROUPS)
        return
    after = recut(before, wanted, KEY_GROUPS)
    assert shape(after) == shape(expected)
    # Back again, whatever was said before.
    back = {name: count for name, count in instances_by_name(before).items() if name != "total"}
    assert instances_by_name(recut(after, back, KEY_GROUPS)) == instances_by_name(before)


def test_what_stays_with_the_caller_stays_a_task_of_its_own() -> None:
    job = ps.Job()
    rows = ps.read_iterable(lambda: [{"key": 1}], schema={"key": int}, job=job).name("rows")
    rows.key_by("key").agg(n=count()).name("counts").collect().name("out")
    planned = job.plan(2, apart=True)
    names = [planned.name(task) for task in planned.tasks]
    after = recut(planned, {"counts": 3}, KEY_GROUPS)
    assert [after.name(task) for task in after.tasks] == names and after.apart


@pytest.mark.parametrize("apart", [False, True])
def test_a_task_that_has_no_state_does_not_follow_the_one_that_feeds_it(apart: bool) -> None:
    """A scaler names tasks, and one that it does not name stays."""
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(), job=job).name("bids").parallelism(2)
    looked = bids.rebalance().filter(col("price") > 100).name("looked")
    looked.select("auction").name("auctions").write_black_hole().name("out")
    planned = job.plan(2, apart=apart)
    after = recut(planned, {"bids": 1}, KEY_GROUPS)
    assert instances_by_name(after) == {"bids": 1, "looked": 2, "auctions": 2, "out": 2}
    assert [after.name(task) for task in after.tasks] == [planned.name(task) for task in planned.tasks]
    more = recut(planned, {"looked": 4}, KEY_GROUPS)
    assert instances_by_name(more) == {"bids": 2, "looked": 4, "auctions": 4, "out": 4}


def test_what_cannot_be_is_refused() -> None:
    planned = shop().plan(2)
    for wanted, sentence in (
        ({"totals": 2}, "there is no operator 'totals'"),
        ({"counts": 0}, "1 is the least"),
        ({"counts": KEY_GROUPS + 1}, "the job has 32 key groups"),
        ({"total": 2}, "has no key, so it runs in one instance, not 2"),
    ):
        with pytest.raises(OptionError, match=sentence):
            recut(planned, wanted, KEY_GROUPS)


def test_who_needs_resources_stays_where_it_has_them() -> None:
    job = shop()
    node = next(node for node in job.graph.operators.values() if node.name == "counts")
    job.change(node.id, resources=(("GPU", 1.0),))
    with pytest.raises(OptionError, match="'counts' needs resources of its own"):
        recut(job.plan(2), {"counts": 3}, KEY_GROUPS)


def test_a_join_with_a_broadcast_side_stays_as_it_is() -> None:
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(), job=job).name("bids").select("auction", "price")
    auctions = ps.read_nexmark("auction", ps.NexmarkConfig(), job=job).name("auctions").select(auction=col("id"))
    bids.join(auctions.broadcast(), on="auction").name("joined").write_black_hole(mode="changelog").name("out")
    with pytest.raises(OptionError, match="'joined' meets a broadcast side"):
        recut(job.plan(2), {"joined": 3}, KEY_GROUPS)
