"""What load shedding knows of a job's plan: the shedders, and the priority of what is behind each."""

import penstock as ps
from penstock import col
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.shedding_scope import shedding_scope
from penstock.model.control import NO_LIMITS, Limits, QueryLimit
from penstock.model.execution_graph import ExecutionGraph


def _plan() -> ExecutionGraph:
    """Return a plan of two queries that part, and of one without a contract beside them."""
    job = ps.Job()
    rows = ps.read(SteadySource(1, keys=1), job=job).name("due").filter(col("key") >= 0).name("all")
    rows.select(x=col("key")).name("rough").write_black_hole().name("low").with_min_accuracy(0.3).with_priority(2)
    rows.select(y=col("key")).name("fine").write_black_hole().name("high").with_min_accuracy(0.6).with_priority(5)
    ps.read(SteadySource(1, keys=1), job=job).name("alone").write_black_hole().with_min_accuracy(0.5).with_priority(3)
    return job.plan(1)


def test_each_part_of_a_source_has_the_highest_priority_behind_it() -> None:
    shedders = shedding_scope(_plan(), NO_LIMITS).shedders
    assert {(part.edge, part.priority, part.minimum) for part in shedders.parts("due")} == {
        (("all", "rough"), 2.0, 0.3),
        (("all", "fine"), 5.0, 0.6),
    }
    assert [(part.edge, part.priority, part.minimum) for part in shedders.parts("alone")] == [(None, 3.0, 0.5)]


def test_a_priority_that_is_changed_while_a_job_runs_is_the_guards_too() -> None:
    shedders = shedding_scope(_plan(), Limits(queries={"low": QueryLimit(priority=9)})).shedders
    assert shedders.branch_priority == {("all", "rough"): 9.0, ("all", "fine"): 5.0}
