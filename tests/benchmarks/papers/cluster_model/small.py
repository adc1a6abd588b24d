"""Small clusters with known answers: every figure that matters is given, nothing is random unless a test says so."""

from collections.abc import Sequence
from typing import Any

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant, Curve
from penstock.benchmarks.papers.cluster_model.loop import Run, Scheduled, run
from penstock.benchmarks.papers.cluster_model.parameters import default_parameters
from penstock.benchmarks.papers.cluster_model.spec import (
    ActionSpec,
    ApplicationSpec,
    ClusterSpec,
    EdgeSpec,
    MachineSpec,
    ReportSpec,
    ServiceSpec,
    SourceSpec,
    StateSpec,
    TaskSpec,
)

EXACT = default_parameters().having(
    task__batch_cpu_s=0.0,
    task__fetch_cpu_s=0.0,
    task__warm_up_factor=0.0,
    source__is_random=False,
    reports__noise_share=0.0,
    application__gc_s_per_byte=0.0,
    edge__delay_s=0.0,
    machine__link_bytes_per_s=float("inf"),
)


def task(name: str, cpu_s: float = 0.0, *, parallelism: int = 1, application: str = "app", **given: Any) -> TaskSpec:
    return EXACT.make(
        TaskSpec, "task", name=name, application=application, cpu_s=cpu_s, parallelism=parallelism, **given
    )


def edge(producer: str, consumer: str, **given: Any) -> EdgeSpec:
    return EXACT.make(EdgeSpec, "edge", producer=producer, consumer=consumer, **given)


def source(name: str, rate: Curve | float, partitions: Sequence[float] = (1.0,), **given: Any) -> SourceSpec:
    curve = Constant(rate) if isinstance(rate, float | int) else rate
    return EXACT.make(SourceSpec, "source", task=name, rate=curve, partition_shares=tuple(partitions), **given)


def machine(name: str = "tm", **given: Any) -> MachineSpec:
    return EXACT.make(MachineSpec, "machine", name=name, **given)


def application(name: str = "app", **given: Any) -> ApplicationSpec:
    return EXACT.make(ApplicationSpec, "application", name=name, **given)


def state(**given: Any) -> StateSpec:
    return EXACT.make(StateSpec, "state", **given)


def service(name: str, latency_s: Curve, **given: Any) -> ServiceSpec:
    return EXACT.make(
        ServiceSpec, "service", name=name, application="app", latency_s=latency_s, error_share=Constant(0.0), **given
    )


def cluster_spec(
    tasks: Sequence[TaskSpec],
    edges: Sequence[EdgeSpec] = (),
    sources: Sequence[SourceSpec] = (),
    machines: Sequence[MachineSpec] = (),
    applications: Sequence[ApplicationSpec] = (),
    *,
    actions: dict[str, Any] | None = None,
    reports: dict[str, Any] | None = None,
    **more: Any,
) -> ClusterSpec:
    return ClusterSpec(
        machines=machines or (machine(),),
        applications=applications or (application(),),
        tasks=tasks,
        sources=sources,
        edges=edges,
        actions=EXACT.make(ActionSpec, "actions", **(actions or {})),
        reports=EXACT.make(ReportSpec, "reports", **(reports or {})),
        **more,
    )


def ran(
    spec: ClusterSpec, until_s: float, policies: Sequence[Scheduled] = (), *, seed: int = 0, step_s: float = 0.1
) -> tuple[Cluster, Run]:
    cluster = Cluster(spec, seed, step_s)
    return cluster, run(cluster, policies, until_s)
