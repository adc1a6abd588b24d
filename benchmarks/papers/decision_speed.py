"""How long each policy takes for one decision, decoding of the snapshot included (Stream-Economics, Figure 7).

``python -m penstock.benchmarks.papers.decision_speed [NAME ...]`` measures those of `POLICIES`, on one core.
"""

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.benchmarks.papers.large_snapshots import SIZES, Size, large_snapshot, waiting_snapshot
from penstock.benchmarks.papers.scaling_snapshots import scaling_snapshot
from penstock.model.plan import NoChange
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.snapshot_bytes import from_bytes, to_bytes
from penstock.scheduler.autoscaler import Autoscaler
from penstock.scheduler.ds2 import Ds2
from penstock.scheduler.justin import Justin
from penstock.scheduler.memory_choice import MemoryChoice
from penstock.scheduler.placement import TaskScheduler
from penstock.shedding import qod

SnapshotMaker = Callable[[Size], ClusterSnapshot]

POLICIES: dict[str, tuple[Policy[Any], SnapshotMaker]] = {
    "qod (paper)": (qod.PAPER, large_snapshot),
    "qod (penstock)": (qod.PENSTOCK, large_snapshot),
    "placement": (TaskScheduler(), waiting_snapshot),
    "ds2": (Ds2(), scaling_snapshot),
    "autoscaler": (Autoscaler(), scaling_snapshot),
    "justin": (Justin(), scaling_snapshot),
    "memory_choice": (MemoryChoice(), scaling_snapshot),
}
"""The policies that are timed, and the snapshots on which they have work."""

_REPEATS = {2_000: 300, 100_000: 30}


@dataclass(frozen=True, slots=True)
class Speed:
    """Milliseconds for a decision; `cpu_median_ms` counts only this process's own time on the core."""

    policy: str
    size: str
    median_ms: float
    p99_ms: float
    cpu_median_ms: float
    decision: str


def measure(name: str, size: Size, repeats: int) -> Speed:
    """Time a policy's first decision on a snapshot of this size, from its bytes.

    Raises:
        ValueError: the policy decided to do nothing, which is no work to be timed.
    """
    policy, make = POLICIES[name]
    packed = to_bytes(make(size))
    decision, _ = policy.decide(from_bytes(packed), policy.start())
    if isinstance(decision, NoChange):
        raise ValueError(f"{name} does nothing on {size.name}: {decision.reason}")
    walls, own = [], []
    gc.collect()
    for _ in range(repeats):
        began, began_own = time.perf_counter_ns(), time.process_time_ns()
        policy.decide(from_bytes(packed), policy.start())
        own.append(time.process_time_ns() - began_own)
        walls.append(time.perf_counter_ns() - began)
    p50, p99 = (float(np.percentile(walls, q)) / 1e6 for q in (50, 99))
    return Speed(
        name, size.name, p50, p99, float(np.median(own)) / 1e6, f"{type(decision).__name__}: {decision.reason}"
    )


def main(names: list[str]) -> None:
    """Print one line a policy and size."""
    print(f"{'policy':<16} {'instances':<26} {'median ms':>10} {'p99 ms':>10} {'CPU ms':>10}  decision")
    for name in names or list(POLICIES):
        for size in SIZES:
            speed = measure(name, size, _REPEATS[size.instances])
            print(
                f"{speed.policy:<16} {speed.size:<26} {speed.median_ms:>10.2f} {speed.p99_ms:>10.2f} "
                f"{speed.cpu_median_ms:>10.2f}  {speed.decision}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
