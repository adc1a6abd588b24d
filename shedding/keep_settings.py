"""Keep rates of a job's shedders from the accuracies desired of its queries: whole steps, minimums, and a dead band.

Equations 14 and 15 of Stream-Economics over names: a source keeps what the most demanding query behind it desires, a
branch what the most demanding one behind the branch does. Called once a cycle, after the policy has decided.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.model.keep_rates import STEPS, Edge, KeepRates, in_steps

DEAD_BAND = 0.02
"""A rate that would change by no more stays, so that batches of one rate stay together."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A part of what is behind a source: a branch, or all that is behind none (``edge`` None)."""

    edge: Edge | None
    priority: float
    minimum: float


@dataclass(frozen=True, slots=True)
class ShedderQueries:
    """The shedders of a job: the queries behind each, by name, and the least rate that they allow.

    ``sources`` by the name of the source, ``branches`` by edge; ``origin``: the source above each branch. Priorities
    are the highest of the queries behind a branch, and of those that are behind no branch of a source, if there are
    any (``rest_priority``).
    """

    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    branches: Mapping[Edge, tuple[str, ...]] = field(default_factory=dict)
    origin: Mapping[Edge, str] = field(default_factory=dict)
    source_minimum: Mapping[str, float] = field(default_factory=dict)
    branch_minimum: Mapping[Edge, float] = field(default_factory=dict)
    rest_priority: Mapping[str, float] = field(default_factory=dict)
    branch_priority: Mapping[Edge, float] = field(default_factory=dict)

    def parts(self, source: str) -> tuple[SourcePart, ...]:
        """Return what is behind a source: each of its branches, and what is behind none, if anything is."""
        parts = [
            SourcePart(edge, self.branch_priority[edge], self.branch_minimum[edge])
            for edge, origin in self.origin.items()
            if origin == source
        ]
        if source in self.rest_priority:
            parts.append(SourcePart(None, self.rest_priority[source], self.source_minimum[source]))
        return tuple(parts)


def with_needs(shedders: ShedderQueries, needs: Mapping[str, float]) -> ShedderQueries:
    """Return the shedders with least rates that give these queries what they need, in [0, 1]."""
    return replace(
        shedders,
        source_minimum={
            name: max([least, *(needs[query] for query in shedders.sources[name] if query in needs)])
            for name, least in shedders.source_minimum.items()
            if name in shedders.sources
        },
        branch_minimum={
            edge: max([least, *(needs[query] for query in shedders.branches[edge] if query in needs)])
            for edge, least in shedders.branch_minimum.items()
        },
    )


def keep_rates(desired: Mapping[str, float], shedders: ShedderQueries, before: KeepRates) -> KeepRates:
    """Return the rates that give each query its desired accuracy, in [0, 1]; one that is not named desires all rows.

    Rates are rounded down to steps, as CPU for more is not there, but never below a minimum. ``before``: the rates in
    force; one stays that would change by no more than the dead band, unless it reaches 1 or its minimum.
    """
    sources = {
        name: _rate(desired, queries, shedders.source_minimum[name], before.sources.get(name, 1.0))
        for name, queries in shedders.sources.items()
    }
    branches = {}
    for edge, queries in shedders.branches.items():
        source = sources[shedders.origin[edge]]
        held = before.branches.get(edge, before.sources.get(shedders.origin[edge], 1.0))
        branches[edge] = min(source, _rate(desired, queries, shedders.branch_minimum[edge], held))
    return KeepRates(
        {name: rate for name, rate in sources.items() if rate < 1.0},
        {edge: rate for edge, rate in branches.items() if rate < sources[shedders.origin[edge]]},
    )


def _rate(desired: Mapping[str, float], queries: tuple[str, ...], minimum: float, before: float) -> float:
    wanted = max((desired.get(query, 1.0) for query in queries), default=1.0)
    least = in_steps(0.0, minimum)
    rate = max(least, math.floor(min(1.0, wanted) * STEPS + _ROUNDING) / STEPS)
    stays = abs(rate - before) <= DEAD_BAND and rate not in (1.0, least) and before >= least
    return before if stays else rate
