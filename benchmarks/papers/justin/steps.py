"""Rows of DS2's steps, and their curve over sigma with what rivals need (papers.md, 4.3 and 9)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.benchmarks.papers.evaluation import Chart, Line, Progress, Row, Spread, spread
from penstock.benchmarks.papers.justin.queries import parameters
from penstock.benchmarks.papers.justin.rivals import Dhalion, Fitted, Hottest
from penstock.benchmarks.papers.justin.word_count import Case, Noise, Steps, steps
from penstock.model.policy import Policy
from penstock.scheduler.ds2 import Ds2

DS2 = Ds2()
LEARNS = Fitted()
MOST_STEPS = 3
DRAWS_SHARE = 0.9
LONG = 120
"""Windows for rivals that go one task, or one instance, at a time."""


def rows(seed: int, seeds: Sequence[int], told: Progress) -> list[Row]:
    """Return the rows: without noise, the headline with it, what else its words may mean, and rivals."""
    few = seeds[: max(1, len(seeds) // 4)]
    noise = float(parameters(None).value("steps", "noise"))
    exact = steps(parameters(None), Case(0.0), DS2, 0)
    rivals = {name: steps(parameters(None), Case(0.0, windows=LONG), policy, 0) for name, policy in _RIVALS.items()}
    found = _drawn(seeds, noise, "report", DS2, told)
    learned = _drawn(few, noise, "report", LEARNS, told)
    idle = [steps(parameters(draw), _case(draw, noise, "report", ready=True), DS2, draw) for draw in few]
    acts = spread([float(each.whole) for each in idle])
    within = _share(found, lambda each: each.carries and each.first <= MOST_STEPS)
    settled = _share(found, lambda each: each.carries and each.whole <= MOST_STEPS)
    calm = _share(found, lambda each: each.reversed == 0)
    other = {name: float(each.first) for name, each in rivals.items()}
    named = "; ".join(f"{name}: {value:.0f}" for name, value in other.items())
    once = _only(float(exact.whole))
    result = [
        Row(
            seed, "DS2: steps, sigma 0, no noise", "1 (Dhalion: 6)", "1", once, _only(other["Dhalion's rule"]),
            met=exact.carries and exact.whole == 1,
            note=f"baseline: Dhalion's rule; {named}. The ratio of steps depends on the rival and is no goal",
        ),
        Row(
            seed, "DS2: draws with <= 3 steps, sigma <= 0.01, 10% noise", "at most 3 steps", ">= 0.9", within,
            _share(learned, lambda each: each.carries and each.first <= MOST_STEPS), acts,
            within.median >= DRAWS_SHARE and acts.median == 0,
            note="steps until the target is first carried; noise by report; baseline: with what was learned of sigma; "
            "control: actions where it is carried from the first",
        ),
        Row(
            seed, "DS2: the same, all actions of the 20 windows after counted", "-", "-", settled,
            _share(learned, lambda each: each.carries and each.whole <= MOST_STEPS),
        ),
        Row(
            seed, "DS2: draws without oscillation in the 20 windows after", "-", ">= 0.9", calm,
            _share(learned, lambda each: each.reversed == 0), met=calm.median >= DRAWS_SHARE,
            note="oscillation: an action that takes back the direction of one before",
        ),
        Row(
            seed, "DS2: instances over the least that carry", "-", "-", spread([each.instances for each in found]),
            spread([each.instances for each in learned]), unit="x", note="baseline: with what was learned",
        ),
    ]  # fmt: skip
    for by, label in (("instance", "a window of an instance"), ("task", "a window of a task")):
        others = _drawn(few[: max(1, len(few) // 2)], noise, by, DS2, told)
        learned = _drawn(few[: max(1, len(few) // 2)], noise, by, LEARNS, told)
        for what, holds in _HOLDS.items():
            own, beside = _share(others, holds), _share(learned, holds)
            result.append(Row(seed, f"noise of {label}: draws {what}", "-", "-", own, beside))
    return result


def curve(seed: int, seeds: Sequence[int], told: Progress) -> tuple[list[Row], Chart]:
    """Return the steps of DS2 and its rivals by sigma, with 10% noise and, for DS2, without."""
    whole = parameters(None)
    sigmas = [float(value) for value in whole.value("steps", "sigmas")]
    noise = Noise(float(whole.value("steps", "noise")))
    few = seeds[: max(1, len(seeds) // 20)]
    series: dict[str, list[Spread]] = {name: [] for name in (*_RIVALS, "DS2, no noise", "DS2 that learns", "DS2")}
    for done, sigma in enumerate(sigmas):
        told("steps by sigma", done, len(sigmas))
        noisy, exact = Case(sigma, noise, _windows(sigma)), Case(sigma, windows=_windows(sigma))
        series["DS2"].append(_spread(few, noisy, DS2))
        series["DS2, no noise"].append(_spread(few, exact, DS2))
        series["DS2 that learns"].append(_spread(few, noisy, LEARNS))
        for name, rival in _RIVALS.items():
            series[name].append(_spread(few[: max(1, len(few) // 3)], Case(sigma, noise, LONG), rival))
    told("steps by sigma", len(sigmas), len(sigmas))
    lines = [Line("DS2, p90", sigmas, [each.p90 for each in series["DS2"]])]
    lines += [Line(name, sigmas, [each.median for each in found]) for name, found in series.items()]
    chart = Chart("ds2_steps", "Steps until the target is carried", "sigma", "actions", tuple(lines), log_y=True)
    note = "baseline: DS2 that learns sigma; every action that was taken, where the target was never carried"
    each = zip(sigmas, series["DS2"], series["DS2 that learns"], strict=True)
    rows = [
        Row(seed, f"DS2: steps at sigma {sigma:g}", "-", "-", own, beside, note=note) for sigma, own, beside in each
    ]
    return rows, chart


_RIVALS: Mapping[str, Policy[Any]] = {"Dhalion's rule": Dhalion(), "one more for the hottest": Hottest()}
_HOLDS: Mapping[str, Callable[[Steps], bool]] = {
    "with <= 3 steps": lambda each: each.carries and each.first <= MOST_STEPS,
    "without oscillation": lambda each: each.reversed == 0,
}


def _drawn(seeds: Sequence[int], noise: float, by: str, policy: Policy[Any], told: Progress) -> list[Steps]:
    what = f"steps, noise by {by}"
    result = []
    for done, draw in enumerate(seeds):
        told(what, done, len(seeds))
        result.append(steps(parameters(draw), _case(draw, noise, by), policy, draw))
    told(what, len(seeds), len(seeds))
    return result


def _case(draw: int, noise: float, by: str, ready: bool = False) -> Case:
    """Return a case with a sigma of its own, up to that of the headline row."""
    most = float(parameters(None).value("steps", "sigma_most"))
    return Case(float(np.random.default_rng([draw, 4]).uniform(0.0, most)), Noise(noise, by), ready=ready)


def _windows(sigma: float) -> int:
    """Return how many windows it takes, until nothing changes any more, the longer the more sigma."""
    return 40 + round(1500 * sigma)


def _spread(seeds: Sequence[int], case: Case, policy: Policy[Any]) -> Spread:
    """Return the steps until the target is carried; where it never is, all actions that were taken."""
    return spread([float(steps(parameters(draw), case, policy, draw).first) for draw in seeds])


def _share(found: Sequence[Steps], holds: Callable[[Steps], bool]) -> Spread:
    return _only(float(np.mean([holds(each) for each in found])))


def _only(value: float) -> Spread:
    return Spread(value, value, value)
