"""What runs of DISSP on real parts are held against: goals of ours, as the paper has no figures of fairness."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from penstock.benchmarks.kafka.drops import CLIENT, DROP, FETCH
from penstock.benchmarks.papers.dissp.real_cases import EQUAL, FAIR, FIFO, LIGHT, OVERLOAD, RANDOM
from penstock.benchmarks.papers.dissp.real_drops import DropRun
from penstock.benchmarks.papers.dissp.real_figures import (
    check_ms,
    interval_ms,
    lag_s,
    least_jain,
    longest_check_ms,
    of_phase,
    offered_load,
    used,
)
from penstock.benchmarks.papers.evaluation import RealRow, Row, Spread, spread
from penstock.benchmarks.papers.real.common_rows import beside_rows, capacity_row
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.shedding.sic import jain_index

LIMIT_MS = 12.5
"""Of a check, 5% of the interval between two."""

_NONE = "no figure"

Runs = Mapping[str, Sequence[SeenRun]]


def rows(runs: Runs, drops: Sequence[DropRun]) -> list[Row]:
    """Return the rows of the runs that there are."""
    own = runs.get(FAIR, ())
    made = [*_drop_rows(drops)]
    if own:
        made = [*_fair_rows(runs), *_rival_rows(runs), *_cost_rows(own), *made]
    return [*made, *_load_rows(runs), *beside_rows(own)]


def _load_rows(runs: Runs) -> Iterator[Row]:
    shed = [run for name, own in runs.items() if name != LIGHT for run in own]
    if shed:
        loads = spread([offered_load(run) for run in shed])
        yield RealRow(
            0, "work offered, of the capacity", "", "1.9 to 2.1", loads, met=1.9 <= loads.median <= 2.1,
            note="By the rows that the broker took and what one of them took when the capacity was measured.",
        )  # fmt: skip
    if runs:
        yield capacity_row(runs)


def _of(runs: Runs, case: str, figure: Callable[[SeenRun], float]) -> Spread | None:
    return spread([figure(run) for run in runs[case]]) if case in runs else None


def _jain(run: SeenRun) -> float:
    return jain_index(of_phase(run))


def _apart(run: SeenRun) -> float:
    return float(of_phase(run).std())


def _poorest(run: SeenRun) -> float:
    share = of_phase(run)
    return float(share.min() / share.mean())


def _mean(run: SeenRun) -> float:
    return float(of_phase(run).mean())


def _fair_rows(runs: Runs) -> Iterator[Row]:
    def ours(figure: Callable[[SeenRun], float]) -> tuple[Spread, Spread | None, Spread | None]:
        return spread([figure(run) for run in runs[FAIR]]), _of(runs, RANDOM, figure), _of(runs, LIGHT, figure)

    beside = f"Baseline: random. Control: {0.8:g} of the capacity, where nothing is too much."
    jain, random, light = ours(_jain)
    yield RealRow(
        0, "Jain's index of nSIC", _NONE, ">= 0.99", jain, random, light, met=jain.median >= 0.99, note=beside
    )  # fmt: skip
    least, random, light = ours(least_jain)
    yield RealRow(0, "Jain's index in the worst 10 s", _NONE, "", least, random, light)
    apart, random, light = ours(_apart)
    ratio = None if random is None or not random.median else apart.median / random.median
    yield RealRow(
        0, "spread of nSIC", _NONE, "<= 0.2 x random", apart, random, light,
        met=None if random is None else apart.median <= 0.2 * random.median,
        note="Standard deviation over queries" + ("." if ratio is None else f"; {ratio:.3f} x random's."),
    )  # fmt: skip
    poorest, random, light = ours(_poorest)
    yield RealRow(
        0, "poorest query", _NONE, ">= 0.95 of the mean", poorest, random, light, met=poorest.median >= 0.95
    )  # fmt: skip
    mean, random, light = ours(_mean)
    yield RealRow(
        0, "mean nSIC", _NONE, "", mean, random, light,
        note=f"Equal shares of all queries at {OVERLOAD:g} times the capacity are 1 / {OVERLOAD:g}; less even ones may "
        "have a higher mean, at the expense of dear queries.",
    )  # fmt: skip
    work, random, light = ours(used)
    yield RealRow(
        0, "throughput, of the capacity", _NONE, ">= 0.95", work, random, light, met=work.median >= 0.95,
        note="Work done by what a row took when the capacity was measured, before the run and after it.",
    )  # fmt: skip
    lag, random, light = ours(lambda run: float(np.percentile(lag_s(run), 95)))
    yield RealRow(0, "lag under overload, p95", _NONE, "", lag, random, light, unit="s of input")


def _rival_rows(runs: Runs) -> Iterator[Row]:
    fair = _of(runs, FAIR, _jain)
    for case, what, paper in ((FIFO, "FIFO", _NONE), (EQUAL, "equal CPU", "would favour small queries")):
        own, work = _of(runs, case, _jain), _of(runs, case, used)
        if own is None or work is None or fair is None:
            continue
        spreads, poorest = (float(np.median([figure(run) for run in runs[case]])) for figure in (_apart, _poorest))
        yield RealRow(
            0, f"Jain's index of {what}", paper, "less than fair", own, fair, met=own.median < fair.median,
            note=f"Baseline: fair. The spread is {spreads:.3f}, the poorest query has {poorest:.2f} of the mean, "
            f"throughput {work.median:.2f} of the capacity.",
        )  # fmt: skip


def _cost_rows(runs: Sequence[SeenRun]) -> Iterator[Row]:
    each = spread([float(np.median(check_ms(run))) for run in runs])
    yield RealRow(
        0, "CPU of a check", "none", f"<= {LIMIT_MS:g} ms", each, met=each.median <= LIMIT_MS, unit="ms",
        note=f"All that the shedder does, from what waits to what is admitted. The longest of all runs took "
        f"{max(map(longest_check_ms, runs)):.2f} ms.",
    )  # fmt: skip
    interval = spread([interval_ms(run) for run in runs])
    yield RealRow(
        0, "CPU of checks in 250 ms, mean", "none", f"<= {LIMIT_MS:g} ms", interval, met=interval.median <= LIMIT_MS,
        unit="ms", note="A check also comes early, when all that was admitted is read.",
    )  # fmt: skip


def _drop_rows(drops: Sequence[DropRun]) -> Iterator[Row]:
    if not drops:
        return
    added = spread([100 * (run.row_us[DROP] / run.row_us[FETCH] - 1) for run in drops])
    medians = {side: float(np.median([run.row_us[side] for run in drops])) for side in (CLIENT, FETCH, DROP)}
    yield RealRow(
        0, "a drop, beyond the fetch", "dropped before it is decoded", "<= 10%", added, met=added.median <= 10.0,
        unit="%",
        note=f"CPU of a whole process that reads {drops[0].rows:,} messages: a job that drops all "
        f"{medians[DROP]:.2f} us each, the connector's thread into its queue, and nobody looks at them, "
        f"{medians[FETCH]:.2f} us, librdkafka and its Python client alone {medians[CLIENT]:.2f} us.",
    )  # fmt: skip
