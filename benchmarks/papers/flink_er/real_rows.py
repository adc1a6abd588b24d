"""What runs of Flink-ER on real parts are held against: goals of ours, and savepoint, stop and start beside it."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from penstock.benchmarks.papers.evaluation import RealRow, Row, Spread, share, spread
from penstock.benchmarks.papers.flink_er.real_cases import CALM, LARGE, LOADS, NOBODY, RESTART, WIDER, WORKLOADS
from penstock.benchmarks.papers.flink_er.real_figures import (
    Written,
    acted,
    decided_s,
    lag_over_s,
    moved_pauses_s,
    natural_pauses_s,
    still_s,
    wrong_counts,
)
from penstock.benchmarks.papers.real.common_rows import beside_rows, capacity_row
from penstock.benchmarks.papers.real.seen import SeenRun

LAG_OVER_S = 60.0
PAUSE_MS = 300.0
STILL_S = 1.0
"""The rival stands still for seconds: at least so long."""

Runs = Mapping[str, Sequence[tuple[SeenRun, Written]]]
"""By the name of a case its runs, and what each has written."""

Figure = Callable[[SeenRun, Written], float]


def rows(runs: Runs) -> list[Row]:
    """Return the rows of the runs that there are."""
    made = [
        row for workload in (*WORKLOADS, *WIDER, LARGE) if workload in runs for row in _workload_rows(runs, workload)
    ]
    seen = {name: [run for run, _ in own] for name, own in runs.items()}
    acting = [run for workload in (*WORKLOADS, *WIDER) for run in seen.get(workload, ())]
    return [*made, *_calm_rows(runs), capacity_row(seen), *beside_rows(acting)]


def _of(runs: Runs, case: str, figure: Figure) -> Spread | None:
    return spread([figure(*run) for run in runs[case]]) if case in runs else None


def _workload_rows(runs: Runs, workload: str) -> Iterator[Row]:
    # What begins with two instances is the same work: its rival begins with one.
    own, alike = runs[workload], WIDER.get(workload, workload)
    rival = f"{alike}-{RESTART}"
    seen = [acted(run) for run, _ in own]
    named = share([each.is_named for each in seen])
    yield RealRow(
        0, f"bottleneck named, {workload}", "the marked operator", "in all runs", named, met=named.median == 1.0,
        note=f"First plans: {'; '.join(', '.join(each.first) or 'none' for each in seen)}. Actions in all: "
        f"{', '.join(str(len(each.results)) for each in seen)}.",
    )  # fmt: skip
    decided = [after_s for run, _ in own if (after_s := decided_s(run)) is not None]
    if decided:
        yield RealRow(
            0, f"from the step to the decision, {workload}", "its interval", "", spread(decided), unit="s",
            note="It looks every 5 s, and acts on what it sees in two looks.",
        )  # fmt: skip
    over = spread([lag_over_s(*run) for run in own])
    yield RealRow(
        0, f"lag over 1 s after the step, {workload}", "about 60 s", f"<= {LAG_OVER_S:g} s", over,
        _of(runs, rival, lag_over_s), _of(runs, f"{alike}-{NOBODY}", lag_over_s),
        met=over.median <= LAG_OVER_S, unit="s",
        note="Rows counted within a second were late by more than a second, on the mean, for the last time. "
        "Baseline: savepoint, stop, start, on the same decision. Control: nobody acts, to the end of the run.",
    )  # fmt: skip
    ours = _moved(runs, workload)
    if ours is not None:
        natural = _slowest_ms([natural_pauses_s(*run) for run in own])
        yield RealRow(
            0, f"pause of moved key groups, p99, {workload}", "none", f"<= {PAUSE_MS:g} ms", ours, _moved(runs, rival),
            natural, met=ours.median <= PAUSE_MS, unit="ms",
            note=f"{_state(own)} From the last row that its instance before has counted to the first of the next. "
            "Control: how long nobody counts a row of a key group before the step, p99.",
        )  # fmt: skip
    still = spread([still_s(*run) for run in own])
    other = _of(runs, rival, still_s)
    yield RealRow(
        0, f"longest time without a row, {workload}", "half of its rivals", "the rival: seconds", still, other,
        met=None if other is None else other.median >= STILL_S and still.median < other.median, unit="s",
    )  # fmt: skip
    wrong = spread([float(wrong_counts(*run)) for run in own])
    yield RealRow(
        0, f"counts that are wrong, {workload}", "none", "0", wrong, _of(runs, rival, _wrong), met=wrong.p90 == 0.0,
        note=f"Of {', '.join(f'{len(run.exact):,}' for run, _ in own)}: each row of a key and bucket is there once, "
        "with the number that it has.",
    )  # fmt: skip


def _wrong(run: SeenRun, rows: Written) -> float:
    return float(wrong_counts(run, rows))


def _moved(runs: Runs, case: str) -> Spread | None:
    return _slowest_ms([moved_pauses_s(rows) for _, rows in runs.get(case, ())])


def _slowest_ms(times_s: Sequence[Sequence[float]]) -> Spread | None:
    """Return the 99th percentiles of runs in which anything has moved; None: there is no such run."""
    slowest = [1e3 * float(np.percentile(each, 99)) for each in times_s if each]
    return spread(slowest) if slowest else None


def _state(own: Sequence[tuple[SeenRun, Written]]) -> str:
    held = max(sample["state_bytes"] for run, _ in own for sample in run.samples)
    said = [
        result["detail"]["stopped_ms"]
        for run, _ in own
        for result in acted(run).results
        if "stopped_ms" in result["detail"]
    ]
    words = f" The job says that it stood still for {', '.join(f'{ms:.0f} ms' for ms in said)}." if said else ""
    return f"State: {held / 1e6:.0f} MB.{words}"


def _calm_rows(runs: Runs) -> Iterator[Row]:
    for name, own in runs.items():
        if name.endswith(f"-{CALM}"):
            plans = spread([float(acted(run).plans) for run, _ in own])
            yield RealRow(
                0, f"plans at {LOADS[0]:g} of the capacity, {name.removesuffix(f'-{CALM}')}", "none", "0", plans,
                met=plans.p90 == 0.0, note="Control: the load does not rise.",
            )  # fmt: skip
