"""The sizes that would have carried the target: the bound of what any policy could end with (beside Justin, Figure 5).

Told from the state as it was at the end of a run, with warm caches; no policy knows it.
"""

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.keyed_state import KeyedState
from penstock.model.memory_levels import MIB
from penstock.scheduler.autoscaler_rules import aligned_parallelism
from penstock.scheduler.memory_choice import BUDGETS


def least_budgets(cluster: Cluster, task: int, rate: float) -> tuple[tuple[int, int], ...]:
    """Return, for each number of instances that is aligned with key groups, the least of `BUDGETS` that carries.

    Pairs of instances and MiB; numbers of instances that carry the rate with no budget are left out.
    """
    budgets = []
    groups = float(cluster.spec.tasks[task].key_groups)
    for instances in range(1, round(groups) + 1):
        if aligned_parallelism(np.array([float(instances)]), np.array([groups]), np.array([groups]))[0] != instances:
            continue
        enough = [budget for budget in BUDGETS if capacity(cluster, task, instances, budget) >= rate]
        budgets += [(instances, round(enough[0] / MIB))] if enough else []
    return tuple(budgets)


def capacity(cluster: Cluster, task: int, instances: int, managed_bytes: float) -> float:
    """Return the rows a second that a stateful task takes: those with which its first instance is always busy.

    min over i of min(1 / (c + b + s_i), f_i) / q_i
      c, b   a row's work, and its part of a full batch (s)
      s_i    its accesses, with a cache that holds what it has room for (s)
      f_i    rows a second that flushes allow
      q_i    part of the rows that come to instance i
    """
    spec, now = cluster.spec.tasks[task], cluster.states[task]
    state = KeyedState(now.spec, np.ones(len(now.keys)), instances)
    state.keys = now.keys
    owners = np.arange(len(now.keys)) * instances // len(now.keys)
    own, managed = state.keys_of(owners, instances), np.full(instances, float(managed_bytes))
    state.cached_keys = np.minimum(own, state.room(managed, own))
    access = state.costs(owners, managed)
    cost_s = spec.cpu_s + spec.batch_cpu_s / spec.batch_rows + access.cpu_s + access.wait_s
    share = np.bincount(owners, minlength=instances) / len(owners)
    return float((np.minimum(1 / cost_s, access.most_per_s) / share).min())
