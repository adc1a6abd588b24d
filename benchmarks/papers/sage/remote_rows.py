"""Rows on backlogs of applications that call a remote service (docs/design/papers/sage.md 3)."""

from collections.abc import Sequence

import numpy as np

from penstock.benchmarks.papers.evaluation import Progress, Row, Spread, share, spread
from penstock.benchmarks.papers.sage.remote import Case, grown, noise_blocked
from penstock.scheduler.growth_rules import ThreadsUp

TICK_S = 60.0
LASTS_S = (5.0, 60.0, 600.0, 2400.0)
"""Slowdowns "from a few seconds to several minutes", and one that outlasts all that the guard looks back on."""
FEW = 50
"""Draws of what is reported only."""


def rows(seed: int, seeds: Sequence[int], progress: Progress) -> list[Row]:
    """Return the rows: parallelism actions of services that falter, of load, of both, and the guard on noise."""
    result = []
    ways = {
        "service slow": (Case(slow=True), Case(loaded=True)),
        "service slow, asynchronous": (Case(slow=True, is_async=True), Case(loaded=True, is_async=True)),
        "calls fail, tried again": (Case(fails=True), Case(loaded=True)),
    }
    by_load: dict[Case, list[float]] = {}
    for name, (case, load) in ways.items():
        if load not in by_load:
            by_load[load] = grown(seeds, load, "growth", progress, f"load, {name}")
        own = _acted(grown(seeds, case, "growth", progress, name))
        free = _acted(grown(seeds[:FEW], case, "none", progress, f"{name}, unguarded"))
        soon = _acted(by_load[load], ThreadsUp.window_s + TICK_S)
        result.append(
            Row(
                seed, f"{name}: parallelism actions", "0; load: >= 1", "<= 0.05; load: > 0.5", own, free,
                soon, own.median <= 0.05 and soon.median > 0.5,
                note="part of draws with one; baseline: no guard; control: the same backlog from load, within one "
                f"window (at any time: {100 * _acted(by_load[load]).median:.0f}%)",
            )
        )  # fmt: skip
    few = seeds[:FEW]
    literal = _acted(grown(few, Case(slow=True), "correlation", progress, "the paper's guard"))
    both = _acted(grown(few, Case(slow=True, loaded=True), "growth", progress, "slow and loaded"))
    result.append(Row(seed, "service slow: the paper's guard", "-", "-", literal, note=f"of {len(few)} draws"))
    result.append(Row(seed, "service slow, and more load", "-", "-", both, note="the guard cannot tell them apart"))
    for lasts_s in LASTS_S:
        short = _acted(grown(few, Case(slow=True, lasts_s=lasts_s), "growth", progress, f"slow for {lasts_s:g} s"))
        result.append(Row(seed, f"service slow for {lasts_s:g} s", "-", "-", short))
    own_noise, plain_noise = noise_blocked(seeds)
    blocked, theirs = spread(own_noise), spread(plain_noise)
    result.append(
        Row(
            seed, "growth put down to a steady service", "-", "<= 0.05", blocked, theirs, met=blocked.median <= 0.05,
            note="part of independent noise; baseline: the paper's guard",
        )
    )  # fmt: skip
    return result


def _acted(times_s: Sequence[float], within_s: float = float("inf")) -> Spread:
    """Return in which part of the draws there was an action, and in time."""
    return share([time_s <= within_s and np.isfinite(time_s) for time_s in times_s])
