"""The pace at which rows are offered: phases of constant rates, one after the other. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Phase:
    """A constant rate for a while."""

    rows_per_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """What is offered to a topic: messages of a pool, at the rates of ``phases``.

    ``shares``: the part of each partition, which add up to 1. ``messages``: ``module:function`` that makes the pool.
    """

    topic: str
    shares: tuple[float, ...]
    messages: str
    phases: tuple[Phase, ...] = ()

    @classmethod
    def parse(cls, plain: dict[str, Any]) -> "TopicLoad":
        """Return what `dataclasses.asdict` made plain."""
        phases = tuple(Phase(**phase) for phase in plain["phases"])
        return cls(plain["topic"], tuple(plain["shares"]), plain["messages"], phases)

    def due(self, at_s: float) -> tuple[int, ...]:
        """Return how many messages each partition must have this long after the beginning."""
        rows = rows_due(self.phases, at_s)
        return tuple(int(rows * share) for share in self.shares)


def rows_due(phases: Sequence[Phase], at_s: float) -> float:
    """Return the rows that phases offer within this time."""
    rows = 0.0
    for phase in phases:
        rows += phase.rows_per_s * max(0.0, min(at_s, phase.seconds))
        at_s -= phase.seconds
    return rows


def phase_bounds(phases: Sequence[Phase]) -> list[tuple[float, float]]:
    """Return when each phase begins and ends, seconds."""
    bounds, begin = [], 0.0
    for phase in phases:
        bounds.append((begin, begin + phase.seconds))
        begin += phase.seconds
    return bounds


def uneven_shares(partitions: int, skew: float) -> tuple[float, ...]:
    """Return shares of partitions, in turn larger and smaller by ``skew`` of the mean in all, that add up to 1."""
    weights = [1 + (skew / 2 if number % 2 == 0 else -skew / 2) for number in range(partitions)]
    return tuple(weight / sum(weights) for weight in weights)
