"""The queries of Justin's Figure 5 on the simulated cluster, and the operators of its Figure 4 (Justin, section 5).

Every query has sources, a filter for each where it has filters, one main operator and one sink, each of one instance
with 158 MB of managed memory at first.
"""

from dataclasses import dataclass
from typing import Any

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant
from penstock.benchmarks.papers.cluster_model.loop import Run, Scheduled, run
from penstock.benchmarks.papers.cluster_model.parameters import Parameters, evaluation_parameters
from penstock.benchmarks.papers.cluster_model.spec import (
    ActionSpec,
    ApplicationSpec,
    ClusterSpec,
    EdgeSpec,
    MachineSpec,
    ReportSpec,
    SourceSpec,
    StateSpec,
    TaskSpec,
)
from penstock.benchmarks.papers.justin.slots import Slots
from penstock.model.memory_levels import BASE_BYTES
from penstock.model.policy import Policy

MAIN = "main"
WINDOW_S, FIRST_S = 120.0, 60.0
"""Windows of 2 min; the first that is looked at begins when instances have run for 1 min (Justin, section 5)."""
REPORT_S, STEP_S = 30.0, 7.5
"""Reports are averaged over a window whatever their number; nothing changes within seconds but in restarts, which end
steps."""
MOST = 64
"""Instances of a task, where its key groups set no other bound."""
LOG_RATE = 1e7
"""Rows a second that the reader of a log can take."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query by its name in `parameters.toml`.

    ``is_flink``: on Justin's testbed: sources are generators, which emit "at the maximal possible speed, subject to
    back pressure" and "capped by this target rate" (Justin, section 3), so that nobody is told what they hold back. The
    paper's own path says so too: DS2 goes from 1 instance of q11 to 3 and, two steps later, to 12 (section 5.1); told
    of 50,000 rows a second it would have asked for 12 at once. 24 key groups, with which instances are aligned.
    Otherwise as Penstock: sources read a log, whose end is known, and there are 128 buckets, not aligned with.
    ``until_s``: how long it runs, so that what grows has stopped growing.
    """

    name: str
    is_flink: bool = True
    until_s: float = 1500.0


def parameters(seed: int | None) -> Parameters:
    """Return the figures, those that no paper gives drawn anew (None: as they stand)."""
    return evaluation_parameters(__package__, seed)


def target(figures: Parameters, query: Query) -> float:
    """Return the rows a second that the sources shall read together."""
    return float(sum(figures.value("query", "rates", query.name)))


def cluster_of(figures: Parameters, query: Query) -> ClusterSpec:
    """Return the testbed with a query, and a machine for its sources, which count for nothing."""
    rates, keep = figures.value("query", "rates", query.name), figures.value("query", "keep", query.name)
    sources = [f"source{number}" for number in range(len(rates))]
    filters = [f"filter{number}" for number in range(len(keep))]
    each, heads, shape = list(zip(sources, rates, strict=True)), filters or sources, _Shape(figures, query)
    return ClusterSpec(
        machines=[*shape.nodes(), shape.node("injector")],
        applications=[figures.make(ApplicationSpec, "application", name=query.name)],
        tasks=[
            *(shape.source(name, rate if query.is_flink else LOG_RATE) for name, rate in each),
            *(shape.task(name, shape.figure("filter_cpu_s")) for name in filters),
            shape.main(),
            shape.task("sink", shape.figure("sink_cpu_s")),
        ],
        sources=[
            figures.make(SourceSpec, "source", task=name, rate=Constant(rate), partition_shares=(1.0,), is_random=False)
            for name, rate in each
        ],
        edges=[
            *(shape.edge(above, below) for above, below in zip(sources, filters, strict=False)),
            *(shape.edge(head, MAIN, part) for head, part in zip(heads, keep or [1.0] * len(heads), strict=True)),
            shape.edge(MAIN, "sink", shape.figure("out")),
        ],
        actions=figures.make(ActionSpec, "actions"),
        reports=figures.make(ReportSpec, "reports", every_s=REPORT_S),
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """Makes the parts of one query."""

    parameters: Parameters
    query: Query

    def figure(self, name: str) -> float:
        return float(self.parameters.value("query", name, self.query.name))

    @property
    def is_stateful(self) -> bool:
        return bool(self.parameters.value("query", "stateful", self.query.name))

    def nodes(self) -> list[MachineSpec]:
        return [self.node(f"node{number}") for number in range(int(self.parameters.value("testbed", "nodes")))]

    def node(self, name: str) -> MachineSpec:
        machine = {
            field: self.parameters.value("testbed", field) for field in ("cores", "memory_bytes", "link_bytes_per_s")
        }
        return self.parameters.make(MachineSpec, "machine", name=name, **machine)

    def source(self, name: str, most_per_s: float) -> TaskSpec:
        free = {"cpu_s": 0.0, "fetch_cpu_s": 0.0, "batch_cpu_s": 0.0}
        return self._task(name, poll_rows_per_s=most_per_s, machines=("injector",), **free)

    def task(self, name: str, cpu_s: float) -> TaskSpec:
        return self._task(name, cpu_s=cpu_s, initial_managed_bytes=float(BASE_BYTES))

    def main(self) -> TaskSpec:
        if not self.is_stateful:
            return self.task(MAIN, self.figure("cpu_s"))
        return self._task(
            MAIN,
            cpu_s=self.figure("cpu_s"),
            is_keyed=True,
            key_groups=int(self.parameters.value("testbed" if self.query.is_flink else "task", "key_groups")),
            state=self._state(),
            initial_managed_bytes=float(BASE_BYTES),
        )

    def _state(self) -> StateSpec:
        key_bytes = float(self.parameters.value("state", "key_bytes"))
        written = self.figure("put_bytes")
        # An LSM tree writes a byte several times over: its work goes with the bytes, not with the calls.
        put_s = (
            float(self.parameters.value("state", "put_s"))
            * written
            / float(self.parameters.value("state", "put_bytes"))
        )
        costs = {name: self.figure(name) for name in ("gets", "puts", "put_bytes", "new_key_share", "retention_s")}
        return self.parameters.make(
            StateSpec,
            "state",
            put_s=put_s,
            initial_keys=self.figure("start_bytes") / key_bytes,
            most_keys=max(self.figure("start_bytes"), self.figure("most_bytes")) / key_bytes,
            **costs,
        )

    def edge(self, above: str, below: str, selectivity: float = 1.0) -> EdgeSpec:
        exchange = "hash" if below == MAIN and self.is_stateful else "free"
        return self.parameters.make(
            EdgeSpec, "edge", producer=above, consumer=below, selectivity=selectivity, exchange=exchange
        )

    def _task(self, name: str, **given: Any) -> TaskSpec:
        one = {"name": name, "application": self.query.name, "parallelism": 1, "most_parallelism": MOST}
        return self.parameters.make(TaskSpec, "task", name, **one, **given)


def ran(figures: Parameters, query: Query, policy: Policy[Any], seed: int) -> tuple[Cluster, Run]:
    """Run a query under a policy from a cold start to its end."""
    cluster = Cluster(cluster_of(figures, query), seed, STEP_S, REPORT_S)
    slots = Slots(policy, BASE_BYTES, query.is_flink)
    return cluster, run(cluster, [Scheduled("policy", slots, WINDOW_S, FIRST_S)], query.until_s)
