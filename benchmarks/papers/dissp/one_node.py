"""Fairness on one node: draws of the parameters, what batches' size and late reports do, throughput."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.benchmarks.papers.dissp.cases import case, drawn
from penstock.benchmarks.papers.dissp.runs import CONTROLS, POLICIES, Each, Figures, figures, spread_of, vanishes
from penstock.benchmarks.papers.dissp.simulation import SheddingPolicy, simulate
from penstock.benchmarks.papers.dissp.workload import workload
from penstock.benchmarks.papers.evaluation import Chart, ChartLine, Row
from penstock.shedding.fair_shedder import FairShedder, PartialBatchMode
from penstock.shedding.sic import jain_index

NOT_THERE = "no figure"
BATCHES = (0.01, 0.1, 0.3, 1.0)
DELAYS = (0, 1, 4)
QUERIES = 10_000
FEW = 8
"""Seeds of what is a curve, not a headline."""
ROUNDING = 1e-9


def draw(seed: int) -> Figures:
    """Return the figures of one draw of the parameters, and of one whose queries have several sources each."""
    one = drawn("single", np.random.default_rng(seed))
    mixed = drawn("mixed_sources", np.random.default_rng(seed))
    return figures(one, ("random", "fifo", "equal-share", "fair"), seed) | _named(
        "mixed", figures(mixed, ("fair", "fair by cost"), seed)
    )


def control(seed: int) -> Figures:
    """Return the figures of the same draw where effects must vanish."""
    one = drawn("single", np.random.default_rng(seed))
    mixed = drawn("mixed_sources", np.random.default_rng(seed))
    idle = replace(one, overload_low=0.8, overload_high=0.8)
    alike = replace(one, rate_ratio=1.0, cost_ratio=1.0)
    mixed_alike = replace(mixed, rate_ratio=1.0, cost_ratio=1.0, rate_noise=0.0, estimate_noise=0.0)
    return {
        **_named("idle", figures(idle, ("random", "fifo", "fair"), seed)),
        **_named("alone", figures(replace(one, queries=1), ("random", "fair"), seed)),
        **_named("alike", figures(alike, ("equal-share", "fair"), seed)),
        **_named("mixed alike", figures(mixed_alike, ("fair", "fair by cost"), seed)),
    }


def _named(case_name: str, of: Figures) -> dict[str, float]:
    return {f"{case_name}: {name}": value for name, value in of.items()}


def rows(seed: int, seeds: Sequence[int], each: Each) -> list[Row]:
    """Return the rows of all draws."""
    of = each(draw, seeds, "one node")
    no = each(control, seeds[:CONTROLS], "one node, controls")
    apart = of.ratio("std fair", "std random")
    alone = no.ratio("alone: mean fair", "alone: mean random")
    gain = of.ratio("mixed: mean fair by cost", "mixed: mean fair")
    no_gain = no.ratio("mixed alike: mean fair by cost", "mixed alike: mean fair")
    calm = not any(no.of[f"idle: dropped {name}"].any() for name in ("fair", "random"))
    fair, by_cost = of.median("mixed: J fair"), of.median("mixed: J fair by cost")
    return [
        Row(
            seed, "one node: J", NOT_THERE, ">= 0.99",
            of.spread("J fair"), of.spread("J random"), no.spread("idle: J fair"),
            met=of.median("J fair") >= 0.99 and calm and vanishes(no.ratio("idle: J fair", "idle: J random")),
            note="baseline: random; control: x0.8 load, where nothing is dropped",
        ),
        Row(
            seed, "one node: spread of nSIC", NOT_THERE, "<= 0.2 x random",
            of.spread("std fair"), of.spread("std random"), no.spread("idle: std fair"),
            met=float(np.median(apart)) <= 0.2
            and max(no.median(f"idle: std {name}") for name in ("fair", "random")) <= ROUNDING,
            note=f"standard deviations; median ratio {np.median(apart):.3f}; control: x0.8 load",
        ),
        Row(
            seed, "one node: poorest query", NOT_THERE, ">= 0.95 of the mean",
            of.spread("worst fair"), of.spread("worst random"), no.spread("alone: worst fair"),
            met=of.median("worst fair") >= 0.95 and vanishes(alone),
            note=f"baseline: random; control: one query, of which fair keeps {np.median(alone):.3f} x what random does",
        ),
        Row(
            seed, "one node: J of equal CPU time", "would favour small queries", "0.05 lower than fair",
            of.spread("J equal-share"), of.spread("J fair"), no.spread("alike: J equal-share"),
            met=of.median("J equal-share") <= of.median("J fair") - 0.05
            and vanishes(no.ratio("alike: J equal-share", "alike: J fair")),
            note="baseline: fair; control: all rates and costs alike",
        ),
        Row(
            seed, "one node: J of FIFO", NOT_THERE, "0.2-0.6",
            of.spread("J fifo"), of.spread("J fair"), no.spread("idle: J fifo"),
            met=0.2 <= of.median("J fifo") <= 0.6,
            note="sources in step, of which the same come last in every interval, gave 0.54: it is no property of tail "
            "drop, as batches come at moments of their own; baseline: fair; control: x0.8 load",
        ),
        Row(
            seed, "one node: capacity used", NOT_THERE, ">= 0.95", of.spread("used fair"), of.spread("used random"),
            met=of.median("used fair") >= 0.95,
            note="baseline: random; more than 1: begun in the measured time, done after it",
        ),
        Row(
            seed, "one node: largest input buffer", NOT_THERE, "<= 1", of.spread("backlog fair"),
            of.spread("backlog random"), met=of.median("backlog fair") <= 1, unit="x (N_tuples + arrivals)",
        ),
        Row(
            seed, "fair by cost: mean nSIC", "not in the paper", "> 1.05 x fair, J >= 0.99",
            spread_of(gain), spread_of(np.ones(len(gain))), spread_of(no_gain),
            met=float(np.median(gain)) > 1.05 and by_cost >= 0.99 and vanishes(no_gain), unit="x fair",
            note=f"three sources a query; J {by_cost:.4f} beside {fair:.4f}; control: all rates and costs alike",
        ),
    ]  # fmt: skip


def granularity(seed: int) -> Figures:
    """Return J by size of batches and mode."""
    values = {}
    for batch in BATCHES:
        one = replace(case("single"), batch_over_n=batch, measured_intervals=160)
        work = workload(one, np.random.default_rng(seed))
        for mode in PartialBatchMode:
            values[f"{mode.value} {batch}"] = jain_index(simulate(work, SheddingPolicy(FairShedder(mode)), seed).n_sic)
        values[f"random {batch}"] = jain_index(simulate(work, POLICIES["random"], seed).n_sic)
    return values


def granularity_rows(seed: int, seeds: Sequence[int], each: Each) -> tuple[list[Row], Chart]:
    """Return J by size of batches, and its chart; it must be 0.99 up to a tenth of N_tuples."""
    of = each(granularity, seeds, "size of batches")
    result = [
        Row(
            seed, f"one node: J at batch / N {batch:g}, {mode.value}", NOT_THERE, ">= 0.99" if batch <= 0.1 else "",
            of.spread(f"{mode.value} {batch}"), of.spread(f"random {batch}"),
            met=of.median(f"{mode.value} {batch}") >= 0.99 if batch <= 0.1 else None,
            note="baseline: random",
        )
        for batch in BATCHES
        for mode in PartialBatchMode
    ]  # fmt: skip
    names = [*(mode.value for mode in PartialBatchMode), "random"]
    lines = tuple(ChartLine(name, BATCHES, [of.median(f"{name} {batch}") for batch in BATCHES]) for name in names)
    chart = Chart("dissp_batches", "Fairness by size of batches", "rows of a batch / N_tuples", "Jain index", lines)
    return result, chart


def delays(seed: int) -> Figures:
    """Return how steady shedding is if reports of results come late."""
    values: dict[str, float] = {}
    for delay in DELAYS:
        one = replace(case("single"), result_delay_intervals=delay)
        of = figures(one, ("balance-sic", "balance-sic without ledger"), seed)
        values |= {f"{key} {delay}": value for key, value in of.items()}
    return values


def delay_rows(seed: int, seeds: Sequence[int], each: Each) -> list[Row]:
    """Return what late reports do: nothing, if what was admitted since counts."""
    of = each(delays, seeds, "late reports")
    result = []
    for delay in DELAYS:
        js = [of.median(f"J balance-sic {at}") for at in (0, delay)]
        waves = [of.median(f"wave balance-sic {at}") for at in (0, delay)]
        result.append(
            Row(
                seed, f"one node: J, reports {delay} late", NOT_THERE, "within 0.01, no oscillation",
                of.spread(f"J balance-sic {delay}"), of.spread(f"J balance-sic without ledger {delay}"),
                met=abs(js[1] - js[0]) <= 0.01 and waves[1] <= 1.5 * waves[0],
                note=f"a query's SIC of 8 intervals varies by {waves[1]:.2f} of its mean in time, without ledger "
                f"(baseline) by {of.median(f'wave balance-sic without ledger {delay}'):.2f}",
            )
        )  # fmt: skip
    return result


def many(seed: int) -> Figures:
    """Return the figures of 10,000 queries, each with a batch an interval."""
    one = replace(case("single"), queries=QUERIES, batch_over_n=0.0, measured_intervals=40)
    return figures(one, ("random", "fair"), seed)


def many_rows(seed: int, seeds: Sequence[int], each: Each) -> list[Row]:
    """Return whether many queries are served as equally as few."""
    of = each(many, seeds, f"{QUERIES:,} queries")
    return [
        Row(
            seed, f"one node: J of {QUERIES:,} queries", NOT_THERE, ">= 0.99",
            of.spread("J fair"), of.spread("J random"),
            met=of.median("J fair") >= 0.99,
            note=f"baseline: random; the poorest has {of.median('worst fair'):.2f} x the mean",
        )
    ]  # fmt: skip


def chains(seed: int) -> Figures:
    """Return the share of capacity that is used, for 1-5 chained operators and 1-4 threads."""
    return {
        f"{operators} {threads}": figures(
            replace(case("single"), operators=operators, threads=threads), ["fair"], seed
        )["used fair"]
        for operators in range(1, 6)
        for threads in range(1, 5)
    }


def chain_rows(seed: int, seeds: Sequence[int], each: Each) -> list[Row]:
    """Return the throughput kept, which must be near capacity for every length of chain and number of threads."""
    of = each(chains, seeds, "chains and threads")
    least = min(of.median(name) for name in of.of)
    return [
        Row(
            seed, "one node: capacity used, 1-5 operators, 1-4 threads", NOT_THERE, ">= 0.95 in each",
            spread_of(np.concatenate(list(of.of.values()))), met=least >= 0.95, note=f"least median {least:.3f}",
        )
    ]  # fmt: skip
