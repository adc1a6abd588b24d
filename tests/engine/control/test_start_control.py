"""At the start it is said what controllers cannot do for a job."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.control.start_control import start_control
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph
from tests.engine.control.simulated_stream import one_query


def said(graph: ExecutionGraph, control: Control, folder: Path, state_bytes: int | None = None) -> list[str]:
    warned: list[str] = []
    plan = JobPlan("shop", graph, LoopOptions(state_bytes=state_bytes), folder)
    start_control(plan, 0, ControlOptions(folder / "actions.jsonl", control), warned.append).close()
    return warned


def test_to_act_without_any_contract_is_said_to_be_idle(tmp_path: Path) -> None:
    (sentence,) = said(one_query(1.0), Control("qod", "act"), tmp_path)
    assert sentence.startswith("NOTHING IS SHED: no query of the job allows it; write .with_min_accuracy(0.7)")


def test_sources_that_may_not_be_shed_are_named_with_their_reasons(tmp_path: Path) -> None:
    job = ps.Job()
    ps.read_memory([{"a": 1}], job=job).name("list").write_black_hole().with_min_accuracy(0.5)
    (sentence,) = said(job.plan(1), Control("qod", "act"), tmp_path)
    assert sentence.startswith("NOTHING IS SHED: source 'list': it ends by itself")


def test_nothing_is_said_where_rows_may_be_shed_or_nobody_acts(tmp_path: Path) -> None:
    assert said(one_query(), Control("qod", "act"), tmp_path) == []
    assert said(one_query(1.0), Control("qod", "recommend"), tmp_path) == []


@pytest.mark.parametrize("scale", ["ds2", "justin", "flink-er", "autoscaler"])
def test_a_quota_of_memory_needs_state_that_has_a_bound(scale: str, tmp_path: Path) -> None:
    job = ps.Job()
    rows = ps.read_memory([{"a": 1}], job=job)
    rows.key_by("a").agg(n=ps.count()).write_black_hole(mode="changelog")
    quota = Control(scale=scale, cores=8, memory="1MB")
    with pytest.raises(OptionError, match=f"memory='1MB' with scale='{scale}' bounds the memory of state") as refused:
        said(job.plan(1), quota, tmp_path)
    assert "state_bytes=64_000_000, or leave memory= out" in str(refused.value)
    assert said(job.plan(1), quota, tmp_path, state_bytes=1_000_000) == []
    assert said(job.plan(1), Control(scale=scale, cores=8), tmp_path) == []
    assert said(one_query(), quota, tmp_path) == [], "there is no state"


def test_who_chooses_memory_needs_state_that_has_a_bound(tmp_path: Path) -> None:
    job = ps.Job()
    rows = ps.read_memory([{"a": 1}], job=job)
    rows.key_by("a").agg(n=ps.count()).write_black_hole(mode="changelog")
    choosing = Control(scale="memory-choice", cores=8)
    with pytest.raises(OptionError, match="scale='memory-choice' sizes the memory of state, which has no bound here"):
        said(job.plan(1), choosing, tmp_path)
    assert said(job.plan(1), choosing, tmp_path, state_bytes=1_000_000) == []
    assert said(one_query(), choosing, tmp_path) == [], "there is no state"


def test_a_job_that_acts_keeps_a_log_of_its_own_where_none_is_named(tmp_path: Path) -> None:
    def kept(control: Control | None, own: Path, named: Path | None = None) -> list[str]:
        warned: list[str] = []
        plan = JobPlan("shop", one_query(), LoopOptions(), tmp_path)
        start_control(plan, 0, ControlOptions(named, control, own), warned.append).close()
        return warned

    own, named = tmp_path / "job" / "actions.jsonl", tmp_path / "named.jsonl"
    assert kept(None, own) == kept(Control("qod", "recommend"), own) == kept(Control("qod", "act"), own, named) == []
    assert not own.exists() and named.exists()
    with pytest.raises(OptionError, match="its recommendations go to the action log"):
        kept(Control(scale="ds2"), own)
    assert kept(Control("qod", "act"), own) == [] and own.exists()
    # Who sheds acts, so that there is one for who recommends, too.
    assert kept(Control("qod", "shed", scale="ds2"), own) == []
    named.write_text("no log\n")
    (sentence,) = kept(Control("qod", "act"), named)
    assert sentence.startswith("NO ACTION LOG: ") and sentence.endswith("as action_log='FILE' (--action-log FILE)")
    (sentence,) = kept(Control("qod", "act"), named / "actions.jsonl")
    assert sentence.startswith("NO ACTION LOG: ")
