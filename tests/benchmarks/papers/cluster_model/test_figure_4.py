"""Justin's Figure 4, on which the defaults of state are calibrated: which (tasks; MB) reach the target rate."""

import numpy as np
import pytest

from penstock.benchmarks.papers.cluster_model.keyed_state import KeyedState
from penstock.benchmarks.papers.cluster_model.parameters import default_parameters
from penstock.benchmarks.papers.cluster_model.spec import StateSpec
from penstock.model.memory_levels import MIB

KEYS = 1e6
MEMORY = (128, 256, 512, 1024, 2048)


def rate(tasks: int, mib: int, gets: float, puts: float) -> float:
    """Rows a second that so many tasks can do once their caches are warm; the mapper itself costs nothing."""
    given = {"gets": gets, "puts": puts, "new_key_share": 0.0, "initial_keys": KEYS, "retention_s": 1e12}
    spec = default_parameters().make(StateSpec, "state", **given)
    held = KeyedState(spec, np.full(128, 1 / 128), tasks)
    owners = np.arange(128) % tasks
    managed = np.full(tasks, float(mib * MIB))
    own = held.keys_of(owners, tasks)
    held.cached_keys[:] = np.minimum(own, held.room(managed, own))
    costs = held.costs(owners, managed)
    return float(np.minimum(1 / (costs.cpu_s + costs.wait_s), costs.most_per_s).sum())


def test_reads_reach_their_rate_with_memory_or_with_tasks() -> None:
    def read(tasks: int, mib: int) -> float:
        return rate(tasks, mib, 1.0, 0.0)

    assert read(4, 1024) >= 50_000 and read(8, 512) >= 50_000
    assert 0.85 * 50_000 < read(8, 256) < 50_000
    assert read(4, 512) < 50_000 and read(2, 2048) < 50_000 and read(8, 128) < 0.85 * 50_000
    for tasks in (1, 2, 4, 8):
        rates = [read(tasks, mib) for mib in MEMORY]
        assert rates == sorted(rates)


def test_writes_need_eight_tasks_and_no_memory_but_for_one_task_with_the_least() -> None:
    def write(tasks: int, mib: int) -> float:
        return min(50_000.0, rate(tasks, mib, 0.0, 1.0))

    assert write(8, 128) == 50_000 and max(write(4, mib) for mib in MEMORY) < 50_000
    for tasks in (1, 2, 4, 8):
        assert len({round(write(tasks, mib)) for mib in MEMORY[1:]}) == 1
    assert write(1, 128) < 0.9 * write(1, 256)
    assert write(8, 128) == write(8, 256)


def test_updates_need_eight_tasks_and_more_than_the_least_memory() -> None:
    def update(tasks: int, mib: int) -> float:
        return min(30_000.0, rate(tasks, mib, 1.0, 1.0))

    assert max(update(4, mib) for mib in MEMORY) < 30_000
    assert update(8, 128) < 30_000
    assert update(8, 512) == update(8, 1024) == update(8, 2048) == 30_000
    assert update(8, 256) == pytest.approx(30_000, rel=0.1)
