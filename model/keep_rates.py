"""Keep rates: the share of the rows that stays where a controller sheds, in steps that shedders and estimates share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

STEPS = 64
"""Keep rates are whole multiples of 1 / `STEPS`: few enough that batches of one rate can be joined."""

Edge = tuple[str, str]
"""A producer and a consumer in the job graph, by the names of the operators."""


@dataclass(frozen=True, slots=True)
class KeepRates:
    """The keep rates of a job's shedders, in [0, 1], each a multiple of 1 / `STEPS`.

    ``sources``: the share of a source's records that stays, by the name of its operator. ``branches``: the share of the
    same records that goes on to a consumer, by the edge where it leaves the others; never more than that of its source.
    All rows stay where nothing is named.
    """

    sources: Mapping[str, float] = field(default_factory=dict)
    branches: Mapping[Edge, float] = field(default_factory=dict)

    def is_shedding(self) -> bool:
        """Return whether any row may be dropped."""
        return any(rate < 1.0 for rate in (*self.sources.values(), *self.branches.values()))


def least_rates(rates: Sequence[KeepRates]) -> KeepRates:
    """Return the least rate of each shedder among several, as those of the parts of a job."""
    distinct = list[KeepRates]()
    # Most parts, of which there may be hundreds, have the same.
    for each in rates:
        if each not in distinct:
            distinct.append(each)
    sources = {name: rate for each in distinct for name, rate in each.sources.items()}
    branches = {edge: rate for each in distinct for edge, rate in each.branches.items()}
    return KeepRates(
        {name: min(each.sources.get(name, 1.0) for each in distinct) for name in sources},
        {edge: min(each.branches.get(edge, 1.0) for each in distinct) for edge in branches},
    )


def branch_name(edge: Edge) -> str:
    """Return the name of a branch in logs."""
    return ">".join(edge)


def in_steps(keep: float, minimum: float = 0.0) -> float:
    """Return the least keep rate of whole steps that is neither below ``keep`` nor below ``minimum``, both in [0, 1].

    Rounded up, so that a minimum holds exactly: 0.7 becomes 45 / 64.
    """
    return math.ceil(max(keep, minimum) * STEPS) / STEPS


def steps_of(keep: float) -> int:
    """Return a keep rate as the number of its steps, in [0, `STEPS`]."""
    return round(keep * STEPS)
