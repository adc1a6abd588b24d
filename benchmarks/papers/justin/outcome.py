"""The outcome of a run: the last configuration, what it costs, and the way there (Justin, section 5)."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.loop import Run
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.justin.hindsight import least_budgets
from penstock.benchmarks.papers.justin.queries import MAIN, REPORT_S, WINDOW_S, Query, ran, target
from penstock.model.columns import Floats
from penstock.model.memory_levels import BASE_BYTES, MIB
from penstock.model.plan import RescalePlan
from penstock.model.policy import Policy
from penstock.scheduler.packing import NONE, SLOTS, machine_room, pack, profile, task_bytes

CARRIED = 0.99
"""Part of the target that is all of it."""


@dataclass(frozen=True, slots=True)
class OperatorSize:
    """Instances of the main operator, and managed memory of each (MiB)."""

    instances: int
    mib: int

    def __str__(self) -> str:
        """Return it as the paper writes it."""
        return f"({self.instances};{self.mib})"


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The last configuration that carried the target for a window, or if none did the last one; and the way.

    ``path``: sizes of the main operator, from the first to the last; ``steps``: reconfigurations, all of them.
    ``carried``: rows that the sources read in the last window, over the target.

    ``instances`` and ``main_mib``: of the main operator, and managed memory of it. ``cores``: tasks but for sources, a
    core each; ``memory_mib``: heap, network and managed memory of them all, ``bare_mib`` of those without state;
    ``machine_cores``: of the task managers that they fill. ``enough``: the sizes of the main operator that would have
    carried the target at the end, if they were asked for.
    """

    path: tuple[OperatorSize, ...]
    steps: int
    carried: float
    instances: int
    main_mib: float
    cores: int
    memory_mib: float
    bare_mib: float
    machine_cores: int
    enough: tuple[OperatorSize, ...] = ()

    @property
    def is_up_then_out(self) -> bool:
        """True if memory was raised once, at first, and from then on only instances were added."""
        if len(self.path) < 2:
            return False
        first, *rest = pairwise(self.path)
        is_up = first[1].mib > first[0].mib and first[1].instances == first[0].instances
        return is_up and bool(rest) and all(b.mib == a.mib and b.instances > a.instances for a, b in rest)

    def with_main(self, size: OperatorSize) -> tuple[int, float]:
        """Return cores and memory (MiB) with the main operator in another size, and without memory of what is bare."""
        own, other = task_bytes(size.mib * MIB) / MIB, self.cores - self.instances
        return other + size.instances, other * task_bytes(0) / MIB + size.instances * own


def outcome(figures: Parameters, query: Query, policy: Policy[Any], seed: int, hindsight: bool = False) -> RunOutcome:
    """Run a query under a policy, and return what it came to; ``hindsight`` asks for what would have been enough."""
    cluster, done = ran(figures, query, policy, seed)
    spec, is_source = cluster.spec, cluster.graph.is_source
    main = [task.name for task in spec.tasks].index(MAIN)
    reads = np.sum([done.series.task("fetched", source.task) for source in spec.sources], axis=0)
    counts = done.series.table("instances").astype(np.int64)
    managed = (done.series.table("managed_bytes") / np.maximum(counts, 1)).astype(np.int64)
    carried = _windows(reads) / (WINDOW_S * target(figures, query))
    at = carrying(carried, np.concatenate([counts, managed], axis=1))
    has_state = np.array([task.state is not None for task in spec.tasks])
    each = np.repeat(managed[at, ~is_source], counts[at, ~is_source])
    bare = np.repeat(managed[at, ~is_source & ~has_state], counts[at, ~is_source & ~has_state])
    needs = np.array([profile(int(one)) for one in each])
    packing = pack(needs, np.zeros((0, needs.shape[1]), np.int64), machine_room(BASE_BYTES), np.full(len(needs), NONE))
    return RunOutcome(
        path=_path(done, main, cluster),
        steps=sum(isinstance(record.decision, RescalePlan) for record in done.records),
        carried=float(carried[-1]),
        instances=int(counts[at, main]),
        main_mib=float(managed[at, main] * counts[at, main]) / MIB,
        cores=len(each),
        memory_mib=sum(task_bytes(int(one)) for one in each) / MIB,
        bare_mib=sum(task_bytes(int(one)) for one in bare) / MIB,
        machine_cores=packing.machines * SLOTS,
        enough=tuple(OperatorSize(*each) for each in least_budgets(cluster, main, target(figures, query)))
        if hindsight
        else (),
    )


def carrying(carried: Floats, configuration: NDArray[np.int64]) -> int:
    """Return the last report at the end of a window of one configuration that carried the target; or the last.

    ``carried``: by report, of the window that ends with it, over the target; ``configuration``: by report, in columns.
    """
    length = round(WINDOW_S / REPORT_S)
    for at in range(len(carried) - 1, length - 2, -1):
        whole = configuration[at - length + 1 : at + 1]
        if carried[at] >= CARRIED and (whole == whole[0]).all():
            return at
    return len(carried) - 1


def _windows(reads: Floats) -> Floats:
    """Return the rows of the window that ends with each report."""
    return np.convolve(reads, np.ones(round(WINDOW_S / REPORT_S)))[: len(reads)]


def _path(completed: Run, main: int, cluster: Cluster) -> tuple[OperatorSize, ...]:
    path = [OperatorSize(1, round(cluster.spec.tasks[main].initial_managed_bytes / MIB))]
    for record in completed.records:
        sizes = record.decision.tasks if isinstance(record.decision, RescalePlan) else ()
        for size in sizes:
            if size.task == main:
                mib = path[-1].mib if size.managed_bytes is None else round(size.managed_bytes / MIB)
                path.append(OperatorSize(min(size.parallelism, cluster.spec.tasks[main].most_parallelism), mib))
    return tuple(path)
