"""Fairness across nodes: BALANCE-SIC beside random, and sources that send what gets through."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from penstock.benchmarks.papers.dissp.cases import case, drawn
from penstock.benchmarks.papers.dissp.one_node import NOT_THERE
from penstock.benchmarks.papers.dissp.runs import CONTROLS, Draws, Each, Figures, figures, spread_of, vanishes
from penstock.benchmarks.papers.evaluation import Row

FRAGMENTS = (4, 6)
SEEDS = 30
LEAST = 1.25
OURS = "balance-sic and sources"
HEADLINE = ("random", "balance-sic", OURS)
RIVALS = {"fifo": "FIFO", "equal-share": "equal CPU time", "fair": "fair, each node for itself"}


def draw(seed: int) -> Figures:
    """Return the figures of one draw of the parameters."""
    return figures(drawn("federated", np.random.default_rng(seed)), HEADLINE, seed)


def control(seed: int) -> Figures:
    """Return the figures of the same draw with a third of the queries and no overload."""
    one = drawn("federated", np.random.default_rng(seed))
    idle = replace(one, overload_low=0.8, overload_high=0.8, queries=max(1, one.queries // 3))
    return figures(idle, HEADLINE, seed)


def as_given(fragments: int, seed: int) -> Figures:
    """Return the figures of the case as the file has it, but for the length of the longest chain."""
    return figures(replace(case("federated"), fragments=fragments), (*HEADLINE, *RIVALS), seed)


def rows(seed: int, draws: Sequence[int], each: Each) -> list[Row]:
    """Return all rows: headlines over the draws, and chains of up to 4 and up to 6 fragments over 30 seeds."""
    of = each(draw, draws, "federated")
    idle = each(control, draws[:CONTROLS], "federated, controls")
    result = [*_fairness(seed, "federated: ", of, idle), *_means(seed, "federated: ", of, idle)]
    for fragments in FRAGMENTS:
        name = f"federated, up to {fragments}"
        given = each(partial(as_given, fragments), draws[:SEEDS], name)
        result += [
            *_fairness(seed, f"{name}: ", given, None),
            *(
                Row(
                    seed, f"{name}: J of {label}", NOT_THERE, "", given.spread(f"J {rival}"),
                    given.spread("J balance-sic"), note="baseline: BALANCE-SIC",
                )
                for rival, label in RIVALS.items()
            ),
        ]  # fmt: skip
    return result


def _fairness(seed: int, name: str, of: Draws, idle: Draws | None) -> list[Row]:
    result = []
    for policy, label in (("balance-sic", "BALANCE-SIC"), (OURS, "BALANCE-SIC, sources hold back")):
        ratio = of.ratio(f"J {policy}", "J random")
        no = None if idle is None else idle.ratio(f"J {policy}", "J random")
        result.append(
            Row(
                seed, f"{name}J of {label}", NOT_THERE, f">= {LEAST} x random",
                spread_of(ratio), spread_of(np.ones(len(ratio))), None if no is None else spread_of(no),
                met=float(np.median(ratio)) >= LEAST and (no is None or vanishes(no)), unit="x random",
                note=f"J {of.median(f'J {policy}'):.3f} beside {of.median('J random'):.3f}; the worst of {len(ratio)} "
                f"{ratio.min():.2f} x" + ("" if no is None else "; control: x0.8 load"),
            )
        )  # fmt: skip
    return result


def _means(seed: int, name: str, of: Draws, idle: Draws) -> list[Row]:
    """Return the price of fairness: what is dropped downstream was processed upstream, unless sources hold back."""
    mean, no = (draws.ratio(f"mean {OURS}", "mean balance-sic") for draws in (of, idle))
    ours, theirs = of.median(f"J {OURS}"), of.median("J balance-sic")
    return [
        Row(
            seed, f"{name}mean nSIC of BALANCE-SIC", NOT_THERE, "", of.spread("mean balance-sic"),
            of.spread("mean random"), note="the price of fairness; baseline: random",
        ),
        Row(
            seed, f"{name}mean nSIC, sources hold back", "not in the paper", "> 1 x BALANCE-SIC, J no lower",
            spread_of(mean), spread_of(np.ones(len(mean))), spread_of(no),
            met=float(np.median(mean)) > 1 and ours >= theirs and vanishes(no), unit="x BALANCE-SIC",
            note=f"J {ours:.3f} beside {theirs:.3f}; control: x0.8 load",
        ),
    ]  # fmt: skip
