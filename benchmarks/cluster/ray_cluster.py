"""A local Ray cluster that runs meanwhile, with its dashboard, to which jobs come; and what its processes take."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

CPUS = 2
END_S = 60.0

HEAD_ACTOR, TASK_MANAGERS, RAY = "head actor", "task managers", "Ray"

_KEEPER = f"""
import sys
import ray
ray.init(address="local", num_cpus={CPUS}, include_dashboard=True, dashboard_port=int(sys.argv[1]), log_to_driver=False,
         logging_level="ERROR", object_store_memory=80 << 20)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster of one node: where its control store and its dashboard are, and the process that has begun it."""

    address: str
    dashboard: str
    keeper: psutil.Process

    def task_managers(self) -> list[psutil.Process]:
        """Return the processes of task managers that live."""
        return [process for process in self.keeper.children(recursive=True) if part_of(process) == TASK_MANAGERS]

    def head_actors(self) -> list[psutil.Process]:
        """Return the processes of head actors that live."""
        return [process for process in self.keeper.children(recursive=True) if part_of(process) == HEAD_ACTOR]

    def cpu_s(self) -> Mapping[str, float]:
        """Return the CPU seconds that its processes have used so far: of head actors, task managers, and Ray's own."""
        spent = dict.fromkeys((HEAD_ACTOR, TASK_MANAGERS, RAY), 0.0)
        parts: dict[int, str] = {}
        # Parents come before their children, which count as they do.
        for process in [self.keeper, *self.keeper.children(recursive=True)]:
            with suppress(psutil.Error):
                times = process.cpu_times()
                part = parts.get(process.ppid(), RAY)
                parts[process.pid] = part_of(process) if part == RAY else part
                spent[parts[process.pid]] += times.user + times.system
        return spent


def part_of(process: psutil.Process) -> str:
    """Return which part of a cluster a process is, as its name says."""
    try:
        name, line = process.name(), " ".join(process.cmdline())
    except psutil.Error:
        return RAY
    if name.startswith("penstock tm-"):
        return TASK_MANAGERS
    return HEAD_ACTOR if line.startswith("ray::HeadActor") else RAY


@contextmanager
def running_cluster() -> Iterator[RunningCluster]:
    """Yield a cluster of two CPUs, which this process and those that it starts may enter, unless RAY_AUTH_MODE is set.

    It takes jobs only where no other cluster of this machine has Ray's port 52365.
    """
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    scripts = str(Path(sys.executable).parent)
    keeper = subprocess.Popen(
        [sys.executable, "-c", _KEEPER, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Submitted jobs call penstock by its name.
        env={**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        start_new_session=True,
    )
    assert keeper.stdin is not None and keeper.stdout is not None
    try:
        # A word of the library may come first.
        address = next(line.strip() for line in keeper.stdout if ":" in line)
        yield RunningCluster(address, f"http://127.0.0.1:{port}", psutil.Process(keeper.pid))
    finally:
        keeper.stdin.close()
        keeper.wait(END_S)
        keeper.stdout.close()
