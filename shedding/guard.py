"""The guard between two decisions: a state machine that lowers keep rates at once where input falls behind.

keep = max(minimum, min(keep of the controller, keep of the guard)). It runs four times a second beside the sources; the
controller, which sees the whole job, takes over with its next decision. What a cap takes away is taken from the least
priority first, as the controller does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from penstock.model.keep_rates import STEPS, KeepRates, in_steps
from penstock.shedding.keep_settings import ShedderQueries, SourcePart

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
    """When a source falls behind: over so many looks its backlog has grown, to more than ``tolerated_s`` of input.

    What waits is known as the log's end is, which comes in bursts, and sources take turns; so backlogs grow that were
    greater in the second half of these looks than in the first. ``history``: the looks of which the best rate is what
    can be read: one that was good enough a moment ago comes back after a pause, and so is no overload. Rows that take
    longer than they did are no pause: where more than is tolerated has waited for twice ``looks``, while rows went on
    all the time at the rates of now, the mean rate of these is what can be read. ``raise_by``: by no more rows that go
    on for each that comes, to all queries together, the controller raises in a cycle what the guard lowered, unless the
    loop has time left, or less than ``idle_s`` of input has waited in all of ``history`` and the controller sheds
    nothing. ``saturated``: the share of its time that the loop works from which on rows wait for it; below,
    they wait for something else, such as a slow sink, and to shed them would not help: the source is held back.
    """

    looks: int = 4
    tolerated_s: float = 0.5
    idle_s: float = 0.1
    history: int = 20
    raise_by: float = 0.1
    saturated: float = 0.9


@dataclass(frozen=True, slots=True)
class Look:
    """The input of each source, the share of the time since the look before that the loop worked, and its rates."""

    time_s: float
    worked: float
    inputs: Mapping[str, SourceInput]
    rates: KeepRates


@dataclass(frozen=True, slots=True)
class GuardMemory:
    """The controller's rates, the cap of each source that was lowered, and the last looks, oldest first.

    A cap is the share of a source's rows that goes on at most, the mean over its branches and what is behind none.
    """

    wanted: KeepRates = field(default_factory=KeepRates)
    caps: Mapping[str, float] = field(default_factory=dict)
    looks: tuple[Look, ...] = ()


def decided(
    rule: GuardRule,
    memory: GuardMemory,
    shedders: ShedderQueries,
    rates: KeepRates,
    exempt: frozenset[str] = frozenset(),
) -> GuardMemory:
    """Return the memory after a decision of the controller; caps that do not bind any more are gone.

    So are those of sources that are ``exempt``: they are kept whole, as when shedding is switched off. And so are
    all, if for as long as looks are remembered the loop has had time left, or nothing has waited and nothing is to be
    shed: a loop that takes what comes in small batches is busy all the time, whatever it could take.
    """
    sheds = bool(rates.sources or rates.branches)
    if _has_time(rule, memory.looks[1:]) or (not sheds and _keeps_up(rule, memory.looks)):
        return replace(memory, wanted=rates, caps={})
    caps = {
        name: min(NO_CAP, cap + rule.raise_by / len(shedders.parts(name)))
        for name, cap in memory.caps.items()
        if name not in exempt and name in shedders.sources
    }
    binding = {name: cap for name, cap in caps.items() if cap < _share(shedders, rates, name)}
    return replace(memory, wanted=rates, caps=binding)


def looked(
    rule: GuardRule,
    memory: GuardMemory,
    shedders: ShedderQueries,
    time_s: float,
    worked: float,
    inputs: Mapping[str, SourceInput],
) -> GuardMemory:
    """Return the memory after a look: sources that fall behind are capped so that no more is done than could be.

    What is done is counted in rows that go on to queries, to each side of a branch its own: where one side is at its
    minimum already, others make up for it.

    ``worked``: the share of the time since the last look that the loop worked, in [0, 1]; ``inputs`` by source.
    """
    now = Look(time_s, worked, inputs, capped(shedders, memory))
    looks = (*memory.looks, now)[-(rule.history + 1) :]
    seen = replace(memory, looks=looks)
    if len(looks) <= rule.looks:
        return seen
    last = looks[-(rule.looks + 1) :]
    share = _mean_worked(last[1:])
    length_s = time_s - last[0].time_s
    if share < rule.saturated or length_s <= 0:
        return seen
    caps = dict(memory.caps)
    for name, read in inputs.items():
        if name not in shedders.sources or any(name not in look.inputs for look in last):
            continue
        offered = (read.offered - last[0].inputs[name].offered) / length_s
        if offered <= 0 or read.behind <= rule.tolerated_s * offered or not _grows(last, name):
            continue
        done = _mean_done(rule, shedders, looks, name)
        if done is None:
            done = _best_done(rule, shedders, looks, name)
        cap = done / offered / len(shedders.parts(name))
        if cap < _share(shedders, now.rates, name):
            caps[name] = cap
    return replace(seen, caps=caps)


def _has_time(rule: GuardRule, looks: Sequence[Look]) -> bool:
    """Return whether the loop was never full for as many looks as backlogs grow over, in all that are remembered."""
    parts = [looks[first : first + rule.looks] for first in range(0, len(looks), rule.looks)]
    return len(looks) >= rule.history and all(_mean_worked(part) < rule.saturated for part in parts)


def _keeps_up(rule: GuardRule, looks: Sequence[Look]) -> bool:
    """Return whether next to nothing waited at any source in all looks that are remembered."""
    length_s = looks[-1].time_s - looks[0].time_s if looks else 0.0
    if len(looks) <= rule.history or length_s <= 0:
        return False
    first, last = looks[0].inputs, looks[-1].inputs
    for name, read in last.items():
        offered = (read.offered - first[name].offered) / length_s if name in first else 0.0
        if any(name not in look.inputs or look.inputs[name].behind > rule.idle_s * offered for look in looks):
            return False
    return True


def _mean_worked(looks: Sequence[Look]) -> float:
    return sum(look.worked for look in looks) / len(looks)


def _grows(looks: Sequence[Look], name: str) -> bool:
    """Return whether more waited in the second half of some looks than in the first."""
    behind = [look.inputs[name].behind for look in looks]
    half = len(behind) // 2
    return sum(behind[-half:]) > sum(behind[:half]) and behind[-1] > behind[0]


def _mean_done(rule: GuardRule, shedders: ShedderQueries, looks: Sequence[Look], name: str) -> float | None:
    """Return the rows/s that went on, if a source falls behind without a pause at the rates in force; else none."""
    recent = looks[-(2 * rule.looks + 1) :]
    if len(recent) <= 2 * rule.looks or any(name not in look.inputs for look in recent):
        return None
    length_s = recent[-1].time_s - recent[0].time_s
    offered = (recent[-1].inputs[name].offered - recent[0].inputs[name].offered) / length_s
    if any(look.inputs[name].behind <= rule.tolerated_s * offered for look in recent):
        return None
    done = _done(shedders, recent, name)
    mean = done[-1] / (len(recent) - 1)
    if any(look.rates != recent[-1].rates for look in recent) or any(b - a < mean / 2 for a, b in pairwise(done)):
        return None
    return done[-1] / length_s


def _best_done(rule: GuardRule, shedders: ShedderQueries, looks: Sequence[Look], name: str) -> float:
    """Return the most rows/s that went on from a source over as many looks as `GuardRule` has, in all of these."""
    best, done = 0.0, _done(shedders, looks, name)
    for first, last in zip(range(len(looks)), range(rule.looks, len(looks)), strict=False):
        length_s = looks[last].time_s - looks[first].time_s
        if length_s > 0:
            best = max(best, (done[last] - done[first]) / length_s)
    return best


def _done(shedders: ShedderQueries, looks: Sequence[Look], name: str) -> list[float]:
    """Return at each look the rows that have gone on from a source since the first."""
    done = [0.0]
    for before, after in pairwise(looks):
        read = 0.0
        if name in before.inputs and name in after.inputs:
            read = max(0.0, after.inputs[name].consumed - before.inputs[name].consumed)
        done.append(done[-1] + read * _goes_on(shedders, after.rates, name))
    return done


def _goes_on(shedders: ShedderQueries, rates: KeepRates, name: str) -> float:
    """Return how many rows go on for each that a source reads: to each branch, and to what is behind none."""
    return sum(_part_rates(shedders.parts(name), rates, name))


def _share(shedders: ShedderQueries, rates: KeepRates, name: str) -> float:
    """Return the share of a source's rows that goes on, the mean over what is behind it."""
    return _goes_on(shedders, rates, name) / len(shedders.parts(name))


