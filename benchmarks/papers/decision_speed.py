"""Time of one decision by each policy, decoding of the snapshot included (Stream-Economics, Figure 7).

``python -m penstock.benchmarks.papers.decision_speed [NAME ...]`` measures those of `POLICIES`, on one core.
"""

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.benchmarks.papers.flow_snapshots import flow_snapshot
from penstock.benchmarks.papers.large_snapshots import SIZES, SnapshotSize, large_snapshot, waiting_snapshot
from penstock.benchmarks.papers.scaling_snapshots import scaling_snapshot
from penstock.benchmarks.papers.sizing_snapshots import sizing_snapshots
from penstock.model.plan import NoChange
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot
from penstock.model.snapshot_bytes import from_bytes, to_bytes
from penstock.scheduler.autoscaler import Autoscaler
from penstock.scheduler.ds2 import Ds2
from penstock.scheduler.flink_er import FlinkEr
from penstock.scheduler.justin import Justin
from penstock.scheduler.memory_choice import MemoryChoice
from penstock.scheduler.placement import TaskScheduler
from penstock.scheduler.sage import Sage
from penstock.shedding import qod

Snapshots = Callable[[SnapshotSize], Sequence[ClusterSnapshot]]
"""The last is decided on; the policy has seen those before it."""


def _alone(make: Callable[[SnapshotSize], ClusterSnapshot]) -> Snapshots:
    return lambda size: (make(size),)


def _twice(size: SnapshotSize) -> Sequence[ClusterSnapshot]:
    """Return a snapshot and the same a cycle later: what minimums lacked in the first leaves in the second."""
    first = large_snapshot(size)
    return first, replace(first, number=first.number + 1, time_s=first.time_s + qod.PENSTOCK.period_s)


POLICIES: dict[str, tuple[Policy[Any], Snapshots]] = {
    "qod (paper)": (qod.PAPER, _alone(large_snapshot)),
    "qod (penstock)": (qod.PENSTOCK, _twice),
    "placement": (TaskScheduler(), _alone(waiting_snapshot)),
    "ds2": (Ds2(), _alone(scaling_snapshot)),
    "autoscaler": (Autoscaler(), _alone(scaling_snapshot)),
    "justin": (Justin(), _alone(scaling_snapshot)),
    "memory_choice": (MemoryChoice(), _alone(scaling_snapshot)),
    "flink-er": (FlinkEr(), _alone(flow_snapshot)),
    "sage": (Sage(), sizing_snapshots),
}
"""The policies that are timed, and the snapshots on which they have work."""

_REPEATS = {2_000: 300, 100_000: 30}
_TOLD = 120
"""Characters of a reason that are printed."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Milliseconds for a decision; `cpu_median_ms` counts only this process's own time on the core."""

    policy: str
    size: str
    median_ms: float
    p99_ms: float
    cpu_median_ms: float
    decision: str


def measure(name: str, size: SnapshotSize, repeats: int) -> Speed:
    """Time a policy's decision on a snapshot of this size, from its bytes.

    Raises:
        ValueError: the policy decided to do nothing, which is no work to be timed.
    """
    policy, snapshots = POLICIES[name]
    *earlier, latest = snapshots(size)
    memory, packed = policy.start(), to_bytes(latest)
    for snapshot in earlier:
        _, memory = policy.decide(snapshot, memory)
    decision, _ = policy.decide(from_bytes(packed), memory)
    if isinstance(decision, NoChange):
        raise ValueError(f"{name} does nothing on {size.name}: {decision.reason}")
    walls, own = [], []
    gc.collect()
    for _ in range(repeats):
        began, began_own = time.perf_counter_ns(), time.process_time_ns()
        policy.decide(from_bytes(packed), memory)
        own.append(time.process_time_ns() - began_own)
        walls.append(time.perf_counter_ns() - began)
    reason = decision.reason if len(decision.reason) <= _TOLD else f"{decision.reason[:_TOLD]} ..."
    p50, p99 = (float(np.percentile(walls, q)) / 1e6 for q in (50, 99))
    return Speed(name, size.name, p50, p99, float(np.median(own)) / 1e6, f"{type(decision).__name__}: {reason}")


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
