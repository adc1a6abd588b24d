"""Instances that are hosted together: what was taken down is not closed, counted or committed with the rest."""

from pathlib import Path

import pyarrow as pa

import penstock as ps
from penstock.engine.core.clock import SystemClock
from penstock.engine.dataflow.attempt_start import FIRST
from penstock.engine.dataflow.worker import Done, Ran
from penstock.engine.executors.hosted_instances import HostedInstances, HostOptions, Surroundings
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.regions import regions
from penstock.model.config import LoopOptions


def test_a_region_that_went_elsewhere_writes_nothing_here(tmp_path: Path) -> None:
    job = ps.Job()
    for side in ("left", "right"):
        rows = ps.read_memory(pa.table({"id": range(100)}), job=job).name(side)
        rows.key_by("id").agg(n=ps.count()).collect().name(f"{side} counts")
        rows.write_parquet(tmp_path / side).name(f"{side} out")
    plan = JobPlan("halves", job.plan(2), LoopOptions(), tmp_path / "job")
    left, right = regions(plan.graph)
    around = Surroundings(SystemClock(), lambda instance: None, lambda record: None)
    hosted = HostedInstances(plan, HostOptions(), around)
    hosted.begin(hosted.add(plan, FIRST), 1)
    while isinstance(hosted.worker.step(), Ran):
        pass
    assert hosted.release(left) == []
    assert set(hosted.build.tasks) == right
    operators = {operator for task in plan.graph.tasks if task.id in right for operator in task.operators}
    assert set(hosted.build.counters) == operators and set(hosted.build.stores) <= operators
    assert all(edge.producer in operators for edge in [*hosted.build.senders, *hosted.build.receivers])
    assert isinstance(hosted.worker.step(), Done)
    hosted.close(drained=True)
    hosted.close_scratch()
    assert not list((tmp_path / "left").glob("*.parquet"))
    assert list((tmp_path / "right").glob("*.parquet"))
