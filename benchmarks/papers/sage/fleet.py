"""Many applications on one simulated cluster, each on cores of its own, and what a policy makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.benchmarks.papers.cluster_model.cluster import Cluster
from penstock.benchmarks.papers.cluster_model.curves import Constant, Curve, Lines
from penstock.benchmarks.papers.cluster_model.loop import Run, Scheduled, run
from penstock.benchmarks.papers.cluster_model.spec import (
    ActionSpec,
    ApplicationSpec,
    ClusterSpec,
    MachineSpec,
    ReportSpec,
    ServiceSpec,
    SourceSpec,
    StateSpec,
    TaskSpec,
)
from penstock.benchmarks.papers.sage.applications import Application, Averaged
from penstock.model.policy import Policy
from penstock.scheduler.resizer import Allocation

STEP_S = 10.0
REPORT_S = 10.0
"""As long as a value of the trace holds: the collector takes in more than one report a tick."""
KEYS = 1.0e6
FULLNESS = 0.75
"""Of the keys that there may be: so many are there in the long run."""


@dataclass(frozen=True, slots=True)
class Member:
    """An application of a fleet: what it is given at first, and how its remote service is (None: as it should be)."""

    application: Application
    given: Allocation
    service: Curve | None = None
    errors: Curve = Constant(0.0)
    in_flight: int = 0
    rate: Curve | None = None


def fleet(members: Sequence[Member], step_s: float = STEP_S) -> ClusterSpec:
    """Return the cluster for steps of a length; actions and reports are as the first one's parameters say."""
    figures = members[0].application.parameters
    return ClusterSpec(
        machines=[figures.make(MachineSpec, "machine", name="cluster", cores=4000.0, memory_bytes=1e15)],
        applications=[_application(member) for member in members],
        tasks=[_task(member) for member in members],
        sources=[_source(member, step_s) for member in members],
        services=[_service(member, step_s) for member in members if member.application.wait is not None],
        actions=figures.make(ActionSpec, "actions"),
        reports=figures.make(ReportSpec, "reports", every_s=REPORT_S),
    )


def ran(
    members: Sequence[Member], policy: Policy[Any] | None, seed: int, until_s: float, step_s: float = STEP_S
) -> tuple[Cluster, Run]:
    """Run a fleet under a policy that sees every report, or under none."""
    cluster = Cluster(fleet(members, step_s), seed, step_s, step_s)
    policies = [] if policy is None else [Scheduled("policy", policy, REPORT_S)]
    return cluster, run(cluster, policies, until_s)


def _application(member: Member) -> ApplicationSpec:
    own, given = member.application, member.given
    return own.parameters.make(
        ApplicationSpec,
        "application",
        name=own.name,
        live_base_bytes=own.live_bytes,
        heap_state_share=1.0,
        allocated_bytes=own.allocated_bytes,
        nonheap_bytes=own.nonheap_bytes,
        cores=given.cores,
        memory_bytes=given.memory_bytes,
        heap_bytes=given.heap_bytes,
        bytes_factor=Lines([(0.0, 1.0), (own.growth_s, own.grown_bytes)]) if own.grown_bytes != 1 else Constant(1.0),
    )


def _task(member: Member) -> TaskSpec:
    own = member.application
    return own.parameters.make(
        TaskSpec,
        "task",
        name=own.name,
        application=own.name,
        parallelism=member.given.threads,
        most_parallelism=own.partitions,
        cpu_s=own.row_cpu_s,
        key_groups=own.partitions,
        is_keyed=own.state_bytes > 0,
        state=_state(own) if own.state_bytes > 0 else None,
        service=None if own.wait is None else own.name,
        calls=0.0 if own.wait is None else 1.0,
        in_flight=member.in_flight,
    )


def _state(own: Application) -> StateSpec:
    """Keys that cost no access: all of them are on the heap."""
    share = FULLNESS / (1 - FULLNESS) * KEYS / (own.retention_s * own.mean_rate)
    return own.parameters.make(
        StateSpec,
        "state",
        new_key_share=share,
        most_keys=KEYS,
        retention_s=own.retention_s,
        key_bytes=own.state_bytes / (FULLNESS * KEYS),
        gets=0.0,
        puts=0.0,
    )


def _source(member: Member, step_s: float) -> SourceSpec:
    own = member.application
    count = own.partitions
    rate = Averaged(own.rate, step_s) if member.rate is None else member.rate
    return own.parameters.make(SourceSpec, "source", task=own.name, rate=rate, partition_shares=(1 / count,) * count)


def _service(member: Member, step_s: float) -> ServiceSpec:
    own = member.application
    assert own.wait is not None
    return own.parameters.make(
        ServiceSpec,
        "service",
        name=own.name,
        application=own.name,
        latency_s=Averaged(own.wait, step_s) if member.service is None else member.service,
        most_calls_per_s=own.most_calls_per_s,
        error_share=member.errors,
    )
