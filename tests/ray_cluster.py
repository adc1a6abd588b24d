"""One Ray cluster for all tests of a run that need one, in a process of its own, so that nothing of it is a child."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from penstock.engine.executors.ray.actor import TaskManagerActor

CPUS = 6
"""More than the machine has, perhaps: Ray counts them, and gives none."""

LENSES = 2
"""How many of a resource there are that tests ask for by this name."""

ENDED_WITHIN_S = 120.0
"""Longer than task managers live that have no head."""

_PIPE = subprocess.PIPE

_KEEPER = f"""
import sys
import ray
ray.init(address="local", num_cpus={CPUS}, resources={{"lens": {LENSES}}}, include_dashboard=False,
         log_to_driver=False, logging_level="ERROR", object_store_memory=80 << 20)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""


GROUP = "ray"
"""The group of tests that run on the cluster, all by one worker."""


def is_on_ray(item: pytest.Item) -> bool:
    """Return whether a test has a parameter that begins with the name of the executor."""
    call = getattr(item, "callspec", None)
    return call is not None and GROUP in re.split(r"[^a-z]", call.id)


@dataclass(frozen=True)
class RayCluster:
    """A cluster of one node: its address, and the process that keeps it."""

    address: str
    keeper: psutil.Process

    def task_managers(self) -> list[psutil.Process]:
        """Return the processes of task managers that live."""
        return [process for process in self.keeper.children(recursive=True) if _is_task_manager(process)]


def _is_task_manager(process: psutil.Process) -> bool:
    try:
        return any(TaskManagerActor.__name__ in argument for argument in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Return a cluster that only this run of the tests can enter."""
    keeper = subprocess.Popen(
        [sys.executable, "-c", _KEEPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdin is not None and keeper.stdout is not None
    try:
        # A word of the library may come first.
        address = next(line.strip() for line in keeper.stdout if ":" in line)
        yield RayCluster(address, psutil.Process(keeper.pid))
    finally:
        keeper.stdin.close()
        keeper.wait(60)
        keeper.stdout.close()


@pytest.fixture(scope="session")
def connected_to_ray(ray_cluster: RayCluster) -> Iterator[RayCluster]:
    """Connect this process to the cluster meanwhile, as a program that has begun Ray itself."""
    import ray

    ray.init(address=ray_cluster.address, namespace="penstock", logging_level="ERROR", log_to_driver=False)
    yield ray_cluster
    ray.shutdown()


@pytest.fixture
def on_ray(connected_to_ray: RayCluster) -> RayCluster:
    """Return the cluster once nothing is left of the tests before: task managers may end after their test."""
    pause, until_s = threading.Event(), time.monotonic() + ENDED_WITHIN_S
    while left := connected_to_ray.task_managers():
        assert time.monotonic() < until_s, left
        pause.wait(0.02)
    return connected_to_ray