def _part_rates(parts: Sequence[SourcePart], rates: KeepRates, name: str) -> list[float]:
    keep = rates.sources.get(name, 1.0)
    return [keep if part.edge is None else rates.branches.get(part.edge, keep) for part in parts]


def capped(shedders: ShedderQueries, memory: GuardMemory) -> KeepRates:
    """Return the rates in force: those of the controller, lower where a source is capped, but never below a minimum.

    Where queries part, the least priority gives way first, and equal ones do to the same rate.
    """
    sources = dict(memory.wanted.sources)
    branches = dict(memory.wanted.branches)
    for name, cap in memory.caps.items():
        if name not in shedders.sources:
            # Its queries have come to need all rows since it was capped.
            continue
        parts = shedders.parts(name)
        rates = _lowered(parts, _part_rates(parts, memory.wanted, name), cap)
        sources[name] = max(in_steps(0.0, shedders.source_minimum[name]), *rates)
        branches |= {part.edge: rate for part, rate in zip(parts, rates, strict=True) if part.edge is not None}
    return KeepRates(
        {name: rate for name, rate in sources.items() if rate < 1.0},
        {edge: rate for edge, rate in branches.items() if rate < sources.get(shedders.origin[edge], 1.0)},
    )


def _lowered(parts: Sequence[SourcePart], rates: Sequence[float], cap: float) -> list[float]:
    """Return the rates of a source's parts, lowered until their mean is no greater than the cap or all are least."""
    lowered = list(rates)
    for priority in sorted({part.priority for part in parts}):
        own = [at for at, part in enumerate(parts) if part.priority == priority]
        for step in range(STEPS, -1, -1):
            if _mean_rate(parts, lowered) <= cap:
                return lowered
            for at in own:
                lowered[at] = min(lowered[at], in_steps(step / STEPS, parts[at].minimum))
    return lowered


def _mean_rate(parts: Sequence[SourcePart], rates: Sequence[float]) -> float:
    """Return the mean share that goes on; what is behind no branch has all that any branch needs."""
    most = max(rates)
    return sum(most if part.edge is None else rate for part, rate in zip(parts, rates, strict=True)) / len(parts)
