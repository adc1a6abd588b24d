"""Queries that share whatever is dropped of a source, and what a source is told that its records stand for."""

from pathlib import Path

import pytest

import penstock as ps
from penstock import col
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.shedding_scope import shedding_scope
from penstock.engine.control.sic_coordinator import sic_groups
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.query_routes import query_names
from penstock.model.config import LoopOptions
from penstock.model.control import NO_LIMITS, Control, ControlOptions
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.sic import SicGroup
from tests.contracts.executors.test_overload import DatedPeak


def _groups(graph: ExecutionGraph) -> tuple[SicGroup, ...]:
    names = query_names(graph.graph)
    return sic_groups(shedding_scope(graph, NO_LIMITS), names, {"due": (1.0,) * len(names)})


def _parting(*minimums: float) -> ExecutionGraph:
    job = ps.Job()
    rows = ps.read(SteadySource(1, keys=1), job=job).name("due").filter(col("key") >= 0).name("all")
    for number, minimum in enumerate(minimums):
        side = rows.select(x=col("key") + number).name(f"side {number}")
        side.write_black_hole().name(f"query {number}").with_min_accuracy(minimum)
    return job.plan(1)


def test_queries_that_part_are_groups_of_their_own() -> None:
    assert _groups(_parting(0.3, 0.6)) == (
        SicGroup("due", (0,), ("all>side 0",), 0.3),
        SicGroup("due", (1,), ("all>side 1",), 0.6),
    )


def test_queries_that_cannot_be_told_apart_are_one_group() -> None:
    assert _groups(_parting(0.3, 0.3)) == (SicGroup("due", (0, 1), (), 0.3),)


def test_a_query_without_a_contract_loses_nothing() -> None:
    whole, part = _groups(_parting(1.0, 0.3))
    assert (whole.queries, whole.branches, whole.minimum) == ((0,), (), 1.0)
    assert (part.queries, part.branches, part.minimum) == ((1,), ("all>side 1",), 0.3)


def test_what_is_sampled_by_keys_is_refused(tmp_path: Path) -> None:
    job = ps.Job()
    rows = ps.read(DatedPeak(), time="at", job=job).name("due").select("at", user=col("number") % 9)
    visits = rows.key_by("user").window(ps.session("1s")).agg(n=ps.count()).name("visits")
    visits.write_black_hole().name("found").with_min_accuracy(0.5)
    plan = JobPlan("sic", job.plan(1), LoopOptions(), tmp_path)
    with pytest.raises(OptionError, match="'qod' or 'both'"):
        start_control(plan, 0, ControlOptions(control=Control("sic", "act")), print)
    start_control(plan, 0, ControlOptions(control=Control("both", "act")), print).close()


def test_shedding_by_sic_only_acts() -> None:
    with pytest.raises(OptionError, match="nothing to recommend"):
        Control("sic")
