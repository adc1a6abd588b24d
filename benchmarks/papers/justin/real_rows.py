"""What runs of Justin on real parts are held against: Figure 4's shapes, and DS2's memory at an equal rate."""

from collections.abc import Iterator, Mapping, Sequence

from penstock.benchmarks.papers.evaluation import Chart, ChartLine, RealRow, Row, Spread, share, spread
from penstock.benchmarks.papers.justin.real_cases import (
    DS2,
    HALF,
    HALF_POLICIES,
    HELD,
    HELD_LEAST,
    HELD_MB,
    LITERAL,
    LOAD,
    POLICIES,
    QUERIES,
    STEP,
)
from penstock.benchmarks.papers.justin.real_figures import (
    behind_s,
    carried,
    ended,
    freed_s,
    lag_s,
    lost,
    waiting,
    window_s,
)
from penstock.benchmarks.papers.justin.real_state import StateRun
from penstock.benchmarks.papers.justin.real_state_rows import state_chart, state_rows
from penstock.benchmarks.papers.real.common_rows import beside_rows, capacity_row
from penstock.benchmarks.papers.real.seen import SeenRun

SHARE = 0.75
"""Of DS2's memory, at most."""

EQUAL = 0.98
"""Rates are equal if each is at least so much of what is offered."""

RIGHT, MOST_ACTIONS = 2, 3
"""What carries the load after a step: instances with state; and in how many actions they are to be there."""

_MB = 1 << 20
_PAPER = {"q11": "0.72 x DS2's", "q8": "0.73 x DS2's", HELD: "0.72 x DS2's"}

Runs = Mapping[str, Sequence[SeenRun]]


def rows(states: Sequence[StateRun], runs: Runs) -> list[Row]:
    """Return the rows of the runs that there are."""
    made = list(state_rows(states))
    for query in (*QUERIES, HELD):
        made += [*_query_rows(runs, query), *_step_rows(runs, query)]
    made += [*_least_rows(runs), *_half_rows(runs)]
    every = [run for own in runs.values() for run in own]
    return [*made, capacity_row(runs), *beside_rows(every)] if every else made


def charts(states: Sequence[StateRun], runs: Runs) -> tuple[Chart, ...]:
    """Return the charts of the runs that there are; of queries the first run of each policy."""
    shown = {name: own[0] for name, own in runs.items()}
    lines = tuple(ChartLine(name, run.times_s.tolist(), waiting(run).tolist()) for name, run in shown.items())
    waits = Chart("real_waiting", "Rows that wait to be read", "s", "rows", lines)
    return (*([state_chart(states)] if states else []), *([waits] if lines else []))


def _query_rows(runs: Runs, query: str) -> Iterator[Row]:
    own = {policy: runs[f"{query}-{policy}"] for policy in POLICIES if f"{query}-{policy}" in runs}
    for policy, seen in own.items():
        memory, rate = _memory(seen), spread([carried(run) for run in seen])
        ends = [ended(run) for run in seen]
        note = (
            f"{', '.join(f'{each.stateful} instances with state, {each.actions} actions' for each in ends)}; "
            f"{lag_s(seen[0]):.2f} s of input wait at the end."
        )
        yield RealRow(
            0, f"{query} by {policy}: carried at {LOAD:g} of one instance", "the target rate", f">= {EQUAL:g}", rate,
            met=rate.median >= EQUAL, note=note,
        )  # fmt: skip
        if policy == DS2 or DS2 not in own:
            yield RealRow(0, f"{query} by {policy}: memory", "", "", memory, unit="MB")
            continue
        base = _memory(own[DS2])
        goal, met = ("", None) if policy == LITERAL else (f"<= {SHARE:g} x DS2's", memory.median <= SHARE * base.median)
        yield RealRow(
            0, f"{query} by {policy}: memory", _PAPER[query], goal, memory, base, met=met, unit="MB",
            note=f"{memory.median / base.median:.2f} x DS2's, budgets of all instances with state.",
        )  # fmt: skip


def _least_rows(runs: Runs) -> Iterator[Row]:
    """Yield what is carried with the least memory that could have been chosen: less, or nothing had to be chosen."""
    if seen := runs.get(HELD_LEAST, ()):
        rate = spread([carried(run) for run in seen])
        yield RealRow(
            0, f"{HELD} with {RIGHT} instances of {HELD_MB[0]} MB (control): carried", "", f"< {EQUAL:g}", rate,
            met=rate.median < EQUAL, note=f"{lag_s(seen[0]):.2f} s of input wait at the end.",
        )  # fmt: skip


def _step_rows(runs: Runs, query: str) -> Iterator[Row]:
    for policy in POLICIES:
        seen = runs.get(f"{query}-{policy}-{STEP}", ())
        if not seen:
            continue
        ends, lags = [ended(run) for run in seen], [lag_s(run) for run in seen]
        behind = [behind_s(run) for run in seen]
        is_met = [
            each.stateful == RIGHT and each.actions <= MOST_ACTIONS and lag < 1.0
            for each, lag in zip(ends, lags, strict=True)
        ]
        yield RealRow(
            0, f"{query} by {policy}: the load doubles", "", f"{RIGHT} instances in {MOST_ACTIONS} actions, lag < 1 s",
            share(is_met), met=all(is_met),
            note=f"{', '.join(f'{each.stateful} instances with state, {each.actions} actions' for each in ends)}; "
            f"{', '.join(f'{lag:.2f}' for lag in lags)} s of input wait at the end; a second or more waited for "
            f"{', '.join('all of it' if each is None else f'{each:.0f} s' for each in behind)} after the step.",
        )  # fmt: skip


def _half_rows(runs: Runs) -> Iterator[Row]:
    for policy in HALF_POLICIES:
        seen = runs.get(f"q11-{HALF}-{policy}", ())
        if not seen:
            continue
        window, after = window_s(seen[0]), [freed_s(run) for run in seen]
        missing, lags = [lost(run) for run in seen], [lag_s(run) for run in seen]
        is_met = [
            each is not None and 0.0 <= each <= window and not lacking and lag < 1.0
            for each, lacking, lag in zip(after, missing, lags, strict=True)
        ]
        # One that frees none has not done so to the end of the load.
        length_s = seen[0].phases[-1].seconds
        yield RealRow(
            0, f"q11 by {policy}: the load halves, an instance is freed", "",
            f"within its {window:g} s, none lost, lag < 1 s", spread([length_s if s is None else s for s in after]),
            met=all(is_met), unit="s",
            note=f"Seconds from the step to one instance with state: "
            f"{', '.join('never' if s is None else f'{s:.0f}' for s in after)}. "
            f"Bids missing: {', '.join(map(str, missing))} of "
            f"{', '.join(f'{run.exact:,}' for run in seen)}. {', '.join(f'{lag:.2f}' for lag in lags)} s of input wait "
            "at the end.",
        )  # fmt: skip


def _memory(seen: Sequence[SeenRun]) -> Spread:
    return spread([ended(run).memory_bytes / _MB for run in seen])
