"""Load shedding and the guard act together on random jobs, a seed each: steady, never below a minimum, not for nothing.

The model of `simulated_stream`: input that comes in plateaus, costs and minimums at random, readings with noise, and at
times a sink that is slower than the loop. Each plateau is held against what the model can carry.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from penstock.shedding.guard import GuardRule
from tests.engine.control.simulated_stream import SimulatedStream

SETTLE, LOOK = 16, 10
"""Cycles of a plateau in which it settles, and in which it is looked at."""

FEW = range(25)
PARTS = [range(first, first + 100) for first in range(0, 1_000, 100)]
"""A thousand seeds, of which a hundred take a minute beside other work."""

STEADY = 2 / 64
"""The dead band of rates."""


@dataclass(frozen=True)
class Case:
    """A random job, by its seed: what a row takes and what the sink takes, rows/s, and the load of each plateau."""

    row_s: float
    fixed: float
    noise: float
    minimum: float
    sink_rate: float
    blocks: bool
    loads: tuple[float, ...]

    @classmethod
    def of(cls, seed: int) -> "Case":
        random = np.random.default_rng([22, seed])
        row_s = float(np.exp(random.uniform(np.log(1e-4), np.log(5e-3))))
        fixed = float(random.uniform(0.0, 0.4))
        capacity = (1.0 - fixed) / row_s
        slow, blocks = random.random() < 0.3, bool(random.random() < 0.5)
        sink_rate = float(capacity * random.uniform(0.2, 0.8)) if slow else np.inf
        loads = [float(random.choice([0.3, 0.6, 0.8, 1.3, 1.8, 2.5, 4.0])) for _ in range(3)]
        if slow and not blocks:
            # Beyond what the loop takes itself rows are dropped for the loop.
            loads = [min(load, 0.85 * capacity / sink_rate) for load in loads]
        minimum = float(random.choice([0.0, 0.1, 0.3, 0.6]))
        return cls(row_s, fixed, float(random.uniform(0.0, 0.01)), minimum, sink_rate, blocks, tuple(loads))

    @property
    def is_held_back(self) -> bool:
        """Whether rows wait for the sink while the loop has time left."""
        return np.isfinite(self.sink_rate) and not self.blocks

    @property
    def carried(self) -> float:
        """The kept rows/s that it can carry."""
        loop = (1.0 - self.fixed) / (self.row_s + (1.0 / self.sink_rate if self.blocks else 0.0))
        return loop if self.blocks else min(loop, self.sink_rate)


def faults(seed: int, rule: GuardRule | None = None) -> list[str]:
    """Return what went wrong under a seed, in words; ``rule`` is the guard's, by default its own."""
    case = Case.of(seed)
    stream = SimulatedStream(
        case.row_s, case.fixed, case.sink_rate, case.blocks, minimum=case.minimum, noise=case.noise, seed=seed
    )
    stream.rule = stream.rule if rule is None else rule
    found: list[str] = []
    for number, load in enumerate(case.loads):
        rate = load * case.carried
        keeps = [stream.cycle(rate) for _ in range(SETTLE + LOOK)]
        lag_s = stream.lag / rate
        wrong = [*_wrong_everywhere(case, keeps), *_wrong_after_settling(case, load, keeps[SETTLE:], lag_s)]
        found += [f"seed {seed}, plateau {number} at {load} of {case}: {text}" for text in wrong]
        if load > 1.0 and (case.is_held_back or case.minimum * load > 1.0):
            # What is held back, or must be kept though it does not fit, is no backlog to begin the next plateau with.
            stream.read = stream.offered
    return found


def _wrong_everywhere(case: Case, keeps: Sequence[float]) -> list[str]:
    found = []
    if min(keeps) < case.minimum:
        found.append(f"{min(keeps)} is kept, less than the minimum")
    if case.is_held_back and min(keeps) < 1.0:
        found.append("rows are dropped for a sink that the loop waits for")
    return found


def _wrong_after_settling(case: Case, load: float, keeps: Sequence[float], lag_s: float) -> list[str]:
    if case.is_held_back:
        return []
    found = []
    if float(np.ptp(keeps)) > STEADY:
        found.append(f"rates swing between {min(keeps)} and {max(keeps)}")
    if load < 1.0:
        if min(keeps) < 1.0:
            found.append(f"{min(keeps)} is kept where all could be")
        return found
    due = max(1.0 / load, case.minimum)
    if abs(float(np.mean(keeps)) - due) > 0.05:
        found.append(f"{np.mean(keeps):.3f} is kept, not {due:.3f}")
    if due == 1.0 / load and lag_s > 2.0:
        found.append(f"{lag_s:.1f} s of input wait")
    return found


@pytest.mark.parametrize("seeds", [pytest.param(FEW, id="25")])
def test_a_job_is_steady_and_sheds_what_it_must(seeds: Sequence[int]) -> None:
    assert [text for seed in seeds for text in faults(seed)] == []


@pytest.mark.long("three minutes of seeds; test_a_job_is_steady_and_sheds_what_it_must has some of them")
@pytest.mark.parametrize("seeds", PARTS, ids=lambda seeds: f"{seeds.start} to {seeds.stop - 1}")
def test_1000_jobs_are_steady_and_shed_what_they_must(seeds: Sequence[int]) -> None:
    assert [text for seed in seeds for text in faults(seed)] == []


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        # It takes any backlog for an overload, and a wait for the sink for work.
        (GuardRule(saturated=0.0), "are dropped for a sink that the loop waits for"),
        # It looks once, and believes a burst; what it lowered stays for minutes, whatever time the loop has.
        (GuardRule(looks=2, tolerated_s=0.0, raise_by=0.0, history=2_000), "is kept"),
    ],
    ids=["blind to waits", "hasty and stubborn"],
)
def test_a_guard_with_a_bug_is_found(rule: GuardRule, words: str) -> None:
    assert any(words in text for seed in FEW for text in faults(seed, rule))
