"""What queries get that want certain errors and compete for CPU: the same ratio of error to wanted error. Pure.

Of different priorities the lower ones give way first, down to their minimums. Called once a cycle, after
`error_control`; whether rates fit is for the policy to say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

RATIOS = tuple(2.0 ** (step / 8) for step in range(65))
"""The ratios that are tried, of the error to the wanted one: 1 to 256."""

Needs = Mapping[str, float]
"""Keep rates by query."""

NeedAt = Callable[[float], float]
"""From a ratio of error to wanted error, 1 or more, to the keep rate of a query; never more at a greater ratio."""


@dataclass(frozen=True, slots=True)
class Competitor:
    """A query that wants a certain error: its priority, its least keep rate, and what it needs at a ratio."""

    priority: float
    floor: float
    need_at: NeedAt


@dataclass(frozen=True, slots=True)
class Shares:
    """The keep rate of each query, and those that get less than they need: the ratio of error to wanted error of each.

    inf: its least rate.
    """

    needs: Needs
    ratios: Mapping[str, float]


def shared(competitors: Mapping[str, Competitor], fits: Callable[[Needs], bool]) -> Shares:
    """Return what fits: all needs, or of the lowest priorities as little as lets those above them have theirs.

    In the priority at which it begins to fit all have one ratio, the least that does. If not even the least rates of
    all fit, these are returned.
    """
    needs = {name: each.need_at(1.0) for name, each in competitors.items()}
    if fits(needs):
        return Shares(needs, {})
    ratios: dict[str, float] = {}
    for level in sorted({each.priority for each in competitors.values()}):
        group = {name: each for name, each in competitors.items() if each.priority == level}
        if fits(needs | _floors(group)):
            return _at_least_ratio(needs, ratios, group, fits)
        needs |= _floors(group)
        ratios |= dict.fromkeys(group, float("inf"))
    return Shares(needs, ratios)


def _at_least_ratio(
    needs: dict[str, float], ratios: dict[str, float], group: Mapping[str, Competitor], fits: Callable[[Needs], bool]
) -> Shares:
    """Return the shares with the least ratio for a group whose least rates fit."""
    low, high = 0, len(RATIOS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(needs | _at(group, RATIOS[middle])) else (middle, high)
    if high == len(RATIOS):
        return Shares(needs | _floors(group), ratios | dict.fromkeys(group, float("inf")))
    return Shares(needs | _at(group, RATIOS[high]), ratios | dict.fromkeys(group, RATIOS[high]))


def _floors(group: Mapping[str, Competitor]) -> dict[str, float]:
    return {name: each.floor for name, each in group.items()}


def _at(group: Mapping[str, Competitor], ratio: float) -> dict[str, float]:
    return {name: max(each.floor, each.need_at(ratio)) for name, each in group.items()}
