"""Where the planner puts shedders behind a source whose queries part."""

import penstock as ps
from penstock import col
from penstock.engine.plan.branch_shedders import branches_behind, shed_branches
from penstock.engine.plan.shedding_points import shedding_points
from penstock.model.job_graph import BranchSpec
from tests.engine.plan.test_shedding_points import rows


def test_branches_have_shedders_and_what_parts_from_the_way_to_them_loses_its_steps() -> None:
    job = ps.Job()
    some = rows(job).name("all").filter(col("paid") > 3).name("some")
    some.select("key").name("keys").write_black_hole().name("whole")
    few = some.select("key", "paid").name("few")
    few.filter(col("paid") > 9).name("dear").write_black_hole().name("rough").with_min_accuracy(0.3)
    few.filter(col("paid") < 9).name("cheap").write_black_hole().name("fine").with_min_accuracy(0.5)
    graph = job.plan(2).graph
    specs = {node.name: node.spec for node in graph.operators.values() if isinstance(node.spec, BranchSpec)}
    assert specs == {
        "some>keys": BranchSpec(("some", "keys"), None, True),
        "some>few": BranchSpec(("some", "few"), 2, False),
        "few>dear": BranchSpec(("few", "dear"), 1, True),
        "few>cheap": BranchSpec(("few", "cheap"), 0, True),
    }
    (source,) = [node.id for node in graph.operators.values() if node.name == "all"]
    assert branches_behind(graph, source) == ("few>cheap", "few>dear", "some>few")
    # A plan with shedders has the points of one without.
    assert shed_branches(graph) == set(shedding_points(graph).branches)


def test_an_exchange_comes_behind_the_shedder() -> None:
    job = ps.Job()
    source = rows(job).name("all")
    source.write_black_hole().name("whole")
    source.rebalance().select("key").name("keys").write_black_hole().name("rough").with_min_accuracy(0.3)
    plan = job.plan(2)
    ids = {node.name: node.id for node in plan.graph.operators.values()}
    (edge,) = plan.incoming(ids["keys"])
    assert (edge.producer, edge.exchange) == (ids["all>keys"], "rebalance")
    assert plan.task_of(ids["all"]) is plan.task_of(ids["all>keys"])


def test_queries_of_one_contract_have_none() -> None:
    job = ps.Job()
    source = rows(job)
    for name in ("one", "two"):
        source.select("key").write_black_hole().name(name).with_min_accuracy(0.3)
    assert not shed_branches(job.plan().graph)
