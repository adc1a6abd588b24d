"""Figures of many draws, and their texts, for all rows. Called by the makers of rows."""

from collections.abc import Callable, Iterator, Sequence

from penstock.benchmarks.papers.evaluation import Progress, Spread, spread

FEW = 20
"""Draws of rows that are no headline, of baselines and of controls."""

Values = dict[str, list[float]]


def each(seeds: Sequence[int], what: str, progress: Progress) -> Iterator[int]:
    """Give one seed after the other, and say how far it is."""
    for done, draw in enumerate(seeds):
        progress(what, done, len(seeds))
        yield draw
    progress(what, len(seeds), len(seeds))


def collected(
    seeds: Sequence[int], what: str, progress: Progress, of_draw: Callable[[int], dict[str, float]]
) -> dict[str, Spread]:
    """Return how each figure spreads over the draws."""
    found: Values = {}
    for draw in each(seeds, what, progress):
        for name, value in of_draw(draw).items():
            found.setdefault(name, []).append(value)
    return {name: spread(values) for name, values in found.items()}
