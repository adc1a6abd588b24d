"""Ray clusters of several raylets on this machine, which may be killed and joined by others, as nodes are.

The control store is with a raylet that has no CPU; each other one has a CPU, which is one task manager. All of it is in
processes of its own, with sockets and logs below a short path of its own, and with a token that only this run knows.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

LONG_S = 120.0

DEATH_IS_SEEN = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_worker_niceness": "0",
}
"""Ray counts a node as lost that has not answered for 3 s, and not for some 16 (docs/how-to/outlive-the-driver.md).

What follows begins with the priority of the raylet.
"""

_KEEPER = """
import json, sys
from ray.cluster_utils import Cluster

SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
print(json.dumps({"address": cluster.address}), flush=True)
for line in sys.stdin:
    node = cluster.add_node(num_cpus=1, **SMALL)
    (raylet,) = node.all_processes["raylet"]
    print(json.dumps({"pid": raylet.process.pid}), flush=True)
cluster.shutdown()
"""


@dataclass(frozen=True)
class Raylet:
    """A node of one CPU: its raylet, whose children are the workers of the node, and what else is there."""

    process: psutil.Process

    def workers(self, name: str) -> list[psutil.Process]:
        """Return the workers that live whose name, or command line, has this in it."""
        found = []
        for process in self.processes():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and name in " ".join([process.name(), *process.cmdline()]):
                    found.append(process)
        return found

    def lives(self) -> bool:
        """Return whether its raylet does."""
        with suppress(psutil.NoSuchProcess):
            return self.process.status() != psutil.STATUS_ZOMBIE
        return False

    def has_head(self) -> bool:
        """Return whether a head actor is here."""
        return bool(self.workers("HeadActor"))

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the node but its raylet."""
        with suppress(psutil.NoSuchProcess):
            return self.process.children(recursive=True)
        return []

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Let nothing of the node run meanwhile, as a machine that is moved; its raylet is the last to wake."""
        asleep = [self.process, *self.processes()]
        _signal(asleep, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(reversed(asleep), signal.SIGCONT)

    def kill(self, *, whole: bool) -> None:
        """Kill the raylet, with ``whole`` everything that it has started, too, as when a machine is lost."""
        others = self.processes() if whole else []
        _signal([self.process, *others], signal.SIGKILL)


@dataclass
class Raylets:
    """A cluster of several raylets: its address, and the process that has begun it."""

    address: str
    keeper: "subprocess.Popen[str]"
    environment: Mapping[str, str]

    def add(self) -> Raylet:
        """Let another raylet join."""
        assert self.keeper.stdin is not None
        self.keeper.stdin.write("add\n")
        self.keeper.stdin.flush()
        return Raylet(psutil.Process(_said(self.keeper, "pid")))

    def heads(self) -> list[psutil.Process]:
        """Return the head actors that live, on whichever node; one that has been replaced may be among them."""
        return Raylet(psutil.Process(self.keeper.pid)).workers("HeadActor")

    def kill(self) -> None:
        """Kill the control store and every raylet, with all that they have started, at once."""
        keeper = psutil.Process(self.keeper.pid)
        _signal([keeper, *keeper.children(recursive=True)], signal.SIGKILL)
        self.keeper.wait(LONG_S)


@contextmanager
def raylets(settings: Mapping[str, str] = DEATH_IS_SEEN) -> Iterator[Raylets]:
    """Yield a cluster of a control store without a CPU. Commands that are to enter it need its ``environment``."""
    # Unix sockets have short names.
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_TMPDIR": str(folder)}
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | token
    keeper = subprocess.Popen(
        [sys.executable, "-c", _KEEPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, **settings},
        start_new_session=True,
    )
    assert keeper.stdin is not None and keeper.stdout is not None
    try:
        yield Raylets(str(_said(keeper, "address")), keeper, environment)
    finally:
        with suppress(BrokenPipeError):
            keeper.stdin.close()
        try:
            keeper.wait(LONG_S)
        finally:
            keeper.stdout.close()
            shutil.rmtree(folder, ignore_errors=True)


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _said(keeper: "subprocess.Popen[str]", name: str) -> object:
    """Return what the keeper says next by this name; a word of the library may come first."""
    assert keeper.stdout is not None
    for line in keeper.stdout:
        with suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict) and name in said:
                return said[name]
    raise AssertionError("the cluster could not begin")
