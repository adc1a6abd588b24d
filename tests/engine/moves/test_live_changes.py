"""Changes of parallelism to which a job comes while it runs: of sources, too, where chains stay as they are."""

import penstock as ps
from penstock import col, count
from penstock.engine.moves.live_changes import LiveChange, live_change
from penstock.engine.plan.planner import plan
from penstock.engine.plan.recut import recut
from penstock.engine.restore.key_group_owners import owner_tables
from penstock.model.execution_graph import ExecutionGraph


def counted(parallelism: int, *, apart: bool = False) -> ExecutionGraph:
    job = ps.Job()
    rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=10), watermark="1s", job=job).name("rows")
    some = rows.filter(col("auction") > 0).name("some")
    some.key_by("auction").agg(seen=count()).name("counts").write_black_hole(mode="changelog").name("out")
    return plan(job.graph, parallelism, apart=apart)


GRAPH = counted(2)


def to(graph: ExecutionGraph, **parallelism: int) -> LiveChange | str:
    return live_change(graph, recut(graph, parallelism, 16))


def test_a_source_gets_instances_with_what_it_is_chained_to() -> None:
    change = to(GRAPH, rows=3)
    assert isinstance(change, LiveChange)
    (source,) = change.sources()
    assert (change.new(), change.leaving()) == (("rows -> some[2]",), ())
    assert len(change.wide.instances(source)) == len(change.staying(source.id)) == 3
    narrower = to(change.after, rows=1)
    assert isinstance(narrower, LiveChange)
    assert narrower.leaving() == ("rows -> some[1]", "rows -> some[2]")
    assert narrower.staying(source.id) == ("rows -> some[0]",)


def test_no_partition_changes_its_instance_where_no_source_changes() -> None:
    change = to(GRAPH, counts=3)
    assert isinstance(change, LiveChange) and change.sources() == ()


def test_where_a_chain_is_parted_all_begins_anew() -> None:
    for wanted in ({"some": 3}, {"rows": 1, "counts": 1}):
        assert to(GRAPH, **wanted) == "other operators are chained then, or rows go by other ways"


def test_what_is_single_on_task_managers_gets_instances_and_has_one_again() -> None:
    single = counted(1, apart=True)
    for wanted, new in (({"counts": 2}, "counts -> out[1]"), ({"rows": 2}, "rows -> some[1]")):
        wider = to(single, **wanted)
        assert isinstance(wider, LiveChange) and wider.new() == (new,)
        narrower = to(wider.after, **dict.fromkeys(wanted, 1))
        assert isinstance(narrower, LiveChange) and narrower.leaving() == (new,)
        assert narrower.after.tasks == single.tasks
    owners = owner_tables(single, 16, {})
    wider = to(single, counts=2)
    assert isinstance(wider, LiveChange)
    ((_, groups),) = wider.moves(owners)
    assert len(groups) == 8 and {(giver, taker) for _, giver, taker in groups} == {(0, 1)}


def test_key_groups_are_dealt_out_by_their_loads() -> None:
    graph, loads = counted(2, apart=True), [1.0] * 15 + [15.0]
    counts = next(task.id for task in graph.tasks if "counts" in graph.name(task))
    after = recut(graph, {"counts": 3}, 16)
    change = live_change(graph, after, loads={counts: loads})
    by_number = live_change(graph, after, loads={counts: loads[1:]})
    assert isinstance(change, LiveChange) and isinstance(by_number, LiveChange)
    owners = owner_tables(graph, 16, {})
    ((lead, groups),) = change.moves(owners)
    # The second instance had the heavy one and seven others; without it all have about as much.
    assert lead == counts and groups == ((15, 1, 2),)
    ((_, groups),) = by_number.moves(owners)
    assert len(groups) == 5


def test_what_is_single_in_one_process_is_chained_to_what_feeds_it() -> None:
    assert to(counted(1), counts=2) == "other operators are chained then, or rows go by other ways"


def test_what_keeps_no_keys_stays_single_while_its_producers_get_instances() -> None:
    job = ps.Job()
    rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=10), watermark="1s", job=job).name("rows")
    counts = rows.key_by("auction").window(ps.tumbling("1s")).agg(n=count()).name("counts")
    counts.window(ps.tumbling("1s")).agg(most=ps.max_("n")).name("most").write_black_hole().name("out")
    single = plan(job.graph, 1, apart=True)
    assert [single.name(task) for task in single.tasks] == ["rows", "counts", "most -> out"]
    wider = to(single, counts=2)
    assert isinstance(wider, LiveChange) and wider.new() == ("counts[1]",)
