"""Curves of runs on real parts: the lag with and without shedding, who sheds, and rates as they are estimated."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from penstock.benchmarks.papers.economics.real_cases import LIGHT, OFF, SHED, WHOLE
from penstock.benchmarks.papers.economics.real_figures import cycles
from penstock.benchmarks.papers.evaluation import Chart, ChartLine
from penstock.benchmarks.papers.real.seen import SeenRun
from penstock.model.columns import Floats

_STEP_S = 0.5
_NAMES = {OFF: "without shedding", WHOLE: "minimums of 1", LIGHT: "0.9 of the capacity"}


def charts(runs: Mapping[str, Sequence[SeenRun]]) -> tuple[Chart, ...]:
    """Return the charts of the runs that there are."""
    return tuple(_charts(runs))


def _charts(runs: Mapping[str, Sequence[SeenRun]]) -> Iterator[Chart]:
    if SHED not in runs:
        return
    lines = [ChartLine(f"shed, run {number}", *_lag(run)) for number, run in enumerate(runs[SHED], 1)]
    lines += [ChartLine(_NAMES[name], *_lag(runs[name][0])) for name in (OFF, WHOLE) if name in runs]
    yield Chart("real_lag", "Lag: shed, and not", "s", "s of input", tuple(lines))
    yield Chart("real_lag_shed", "Lag while rows are shed", "s", "s of input", tuple(lines[: len(runs[SHED])]))
    shown = runs[SHED][0]
    seen = list(cycles(shown))
    ends = [each.end_s for each in seen]
    yield Chart(
        "real_accuracy",
        "Rows that take part, as counted (Figure 4)",
        "s",
        "accuracy",
        tuple(ChartLine(query, ends, [each.counted[query] for each in seen]) for query in shown.queries),
    )
    topic = shown.topics[0]
    yield Chart(
        "real_rates",
        "Rate of a source as injected and as estimated (Figure 5)",
        "s",
        "rows/s",
        (
            ChartLine("injected", ends, [each.injected[topic] for each in seen]),
            *(
                ChartLine(name, ends, [each.rates[name][topic] for each in seen])
                for name in ("lag maxima", "end offsets")
            ),
        ),
    )


def _lag(run: SeenRun) -> tuple[Sequence[float], Sequence[float]]:
    """Return the lag in seconds of input, twice a second."""
    at_s: Floats = np.arange(0.0, run.bounds[-1][1], _STEP_S)
    return at_s.tolist(), np.interp(at_s, run.times_s, run.input_s()).tolist()
