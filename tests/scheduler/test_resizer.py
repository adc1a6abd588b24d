"""The resizer: whole containers, never less than was asked unless it says so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.plan import ApplicationSize
from penstock.scheduler.resizer import GIB, Allocation, ContainerLimits, Host, resize
from tests.papers_cases import cases

MANY = [Host(64.0, 256 * GIB)] * 100


def test_the_papers_examples() -> None:
    memory = resize(Allocation(10.0, 100 * GIB, 50 * GIB, 20), ContainerLimits(), MANY)
    assert (memory.count, memory.memory_bytes, memory.clipped) == (25, 4 * GIB, ())
    threads = resize(Allocation(500.0, 100 * GIB, 50 * GIB, 2000), ContainerLimits(), MANY)
    assert (threads.count, threads.threads, threads.clipped) == (125, 16, ())


def test_what_is_cut_is_said() -> None:
    limits = ContainerLimits(quota_cores=4.0, quota_memory_bytes=8 * GIB)
    cut = resize(Allocation(10.0, 100 * GIB, 50 * GIB, 20), limits, MANY)
    assert cut.clipped == (
        "cores: 10 asked, the quota is 4",
        f"memory_bytes: {100 * GIB:g} asked, the quota is {8 * GIB:g}",
    )
    assert cut.size == (4.0, 8 * GIB, 8 * GIB, 20)
    few = resize(Allocation(4.0, 16 * GIB, 8 * GIB, 4), ContainerLimits(), [Host(8.0, 9 * GIB)])
    assert (few.count, few.clipped) == (2, ("containers: 4 asked, 2 fit the cluster",))


def test_fragments_take_smaller_containers() -> None:
    found = resize(Allocation(2.0, 4 * GIB, 2 * GIB, 8), ContainerLimits(), [Host(1.0, 1.5 * GIB)] * 4)
    assert found.clipped == () and found.count * found.memory_bytes == 4 * GIB and found.memory_bytes <= 1.5 * GIB
    with pytest.raises(ValueError, match="no host has"):
        resize(Allocation(2.0, 4 * GIB, 2 * GIB, 1), ContainerLimits(), [Host(1.0, GIB)])


def test_a_heap_takes_its_memory_along() -> None:
    size = Allocation(4.0, 8 * GIB, 4 * GIB, 8)
    assert size.after(ApplicationSize(0, heap_bytes=9 * GIB)) == Allocation(4.0, 9 * GIB, 9 * GIB, 8)
    assert size.after(ApplicationSize(0, threads=3)) == Allocation(4.0, 8 * GIB, 4 * GIB, 3)
    with pytest.raises(ValueError, match="at least 1 thread"):
        ContainerLimits(threads=0)


@settings(max_examples=cases())
@given(st.integers(0, 2**32 - 1))
def test_capacity_is_what_was_asked_or_it_is_said(seed: int) -> None:
    random = np.random.default_rng(seed)
    hosts = [Host(float(c), float(m) * GIB) for c, m in random.uniform([2, 2], [32, 64], (random.integers(1, 12), 2))]
    size = Allocation(
        float(random.uniform(0.1, 100)), float(random.uniform(0.1, 200)) * GIB, GIB / 10, int(random.integers(1, 400))
    )
    quota = float(random.uniform(1, 150)) if random.random() < 0.3 else None
    limits = ContainerLimits(4 * GIB, int(random.integers(1, 32)), quota_cores=quota)
    try:
        found = resize(size, limits, hosts)
    except ValueError:
        return
    cores, memory, heap, threads = found.size
    assert found.memory_bytes <= limits.memory_bytes * (1 + 1e-9) and found.threads <= limits.threads
    if not found.clipped:
        assert cores >= size.cores * (1 - 1e-9) and memory >= size.memory_bytes * (1 - 1e-9)
        assert heap >= size.heap_bytes * (1 - 1e-9) and threads >= size.threads
    assert cores <= sum(host.cores for host in hosts) * (1 + 1e-6)
    assert memory <= sum(host.memory_bytes for host in hosts) * (1 + 1e-6)
