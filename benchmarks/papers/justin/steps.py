"""Rows of DS2's steps, and their curve over sigma with what rivals need (docs/design/papers/justin-ds2.md 3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.benchmarks.papers.evaluation import Chart, ChartLine, Progress, Row, Spread, in_turn, share, spread
from penstock.benchmarks.papers.justin.queries import parameters
from penstock.benchmarks.papers.justin.rivals import Dhalion, OneMoreUnderBackPressure
from penstock.benchmarks.papers.justin.word_count import Noise, StepCase, Steps, steps
from penstock.model.policy import Policy
from penstock.scheduler.ds2 import Ds2
from penstock.scheduler.ds2_fitted import Ds2Fitted

DS2 = Ds2()
LEARNS = Ds2Fitted()
MOST_STEPS = 3
DRAWS_SHARE = 0.9
SETTLES = "with <= 3 steps and no oscillation in the 20 windows after"
AVERAGED = (
    "one reading of 10% noise: of each report of an instance, of which a window has ten. Its mean over a window and up "
    "to 20 instances is off by 0.7%, which is all that a task's figure has of it"
)
MILDEST = "the mildest of three readings of 10% noise; the two others are rows of their own, and missed"
HARSHER = (
    "another reading: 10% of what a window has of an instance, three times the first row's, which DS2 has no band for"
)
HARSHEST = "a third reading: 10% of a task's figure, 14 times the first row's; all instances of a task are off alike"
LONG = 120
"""Windows for rivals that go one task, or one instance, at a time."""


def rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """Return the rows: without noise, the headline with averaged noise, and other readings of its words."""
    return [_exact_row(seed), *_averaged_rows(seed, seeds, progress), *_harsher_rows(seed, seeds, progress)]


def _exact_row(seed: int) -> Row:
    exact = steps(parameters(None), StepCase(0.0), DS2, 0)
    rivals = {name: steps(parameters(None), StepCase(0.0, windows=LONG), policy, 0) for name, policy in _RIVALS.items()}
    other = {name: float(each.first) for name, each in rivals.items()}
    rivals_text = "; ".join(f"{name}: {value:.0f}" for name, value in other.items())
    return Row(
        seed, "DS2: steps, sigma 0, no noise", "1 (Dhalion: 6)", "1", spread([float(exact.whole)]),
        spread([other["Dhalion's rule"]]), met=exact.carries and exact.whole == 1,
        note=f"baseline: Dhalion's rule; {rivals_text}. The ratio of steps depends on the rival and is no goal",
    )  # fmt: skip


def _averaged_rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """The headline, and its two conditions by themselves: noise of reports, of which a window has ten."""
    few = seeds[: max(1, len(seeds) // 4)]
    drawn, learned = _drawn(seeds, "report", DS2, progress), _drawn(few, "report", LEARNS, progress)
    label, idle = f"DS2: draws {SETTLES}, sigma <= 0.01, 10% noise", _idle(few, "report")
    result = [replace(_settled_row(seed, label, AVERAGED, drawn, learned, idle), softened=MILDEST)]
    parts: Mapping[str, Callable[[Steps], bool]] = {
        "with <= 3 steps until the target is first carried": is_quick,
        "without oscillation in the 20 windows after": is_calm,
        "with <= 3 steps, all of the 20 windows after counted": lambda each: each.carries and each.whole <= MOST_STEPS,
    }
    for what, holds in parts.items():
        own, beside = share([holds(each) for each in drawn]), share([holds(each) for each in learned])
        result.append(Row(seed, f"DS2: draws {what}", "-", "-", own, beside))
    over, beside = spread([each.instances for each in drawn]), spread([each.instances for each in learned])
    label = "DS2: instances over the least that carry"
    return [*result, Row(seed, label, "-", "-", over, beside, unit="x", note="baseline: with what was learned")]


def _harsher_rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """The headline's conditions where nothing averages the noise of a window: of an instance, or of a whole task."""
    result = []
    for by, reading in (("instance", HARSHER), ("task", HARSHEST)):
        drawn, learned = _drawn(seeds, by, DS2, progress), _drawn(seeds, by, LEARNS, progress)
        few = seeds[: max(1, len(seeds) // 8)]
        result.append(
            _settled_row(seed, f"noise of a window of {by}: draws {SETTLES}", reading, drawn, learned, _idle(few, by))
        )
        result.append(_fitted_row(seed, by, reading, learned, drawn, _idle(few, by, LEARNS)))
        for what, holds in {"with <= 3 steps": is_quick, "without oscillation": is_calm}.items():
            own, beside = share([holds(each) for each in drawn]), share([holds(each) for each in learned])
            result.append(Row(seed, f"noise of a window of {by}: draws {what}", "-", "-", own, beside))
    return result


def _fitted_row(
    seed: int, by: str, reading: str, own: Sequence[Steps], plain: Sequence[Steps], idle: Sequence[Steps]
) -> Row:
    """The policy that ships for a figure that is off by a tenth: `ds2-fitted`, with its dead band."""
    settles, beside = share([is_settled(each) for each in own]), share([is_settled(each) for each in plain])
    acts = spread([float(each.whole) for each in idle])
    return Row(
        seed, f"noise of a window of {by}, ds2-fitted: draws {SETTLES}", "at most 3 steps", f">= {DRAWS_SHARE:g}",
        settles, beside, acts, settles.median >= DRAWS_SHARE and acts.median == 0,
        note=f"{reading}; ours: a fitted curve and a dead band; baseline: DS2",
    )  # fmt: skip


def _settled_row(
    seed: int, label: str, reading: str, steps: Sequence[Steps], learned: Sequence[Steps], idle: Sequence[Steps]
) -> Row:
    own, beside = (share([is_settled(each) for each in every]) for every in (steps, learned))
    acts = spread([float(each.whole) for each in idle])
    reached = own.median >= DRAWS_SHARE and acts.median == 0
    note = f"{reading}; baseline: with what was learned of sigma; control: actions where the target is carried at first"
    return Row(seed, label, "at most 3 steps", f">= {DRAWS_SHARE:g}", own, beside, acts, reached, note=note)


def is_quick(each: Steps) -> bool:
    """Return whether at most three actions brought it to carry the target."""
    return each.carries and each.first <= MOST_STEPS


def is_calm(each: Steps) -> bool:
    """Return whether it carries the target, and takes back none of its actions in the windows after."""
    return each.carries and each.reversed == 0


def is_settled(each: Steps) -> bool:
    """Return what is required: at most three steps, and no oscillation in 20 windows after."""
    return is_quick(each) and is_calm(each)


def curve(seed: int, seeds: Sequence[int], progress: Progress) -> tuple[list[Row], Chart]:
    """Return the steps of DS2 and its rivals by sigma, with 10% noise and, for DS2, without."""
    figures = parameters(None)
    sigmas = [float(value) for value in figures.value("steps", "sigmas")]
    noise = Noise(float(figures.value("steps", "noise")))
    few = seeds[: max(1, len(seeds) // 20)]
    series: dict[str, list[Spread]] = {name: [] for name in (*_RIVALS, "DS2, no noise", "DS2 that learns", "DS2")}
    for sigma in in_turn(sigmas, "steps by sigma", progress):
        noisy, exact = StepCase(sigma, noise, _windows(sigma)), StepCase(sigma, windows=_windows(sigma))
        series["DS2"].append(_spread(few, noisy, DS2))
        series["DS2, no noise"].append(_spread(few, exact, DS2))
        series["DS2 that learns"].append(_spread(few, noisy, LEARNS))
        for name, rival in _RIVALS.items():
            series[name].append(_spread(few[: max(1, len(few) // 3)], StepCase(sigma, noise, LONG), rival))
    lines = [ChartLine("DS2, p90", sigmas, [each.p90 for each in series["DS2"]])]
    lines += [ChartLine(name, sigmas, [each.median for each in shares]) for name, shares in series.items()]
    chart = Chart("ds2_steps", "Steps until the target is carried", "sigma", "actions", tuple(lines), log_y=True)
    note = "baseline: DS2 that learns sigma; every action that was taken, where the target was never carried"
    each = zip(sigmas, series["DS2"], series["DS2 that learns"], strict=True)
    rows = [
        Row(seed, f"DS2: steps at sigma {sigma:g}", "-", "-", own, beside, note=note) for sigma, own, beside in each
    ]
    return rows, chart


_RIVALS: Mapping[str, Policy[Any]] = {
    "Dhalion's rule": Dhalion(),
    "one more for the busiest": OneMoreUnderBackPressure(),
}


def _drawn(seeds: Sequence[int], by: str, policy: Policy[Any], progress: Progress) -> list[Steps]:
    return [
        steps(parameters(draw), _case(draw, by), policy, draw)
        for draw in in_turn(seeds, f"steps, noise by {by}", progress)
    ]


def _idle(seeds: Sequence[int], by: str, policy: Policy[Any] = DS2) -> list[Steps]:
    """Return what a policy does where there is nothing to do."""
    return [steps(parameters(draw), _case(draw, by, ready=True), policy, draw) for draw in seeds]


def _case(draw: int, by: str, ready: bool = False) -> StepCase:
    """Return a case with a sigma of its own, up to that of the headline row."""
    most, noise = (float(parameters(None).value("steps", name)) for name in ("sigma_most", "noise"))
    return StepCase(float(np.random.default_rng([draw, 4]).uniform(0.0, most)), Noise(noise, by), ready=ready)


def _windows(sigma: float) -> int:
    """Return how many windows it takes, until nothing changes any more, the longer the more sigma."""
    return 40 + round(1500 * sigma)


def _spread(seeds: Sequence[int], case: StepCase, policy: Policy[Any]) -> Spread:
    """Return the steps until the target is carried; where it never is, all actions that were taken."""
    return spread([float(steps(parameters(draw), case, policy, draw).first) for draw in seeds])
