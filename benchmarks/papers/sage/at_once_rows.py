"""Rows on Sage without its waits, beside the paper's one action at a time (docs/design/papers/sage.md 6)."""

from collections.abc import Sequence

from penstock.benchmarks.papers.evaluation import Row, share, spread
from penstock.benchmarks.papers.sage.outcomes import Outcome

MOST_TIME = 0.5
"""Of the sizing time of one action at a time."""
EQUAL = 0.02
"""Oversizes that differ by no more are equal: two steps of brute force's grid."""

Outcomes = Sequence[Outcome]


def rows(seed: int, own: Outcomes, serial: Outcomes, best: Outcomes) -> list[Row]:
    """Return the rows; ``serial``: the same applications under the paper's; ``best``: begun with the optimum."""
    control = spread([float(len(item.actions)) for item in best])
    still = control.median == 0
    took, theirs = (spread([item.sizing_s / 60 for item in each]) for each in (own, serial))
    over, serial_over = (
        spread([item.oversize for item in [good for good in each if good.holds] or each]) for each in (own, serial)
    )
    holds, they_hold = (share([item.holds for item in each]) for each in (own, serial))
    swings, serial_swings = (spread([item.detours() for item in each]) for each in (own, serial))
    often, they_often = (share([item.detours() > 0 for item in each]) for each in (own, serial))
    together = share([_together(item) for item in own])
    return [
        Row(
            seed, "at once: sizing time", "serial", "<= 0.5 x serial", took, theirs, control,
            took.median <= MOST_TIME * theirs.median and still, "min",
            f"baseline: one action at a time; {took.median / max(theirs.median, 1e-9):.2f} of it; several resources in "
            f"one action in {together.median:.0%} of draws; control: actions of one that begins with its optimum",
        ),
        Row(
            seed, "at once: oversize", "serial", f"<= {EQUAL:g} more", over, serial_over, control,
            over.median <= serial_over.median + EQUAL and still,
        ),
        Row(
            seed, "at once: end sizes that hold the bounds", "-", ">= 0.95 of draws", holds, they_hold,
            met=holds.median >= 0.95,
            note="at the worst moment no more rows wait than the bound of latency allows, and nothing is killed",
        ),
        Row(
            seed, "at once: undo actions and swings", "0", "0", swings, serial_swings, control,
            swings.median == 0 and still,
            note=f"draws with one: {often.median:.0%}, one action at a time {they_often.median:.0%}",
        ),
    ]  # fmt: skip


def _together(item: Outcome) -> bool:
    times = [action.time_s for action in item.actions]
    return len(set(times)) < len(times)
