"""WordCount on which DS2's steps are counted: instances that slow one another down, noise, restarts.

p instances can do p / (1 + sigma (p - 1)) times what one can; a restart takes 2 s, in which rows wait in the log
(docs/design/papers/justin-ds2.md 3).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant
from penstock.benchmarks.papers.cluster_model.loop import Run, Scheduled, run
from penstock.benchmarks.papers.cluster_model.parameters import Parameters
from penstock.benchmarks.papers.cluster_model.spec import (
    ActionSpec,
    ApplicationSpec,
    ClusterSpec,
    EdgeSpec,
    MachineSpec,
    ReportSpec,
    SourceSpec,
    TaskSpec,
)
from penstock.model.columns import Floats
from penstock.model.plan import Decision, RescalePlan
from penstock.model.policy import Policy
from penstock.model.snapshot import ClusterSnapshot

INTERVAL_S = 10.0
REPORTS = 10
"""One a second, so ten in a window, which averages them."""
QUEUE_S = 0.05
"""What an input holds, in seconds of all that comes for its task: no more than a window may swallow."""
MOST = 128
CARRIED = 0.99


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of 10%: useful times are off, so that true rates are.

    Rows are counted, and exact. A useful time is off by a normal factor of ``share``, drawn anew for every report of
    every instance (``by`` "report": one a second, of which a window's figure is the mean), for every window of every
    instance ("instance"), or for every window of a task, all its instances alike ("task"). The first is what reporters
    do, since they average, and what headline rows rest on (docs/decisions/0043-ten-percent-noise-and-ds2.md); all
    policies get the same.
    """

    share: float = 0.0
    by: str = "report"

    def factors(self, snapshot: ClusterSnapshot, seed: int) -> Floats:
        """Return what the useful time of every instance is multiplied by in this window."""
        random, instances = np.random.default_rng([seed, snapshot.number]), snapshot.instances
        if self.by == "task":
            return np.asarray(random.normal(1.0, self.share, len(snapshot.tasks))[instances.task])
        reports = REPORTS if self.by == "report" else 1
        return np.asarray(random.normal(1.0, self.share, (len(instances), reports)).mean(axis=1))


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a policy to a configuration that carries the target.

    ``first``: actions until the sources first read the target in a whole window after the last of them; all of them if
    that never comes. ``after``: actions in the windows looked at after that, ``reversed`` those of them that take back,
    for some task, the direction of its change before. ``whole`` is `first` + `after`: actions until nothing changes any
    more, if `after` is that. ``carries``: whether it came to carry the target. ``instances``: at the end, over those
    that would do if nothing were off.
    """

    first: int
    after: int
    reversed: int
    carries: bool
    instances: float

    @property
    def whole(self) -> int:
        """All actions, up to the end of the windows looked at."""
        return self.first + self.after


@dataclass(frozen=True, slots=True)
class _Blurred:
    """Shows a policy useful times that are off."""

    policy: Policy[Any]
    noise: Noise
    seed: int

    def start(self) -> Any:
        return self.policy.start()

    def decide(self, snapshot: ClusterSnapshot, memory: Any) -> tuple[Decision, Any]:
        busy_ns = snapshot.instances.busy_ns
        assert busy_ns is not None, "the simulated cluster measures it"
        shown = busy_ns * np.maximum(self.noise.factors(snapshot, self.seed), 0.1)
        return self.policy.decide(replace(snapshot, instances=replace(snapshot.instances, busy_ns=shown)), memory)


@dataclass(frozen=True, slots=True)
class StepCase:
    """A case of DS2's steps: how much instances slow one another down, the noise, and how many windows long.

    ``ready``: the job has what it needs from the first.
    """

    sigma: float
    noise: Noise = Noise()
    windows: int = 50
    ready: bool = False


def word_count(figures: Parameters, sigma: float, ready: bool = False) -> ClusterSpec:
    """Return a job whose source is never in the way and whose tasks cost nothing but their rows.

    It has one instance of each, or if ``ready`` as many as carry the target.
    """
    lines, words = (float(figures.value("steps", name)) for name in ("lines_per_s", "words_per_line"))
    needed = {name: float(figures.value("steps", f"{name}_instances")) for name in ("split", "count")}

    def task(name: str, rate: float) -> TaskSpec:
        x = needed.get(name, 0.0)
        return figures.make(
            TaskSpec,
            "task",
            name=name,
            application="job",
            parallelism=max(1, fixed_point(x, sigma)) if ready else 1,
            most_parallelism=MOST,
            cpu_s=x / rate,
            sigma=sigma,
            fetch_cpu_s=0.0,
            batch_cpu_s=0.0,
            warm_up_factor=0.0,
            queue_rows=QUEUE_S * rate,
        )

    node = figures.make(MachineSpec, "machine", name="node", cores=4.0 * MOST, link_bytes_per_s=float("inf"))
    return ClusterSpec(
        machines=[node],
        applications=[figures.make(ApplicationSpec, "application", name="job", allocated_bytes=0.0)],
        tasks=[task("lines", lines), task("split", lines), task("count", lines * words)],
        sources=[
            figures.make(
                SourceSpec, "source", task="lines", rate=Constant(lines), partition_shares=(1.0,), is_random=False
            )
        ],
        edges=[
            figures.make(EdgeSpec, "edge", producer="lines", consumer="split", selectivity=1.0),
            figures.make(EdgeSpec, "edge", producer="split", consumer="count", selectivity=words),
        ],
        actions=figures.make(ActionSpec, "actions", fixed_s=float(figures.value("steps", "restart_s"))),
        reports=figures.make(ReportSpec, "reports", every_s=INTERVAL_S, noise_share=0.0),
    )


def fixed_point(x: float, sigma: float) -> int:
    """Return the least p <= `MOST` with p / (1 + sigma (p - 1)) >= x, or `MOST`.

    x   instances that would do if they added up
    """
    p = np.arange(1, MOST + 1)
    enough = np.flatnonzero(p / (1 + sigma * (p - 1)) >= x)
    return int(p[enough[0]]) if len(enough) else MOST


def ran(figures: Parameters, case: StepCase, policy: Policy[Any], seed: int) -> Run:
    """Run a policy that decides every 10 s."""
    cluster = Cluster(word_count(figures, case.sigma, case.ready), seed, INTERVAL_S / 4, INTERVAL_S)
    blurred = _Blurred(policy, case.noise, seed)
    return run(cluster, [Scheduled("policy", blurred, INTERVAL_S)], case.windows * INTERVAL_S)


def steps(figures: Parameters, case: StepCase, policy: Policy[Any], seed: int) -> Steps:
    """Run a policy, and count its actions."""
    done = ran(figures, case, policy, seed)
    read = done.series.task("fetched", "lines") / (INTERVAL_S * float(figures.value("steps", "lines_per_s")))
    acted = np.array([isinstance(record.decision, RescalePlan) for record in done.records])
    # The window that ends with a record is whole if nothing was done where it began.
    calm = np.concatenate([[True], ~acted[:-1]])
    carried = np.flatnonzero((read[: len(acted)] >= CARRIED) & calm)
    first = int(carried[0]) if len(carried) else len(acted)
    late = slice(first, first + int(figures.value("steps", "windows_after")))
    plans = [record.decision for record in done.records if isinstance(record.decision, RescalePlan)]
    before, looked = int(acted[:first].sum()), int(acted[late].sum())
    needed = [float(figures.value("steps", f"{name}_instances")) for name in ("split", "count")]
    least = sum(fixed_point(x, case.sigma) for x in needed)
    total = float(done.series.table("instances")[-1][1:].sum())
    return Steps(before, looked, _reversed(plans, before, before + looked), bool(len(carried)), total / least)


def _reversed(plans: list[RescalePlan], begin: int, end: int) -> int:
    """Return how many of the plans from ``begin`` to ``end`` take back a change that was made before."""
    size: dict[int, int] = {}
    last: dict[int, int] = {}
    reversals = 0
    for number, plan in enumerate(plans):
        back = False
        for change in plan.tasks:
            sign = int(np.sign(change.parallelism - size.get(change.task, 1)))
            back |= sign * last.get(change.task, sign) < 0
            size[change.task], last[change.task] = change.parallelism, sign or last.get(change.task, 0)
        reversals += back and begin <= number < end
    return reversals
