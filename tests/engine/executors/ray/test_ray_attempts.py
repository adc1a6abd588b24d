"""A job on actors of Ray, from its rows in memory to its rows in memory, and what is left of it."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.engine.core.clock import SystemClock
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.executors.managers.managed_options import ManagedOptions
from penstock.engine.executors.ray.attempts import RayOptions, ray_attempts
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.transport.addresses import Transport
from penstock.model.config import LoopOptions
from tests.contracts.executors.metered import until
from tests.ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


@pytest.mark.parametrize("transport", [None, Transport.TCP], ids=["ring", "tcp"])
def test_rows_cross_actors_and_come_back(on_ray: RayCluster, tmp_path: Path, transport: Transport | None) -> None:
    job = ps.Job()
    rows = [{"key": number % 5, "value": number} for number in range(1_000)]
    result = ps.read_memory(rows, job=job).key_by("key").agg(total=ps.sum_("value")).collect()
    plan = JobPlan("sums", job.plan(2, apart=True), LoopOptions(batch_rows=100), tmp_path)
    managed = ManagedOptions(HostOptions(), BadRecords())
    context = AttemptContext(SystemClock())
    with context.resources:
        attempt = ray_attempts(RayOptions(2, managed, transport=transport))(plan, context, AttemptStart())
        assert len(on_ray.task_managers()) == 2
        assert attempt.proceed(lambda: not attempt.is_up(), None, None) is None
        attempt.finish()
    until(lambda: not on_ray.task_managers())
    sums = {row["key"]: row["total"] for row in result.rows()}
    assert sums == {key: sum(row["value"] for row in rows if row["key"] == key) for key in range(5)}
