"""Snapshots of applications for the tests of Sage: what each has and uses, tick by tick."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.model.plan import Decision, RescalePlan
from penstock.model.policy import Policy
from penstock.model.snapshot import (
    ApplicationColumns,
    ClusterSnapshot,
    InstanceColumns,
    MachineColumns,
    PartitionColumns,
    ServiceColumns,
    TaskColumns,
)

TICK_S = 60.0
GB = 1e9
QUIET: Mapping[str, float] = {
    "cores": 4.0, "memory": 8 * GB, "heap": 4 * GB, "threads": 8, "heap_used": 3.4 * GB, "heap_committed": 3.5 * GB,
    "resident": 7 * GB, "gc": 0.01, "throttled": 0.0, "cpu": 3.2, "kills": 0, "disk_io": 0.0, "busy_threads": 7,
    "backlog": 0.0, "consumed": 1000.0, "appended": 1000.0, "latency_ms": 5.0, "calls": 500.0, "errors": 0.0,
}  # fmt: skip
"""One application that needs nothing."""


def snapshot(number: int, applications: Mapping[str, Mapping[str, float]]) -> ClusterSnapshot:
    """Return a snapshot of applications with one task, instance, partition and service each."""
    rows = [{**QUIET, **own} for own in applications.values()]
    count = len(rows)
    each = np.arange(count, dtype=np.int32)

    def column(name: str, factor: float = 1.0) -> Any:
        return np.array([row[name] * factor for row in rows])

    ns = TICK_S * 1e9
    yes, no = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    return ClusterSnapshot(
        number,
        TICK_S * number,
        TICK_S,
        applications=ApplicationColumns(
            tuple(applications),
            cores=column("cores"),
            memory_bytes=column("memory"),
            heap_bytes=column("heap"),
            threads=column("threads"),
            heap_used_bytes=column("heap_used"),
            heap_committed_bytes=column("heap_committed"),
            resident_bytes=column("resident"),
            gc_ns=column("gc", ns),
            gc_count=column("gc"),
            throttled_ns=column("throttled", ns),
            cpu_ns=column("cpu", ns),
            out_of_memory_kills=column("kills"),
            disk_io_bytes=column("disk_io", TICK_S),
        ),
        tasks=TaskColumns(tuple(applications), each, yes, yes, no, no, each + 1, each * 0),
        machines=MachineColumns(("m",), np.array([64.0])),
        instances=InstanceColumns(
            each,
            each * 0,
            each * 0,
            yes,
            busy_ns=column("busy_threads", ns),
            remote_wait_ns=column("kills", 0.0),
            core_wait_ns=column("kills", 0.0),
        ),
        partitions=PartitionColumns(
            each,
            appended=column("appended", TICK_S),
            consumed=column("consumed", TICK_S),
            end_offset=column("backlog"),
            position=column("backlog", 0.0),
        ),
        services=ServiceColumns(
            tuple(applications),
            each,
            latency_ms=column("latency_ms"),
            calls=column("calls", TICK_S),
            errors=column("errors", TICK_S),
        ),
    )


Uses = Callable[[int, Mapping[str, float]], Mapping[str, float]]
"""From the tick and what an application has to what it uses."""


def simulate(policy: Policy[Any], ticks: int, uses: Mapping[str, Uses]) -> list[tuple[int, Decision]]:
    """Apply every decision at once; return all of them with their tick."""
    given = {name: {key: QUIET[key] for key in ("cores", "memory", "heap", "threads")} for name in uses}
    memory, decided = policy.start(), []
    for number in range(ticks):
        now = {name: {**given[name], **use(number, given[name])} for name, use in uses.items()}
        decision, memory = policy.decide(snapshot(number, now), memory)
        decided.append((number, decision))
        if isinstance(decision, RescalePlan):
            names = list(uses)
            for size in decision.applications:
                changes = {
                    "cores": size.cores,
                    "heap": size.heap_bytes,
                    "memory": size.memory_bytes,
                    "threads": size.threads,
                }
                given[names[size.application]] |= {key: value for key, value in changes.items() if value is not None}
    return decided


def actions(decided: Sequence[tuple[int, Decision]]) -> list[tuple[int, str]]:
    """Return when which rules acted."""
    return [
        (number, part.split(": ", 1)[1].split(",")[0])
        for number, decision in decided
        if isinstance(decision, RescalePlan)
        for part in decision.reason.split("; ")
    ]
