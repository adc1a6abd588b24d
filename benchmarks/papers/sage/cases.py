"""Fleets of applications, one for each draw: with sizes by chance, starved in all they have, or with the right size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.benchmarks.papers.cluster_model.loop import Run
from penstock.benchmarks.papers.cluster_model.parameters import evaluation_parameters
from penstock.benchmarks.papers.evaluation import Progress, in_turn
from penstock.benchmarks.papers.sage.applications import (
    PACKAGE,
    Application,
    Trace,
    archetype,
    latency_bound_s,
)
from penstock.benchmarks.papers.sage.fleet import Member, ran
from penstock.benchmarks.papers.sage.optimum import Optimum, living, optimum, resident_bytes
from penstock.benchmarks.papers.sage.outcomes import Outcome, outcomes
from penstock.model.policy import Policy
from penstock.scheduler.resizer import Allocation
from penstock.scheduler.sage import Sage
from penstock.scheduler.sage_at_once import SageAtOnce

FLEET = 50
"""Applications that are simulated together; each has cores of its own, so that none disturbs another."""
END_S = 2400.0
"""The last part of a run, two cycles, in which the size is judged."""
CONTROL_S = 5400.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """An application of a draw, and its optimum."""

    seed: int
    application: Application
    optimum: Optimum


def ours() -> Sage:
    """Return Sage for applications with the evaluation's bound of latency."""
    return Sage(idle_backlog_s=latency_bound_s())


def at_once() -> SageAtOnce:
    """Return the one that does not wait, with the same bounds."""
    return SageAtOnce(idle_backlog_s=latency_bound_s())


def drawn_applications(seeds: Sequence[int], progress: Progress) -> list[Drawn]:
    """Return the n-th archetype, with parameters +-30%, for the n-th draw; archetypes come again after the last."""
    count = int(evaluation_parameters(PACKAGE, None).value("sage", "applications"))
    draws = []
    for number, seed in enumerate(in_turn(seeds, "brute force", progress)):
        application = archetype(evaluation_parameters(PACKAGE, seed), number % count, f"a{number}")
        draws.append(Drawn(seed, application, optimum(application)))
    return draws


def steady(drawn: Drawn) -> Drawn:
    """Return the application of a draw with its mean load all the time, and the optimum for that."""
    own = drawn.application
    wait = None if own.wait is None else Trace((float(np.mean(own.wait.values)),), own.wait.each_s)
    calm = replace(own, rate=Trace((own.mean_rate,), own.rate.each_s), wait=wait)
    return Drawn(drawn.seed, calm, optimum(calm))


def by_chance(drawn: Drawn) -> Member:
    """Return the application with sizes anywhere between too little and too much, each resource by itself."""
    return _given(drawn, "start")


def starved(drawn: Drawn) -> Member:
    """Return the application with too little of everything."""
    return _given(drawn, "starved")


def right(drawn: Drawn) -> Member:
    """Return the application with its optimum and the margin that Sage leaves above what is used.

    Of a heap that is larger by the margin more is committed, which memory has to hold, and the margin.
    """
    own, more = drawn.application, 1 + ours().margin
    given = _times(drawn, np.full(4, more)).given
    resident = resident_bytes(own, living(own), given.heap_bytes, given.threads)
    return Member(own, replace(given, memory_bytes=max(given.memory_bytes, more * resident)))


def again(sizings: Sequence[Outcome], drawn: Sequence[Drawn]) -> Callable[[Drawn], Member]:
    """Return what gives an application the size at which it came to rest."""
    ends = {item.seed: end.final for item, end in zip(drawn, sizings, strict=True)}
    return lambda item: Member(item.application, ends[item.seed])


def sized(
    drawn: Sequence[Drawn],
    start: Callable[[Drawn], Member],
    policy: Policy[Any] | None,
    progress: Progress,
    what: str,
    until_s: float = 0.0,
) -> tuple[list[Outcome], list[Run]]:
    """Return what came of all applications under a policy, and the runs of their fleets."""
    until_s = until_s or float(evaluation_parameters(PACKAGE, None).value("sage", "until_s"))
    result: list[Outcome] = []
    runs = []
    for first in range(0, len(drawn), FLEET):
        progress(what, first, len(drawn))
        part = drawn[first : first + FLEET]
        members = [start(item) for item in part]
        cluster, done = ran(members, policy, part[0].seed, until_s)
        result += outcomes(members, [item.optimum for item in part], cluster, done, END_S)
        # Snapshots of every report take more room than all the rest.
        runs.append(Run(done.series))
    progress(what, len(drawn), len(drawn))
    return result, runs


def _given(drawn: Drawn, name: str) -> Member:
    low, high = sorted(float(drawn.application.parameters.value("sage", f"{name}_{end}")) for end in ("low", "high"))
    random = np.random.default_rng([6, drawn.seed])
    return _times(drawn, np.exp(random.uniform(np.log(low), np.log(high), 4)))


def _times(drawn: Drawn, factors: np.ndarray[Any, np.dtype[np.float64]]) -> Member:
    best = drawn.optimum.given
    memory = best.memory_bytes * float(factors[1])
    heap = min(memory, best.heap_bytes * float(factors[2]))
    # More threads than partitions could not start: each reads at least one.
    threads = min(max(1, round(best.threads * float(factors[3]))), drawn.application.partitions)
    return Member(drawn.application, Allocation(best.cores * float(factors[0]), memory, heap, threads))
