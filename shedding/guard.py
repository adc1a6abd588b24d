"""The guard between two decisions: a state machine that lowers keep rates at once where input falls behind.

keep = max(minimum, min(keep of the controller, keep of the guard)). It runs four times a second beside the sources; the
controller, which sees the whole job, takes over with its next decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.model.keep_rates import STEPS, KeepRates, in_steps
from penstock.shedding.keep_settings import ShedderQueries

NO_CAP = 1.0


@dataclass(frozen=True, slots=True)
class SourceInput:
    """What came to a source and what it read since the instances here began, rows; ``behind`` waits now."""

    offered: float
    consumed: float

    @property
    def behind(self) -> float:
        """Rows that wait."""
        return max(0.0, self.offered - self.consumed)


@dataclass(frozen=True, slots=True)
class GuardRule:
    """When a source falls behind: its backlog has grown over so many looks, to more than ``tolerated_s`` of input.

    ``raise_by``: the controller raises what the guard lowered by no more than this in a cycle. ``saturated``: the share
    of its time that the loop works from which on rows wait for it; below, they wait for something else, such as a slow
    sink, and to shed them would not help: the source is held back.
    """

    looks: int = 4
    tolerated_s: float = 0.5
    raise_by: float = 0.1
    saturated: float = 0.9


@dataclass(frozen=True, slots=True)
class GuardMemory:
    """The controller's rates, the cap of each source that was lowered, and the last looks, oldest first.

    A look: its time, the share of it that the loop worked since the one before, and the input of each source.
    """

    wanted: KeepRates = field(default_factory=KeepRates)
    caps: Mapping[str, float] = field(default_factory=dict)
    looks: tuple[tuple[float, float, Mapping[str, SourceInput]], ...] = ()


def decided(
    rule: GuardRule, memory: GuardMemory, rates: KeepRates, exempt: frozenset[str] = frozenset()
) -> GuardMemory:
    """Return the memory after a decision of the controller; caps that do not bind any more are gone.

    So are those of sources that are ``exempt``: they are kept whole, as when shedding is switched off.
    """
    caps = {name: min(NO_CAP, cap + rule.raise_by) for name, cap in memory.caps.items() if name not in exempt}
    binding = {name: cap for name, cap in caps.items() if cap < rates.sources.get(name, 1.0)}
    return replace(memory, wanted=rates, caps=binding)


def looked(
    rule: GuardRule,
    memory: GuardMemory,
    shedders: ShedderQueries,
    time_s: float,
    worked: float,
    inputs: Mapping[str, SourceInput],
) -> GuardMemory:
    """Return the memory after a look: sources that fall behind are capped at the rate that they can be read at.

    ``worked``: the share of the time since the last look that the loop worked, in [0, 1]; ``inputs`` by source.
    """
    looks = (*memory.looks, (time_s, worked, inputs))[-(rule.looks + 1) :]
    if len(looks) <= rule.looks:
        return replace(memory, looks=looks)
    began_s, _, first = looks[0]
    share = sum(look[1] for look in looks[1:]) / rule.looks
    if share < rule.saturated or time_s <= began_s:
        return replace(memory, looks=looks)
    in_force = capped(shedders, memory)
    caps = dict(memory.caps)
    for name, now in inputs.items():
        grows = [each[2][name].behind for each in looks if name in each[2]]
        if name not in shedders.sources or len(grows) < len(looks) or sorted(set(grows)) != grows:
            continue
        offered, consumed = now.offered - first[name].offered, now.consumed - first[name].consumed
        if offered <= 0 or now.behind <= rule.tolerated_s * offered / (time_s - began_s):
            continue
        rate = in_force.sources.get(name, 1.0) * max(0.0, consumed / offered)
        caps[name] = int(rate * STEPS) / STEPS
    # After a change the rows that were read at the old rate say nothing.
    return replace(memory, caps=caps, looks=looks if caps == memory.caps else ())


def capped(shedders: ShedderQueries, memory: GuardMemory) -> KeepRates:
    """Return the rates in force: those of the controller, none above the cap of its source or below its minimum."""
    wanted, caps = memory.wanted, memory.caps
    if not caps:
        return wanted
    sources = dict(wanted.sources)
    branches = dict(wanted.branches)
    for name, cap in caps.items():
        if name not in shedders.sources:
            # Its queries have come to need all rows since it was capped.
            continue
        sources[name] = in_steps(min(wanted.sources.get(name, 1.0), cap), shedders.source_minimum[name])
        for edge, origin in shedders.origin.items():
            if origin == name:
                above = wanted.branches.get(edge, wanted.sources.get(name, 1.0))
                branches[edge] = min(sources[name], in_steps(min(above, cap), shedders.branch_minimum[edge]))
    return KeepRates(
        {name: rate for name, rate in sources.items() if rate < 1.0},
        {edge: rate for edge, rate in branches.items() if rate < sources.get(shedders.origin[edge], 1.0)},
    )
