"""The end of an instance's warm-up after its start: Stream-Economics, section 6, "Tasks' Warmup Period".

Meanwhile all instances on its machine run at their minimum accuracy. Called by `qod`.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.model.columns import Bools, Floats
from penstock.shedding.instance_identity import NOBODY, InstanceNames


@dataclass(frozen=True, slots=True)
class WarmUpRule:
    """A warm-up ends when CPU is stable and the task has its minimum accuracy, or `timeout_s` after the start.

    Stable: the last `stable_readings` differ by no more than `stable_points`, percent of a core.
    """

    timeout_s: float = 60.0
    stable_points: float = 5.0
    stable_readings: int = 3

    def __post_init__(self) -> None:
        if not (self.timeout_s >= 0 and self.stable_points >= 0 and self.stable_readings >= 1):
            raise ValueError(f"a warm-up takes no less than 0 s, 0 points and 1 reading: {self}")


@dataclass(frozen=True, slots=True, eq=False)
class WarmUps:
    """The memory of instances younger than the timeout: age, CPU readings, and whether the warm-up has ended."""

    who: InstanceNames = NOBODY
    age_s: Floats = field(default_factory=lambda: np.zeros(0))
    readings: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    ended: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))


def warming(
    rule: WarmUpRule, before: WarmUps, who: InstanceNames, age_s: Floats, cpu_percent: Floats, short: Floats
) -> tuple[Bools, WarmUps]:
    """Return the instances that are warming up, and the new memory.

    age_s: since it started; cpu_percent: NaN if not measured; short: the shortfall minAc(t) - cAc(t), in
    [-1, 1].
    """
    young = np.flatnonzero(age_s < rule.timeout_s)
    who, age, cpu = who.select(young), age_s[young], cpu_percent[young]
    at = who.places_in(before.who)
    # One that is younger than it was has been started again.
    is_known = at >= 0
    is_known[is_known] = age[is_known] >= before.age_s[at[is_known]]
    readings = np.full((len(young), rule.stable_readings), np.nan)
    ended = np.zeros(len(young), np.bool_)
    if is_known.any():
        readings[is_known, :-1] = before.readings[at[is_known], 1:]
        ended[is_known] = before.ended[at[is_known]]
    readings[:, -1] = cpu
    # NaN, a reading that lacks, compares as False.
    is_stable = readings.max(axis=1) - readings.min(axis=1) <= rule.stable_points
    ended |= is_stable & (short[young] <= 0.0)
    result = np.zeros(len(age_s), np.bool_)
    result[young] = ~ended
    return result, WarmUps(who, age, readings, ended)
