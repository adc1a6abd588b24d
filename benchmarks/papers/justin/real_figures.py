"""The figures of a query on real parts: memory and instances that it ends with, what it carries, and its actions.

Where its load halves: when an instance was freed, and whether any row was lost.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from penstock.benchmarks.papers.justin.real_queries import OUT, SESSIONS
from penstock.benchmarks.papers.real.seen import ACTIONS, SeenRun
from penstock.engine.control.policies import parameters_of
from penstock.engine.control.steering import scaler
from penstock.model.columns import Floats
from penstock.model.control import Control
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import EntryKind, read_log, snapshot_of

_END_S = 20.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The sizes that a run ends with: bytes of memory of all tasks with state, instances of those, and of all tasks.

    ``actions``: changes that were done.
    """

    memory_bytes: float
    stateful: int
    instances: int
    actions: int


def ended(run: SeenRun) -> Ended:
    """Read the end of a run from its action log."""
    path = run.folder / ACTIONS
    latest: ClusterSnapshot | None = None
    actions = 0
    for entry in read_log(path):
        if entry.kind is EntryKind.SNAPSHOT:
            latest = snapshot_of(path, entry)
        actions += entry.kind is EntryKind.RESULT and entry.content["outcome"] == "applied"
    assert latest is not None and latest.instances.managed_bytes is not None
    is_stateful = latest.tasks.is_stateful[latest.instances.task]
    return Ended(
        float(np.nansum(latest.instances.managed_bytes[is_stateful])),
        int(is_stateful.sum()),
        len(latest.instances),
        actions,
    )


def waiting(run: SeenRun) -> Floats:
    """Return at each sample how many rows wait to be read, as the job says; those that it does not know of are none."""
    return np.array([float(sum(count or 0 for count in each["waiting"].values())) for each in run.samples])


def behind_s(run: SeenRun) -> float | None:
    """Return how long after the last step of the load a second of input or more last waited; None: to the end."""
    begin, end = run.bounds[-1]
    rate = run.offered().between(begin, end) / (end - begin)
    late = run.times_s[(waiting(run) >= rate) & (run.times_s >= begin) & (run.times_s <= end)]
    if len(late) and late[-1] > end - 2.0:
        return None
    return float(late[-1] - begin) if len(late) else 0.0


def freed_s(run: SeenRun) -> float | None:
    """Return how long after the last step of the load one instance alone counted sessions, to the end of the load.

    Below 0: it did so before the step. None: more of them, or none, were there in the end.
    """
    begin, end = run.bounds[-1]
    seen = [
        (float(at_s), sum(number for task, number in each["instances"].items() if SESSIONS in task.split(" -> ")))
        for at_s, each in zip(run.times_s, run.samples, strict=True)
        if at_s <= end
    ]
    others = [place for place, (_, number) in enumerate(seen) if number != 1]
    first = others[-1] + 1 if others else 0
    return seen[first][0] - begin if first < len(seen) else None


def window_s(run: SeenRun) -> float:
    """Return within which time the policy of a run takes an instance away, by its own parameters, seconds.

    A load that falls does so within one look; then come those that it needs, and the time for which it waits.
    """
    item = scaler(Control(**run.case["control"]))
    own = parameters_of(item.policy)
    looks = int(own["pace.activation" if "pace.activation" in own else "ds2.pace.activation"])
    wait_s = float(own.get("scale_down_wait_s", 0.0))
    return item.every_s * (1 + looks) + wait_s


def lost(run: SeenRun) -> int:
    """Return how many bids are missing in the sessions that a run has written, below 0: how many are there twice."""
    files = sorted((run.folder / "job" / OUT).glob("*.parquet"))
    return int(run.exact) - sum(sum(pq.read_table(path).column("bids").to_pylist()) for path in files)


def carried(run: SeenRun) -> float:
    """Return what the job read over what was offered in the last seconds of the load, at most 1."""
    end = run.bounds[-1][1]
    before, after = np.interp((end - _END_S, end), run.times_s, waiting(run)).tolist()
    offered = run.offered().between(end - _END_S, end)
    return float(min(1.0, 1.0 - (after - before) / offered))


def lag_s(run: SeenRun) -> float:
    """Return what waits at the end of the load, seconds of its input."""
    end = run.bounds[-1][1]
    last = run.within(end - 2.0, end)
    rate = run.offered().between(end - _END_S, end) / _END_S
    return float(np.median(waiting(run)[last])) / rate
