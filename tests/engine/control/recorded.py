"""A recorded job: what its head sees of it each second."""

from dataclasses import replace

from penstock.model.snapshot import ClusterSnapshot
from tests.scheduler.scaling_jobs import Job, Task, measured


def second(number: int, target: float = 50.0) -> ClusterSnapshot:
    """Return what a head sees of a job in one second: a task that takes 100 rows/s of what it is offered."""
    job = Job([Task("lines", None), Task("count", 100.0)], [(0, 1, 1.0)], target)
    return replace(measured(job, time_s=float(number), window_s=1.0), number=number)
