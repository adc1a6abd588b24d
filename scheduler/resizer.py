"""Translation of requested sizes into containers that a cluster can provide (docs/design/papers/sage.md 4).

Sizes are rounded up to whole containers, and cut to what a host, a quota and the free part of the cluster allow; cuts
are reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from penstock.model.plan import ApplicationSize

GIB = float(1 << 30)


@dataclass(frozen=True, slots=True)
class Host:
    """Free resources of a machine."""

    cores: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """The most memory and threads of one container (as many as a host has cores), and an application's quotas.

    None: no quota.
    """

    memory_bytes: float = 4 * GIB
    threads: int = 16
    quota_cores: float | None = None
    quota_memory_bytes: float | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes <= 0 or self.threads < 1:
            raise ValueError("a container has more than 0 bytes and at least 1 thread")


@dataclass(frozen=True, slots=True)
class Containers:
    """The allocation of an application: equal containers.

    ``clipped`` names every resource that was cut, with the requested and the granted amount; empty: none was.
    """

    count: int
    cores: float
    memory_bytes: float
    heap_bytes: float
    threads: int
    clipped: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[float, float, float, int]:
        """Cores, memory, heap and threads of all containers."""
        return (
            self.count * self.cores,
            self.count * self.memory_bytes,
            self.count * self.heap_bytes,
            self.count * self.threads,
        )


@dataclass(frozen=True, slots=True)
class Allocation:
    """The total size of an application."""

    cores: float
    memory_bytes: float
    heap_bytes: float
    threads: int

    def after(self, change: ApplicationSize) -> "Allocation":
        """Return the size after a decision's change; memory grows with a heap that would not fit."""
        heap = self.heap_bytes if change.heap_bytes is None else change.heap_bytes
        memory = self.memory_bytes if change.memory_bytes is None else change.memory_bytes
        return Allocation(
            self.cores if change.cores is None else change.cores,
            max(memory, heap),
            heap,
            self.threads if change.threads is None else change.threads,
        )


def resize(size: Allocation, limits: ContainerLimits, hosts: Sequence[Host]) -> Containers:
    """Return containers for a size: 100 GB become 25 of 4 GB, 2,000 threads 125 of 16.

    ``hosts``: resources available to this application, its present ones included. Containers are equal, so their
    number is the least that keeps each within its limits; it is cut to the number that fits the hosts.

    Raises:
        ValueError: there is no host on which one container fits.
    """
    clipped: list[str] = []
    cores = _cut("cores", size.cores, limits.quota_cores, clipped)
    memory = _cut("memory_bytes", size.memory_bytes, limits.quota_memory_bytes, clipped)
    heap = min(size.heap_bytes, memory)
    count = max(ceil(memory / limits.memory_bytes - 1e-9), ceil(size.threads / limits.threads), 1)
    one = Host(cores / count, memory / count)
    fitting = _fitting(one, hosts)
    while fitting == 0 and count < size.threads:
        # Smaller ones may fit into fragments.
        count += 1
        one = Host(cores / count, memory / count)
        fitting = _fitting(one, hosts)
    if fitting == 0:
        raise ValueError(f"no host has {one.cores:g} cores and {one.memory_bytes:,.0f} bytes free for one container")
    fitted = min(count, fitting)
    threads = ceil(size.threads / count)
    if fitted < count:
        clipped.append(f"containers: {count} asked, {fitted} fit the cluster")
    return Containers(fitted, one.cores, one.memory_bytes, heap / count, threads, tuple(clipped))


def _cut(name: str, requested: float, quota: float | None, clipped: list[str]) -> float:
    if quota is None or requested <= quota:
        return requested
    clipped.append(f"{name}: {requested:g} asked, the quota is {quota:g}")
    return quota


def _fitting(one: Host, hosts: Sequence[Host]) -> int:
    """Return how many equal containers fit; both dimensions count."""
    return sum(min(_times(host.cores, one.cores), _times(host.memory_bytes, one.memory_bytes)) for host in hosts)


def _times(free: float, each: float) -> int:
    return 1 << 30 if each <= 0 else int(free / each + 1e-9)
