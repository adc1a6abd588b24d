"""Backlogs of applications that call a remote service: it falters, or more rows come (docs/design/papers/sage.md 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.curves import Constant, Curve, Steps
from penstock.benchmarks.papers.cluster_model.loop import DecisionRecord
from penstock.benchmarks.papers.cluster_model.parameters import evaluation_parameters
from penstock.benchmarks.papers.evaluation import Progress
from penstock.benchmarks.papers.sage.applications import PACKAGE, Trace, archetype
from penstock.benchmarks.papers.sage.cases import FLEET, ours
from penstock.benchmarks.papers.sage.fleet import Member, ran
from penstock.benchmarks.papers.sage.outcomes import actions_of
from penstock.scheduler.growth_rules import ThreadsUp
from penstock.scheduler.remote_guard import backlog_correlates, explained_by_service
from penstock.scheduler.resizer import Allocation

LEAST_OVERLOAD = 1.1
"""With less there is no backlog in some draws."""
SPARE = 1.15
"""Threads over those that a steady load keeps."""
CORES, HEAP = 1.5, 2.0
"""Cores over those that the load takes, and heap over what lives: neither is short, before or after."""
WAIT = 2.0
"""A row's wait for its call, over its work."""
IN_FLIGHT = 4
"""Calls at a time of an instance that does not wait for each."""


@dataclass(frozen=True, slots=True)
class Case:
    """A disturbance: the service is slower, its calls fail, more rows come; for ``lasts_s``, None: to the end."""

    slow: bool = False
    fails: bool = False
    loaded: bool = False
    is_async: bool = False
    lasts_s: float | None = None


def grown(seeds: Sequence[int], case: Case, guard: str, progress: Progress, what: str) -> list[float]:
    """Return by draw the seconds from the trouble's beginning to the first action on threads; infinite: none."""
    growths: list[float] = []
    for first in range(0, len(seeds), FLEET):
        progress(what, first, len(seeds))
        part = seeds[first : first + FLEET]
        members = [_member(seed, first + number, case) for number, seed in enumerate(part)]
        begins_s, until_s = _moments(case)
        _, done = ran(members, replace(ours(), guard=guard), part[0], until_s)
        growths += [_first(done.records, members, number, begins_s) for number in range(len(members))]
    progress(what, len(seeds), len(seeds))
    return growths


def noise_blocked(seeds: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return by draw how often growth that has nothing to do with latency is put down to it: by us, by the paper."""
    window = int(ThreadsUp.window_s / 60)
    own, literal = [], []
    for seed in seeds:
        random = np.random.default_rng([7, seed])
        backlog = np.cumsum(100 * np.exp(0.5 * random.standard_normal((60, 50))), axis=0)
        latency = 5 * np.exp(0.3 * _wandering(random, 60, 50))
        calls = 500 * (1 + 0.1 * random.standard_normal((60, 50)))
        own.append(float(explained_by_service(backlog, latency, calls, calls, window).mean()))
        literal.append(float(backlog_correlates(backlog, latency, window).mean()))
    return own, literal


def _member(seed: int, number: int, case: Case) -> Member:
    """Return an application with a steady load, none of whose resources is short before the trouble."""
    figures = evaluation_parameters(PACKAGE, seed)
    own = archetype(
        figures, number % int(evaluation_parameters(PACKAGE, None).value("sage", "applications")), f"a{number}"
    )
    overload, error_share = (float(figures.value("remote", name)) for name in ("overload", "error_share"))
    overload = max(overload, LEAST_OVERLOAD)
    begins_s, until_s = _moments(case)
    ends_s = until_s if case.lasts_s is None else begins_s + case.lasts_s
    in_flight = IN_FLIGHT if case.is_async else 0
    # Without waiting for each call, answers are still what an instance has least of.
    wait_s = 2 * IN_FLIGHT * own.row_cpu_s if case.is_async else WAIT * own.row_cpu_s
    kept_s = wait_s / in_flight if in_flight else own.row_cpu_s + wait_s
    threads = max(2, int(np.ceil(own.mean_rate * kept_s)))
    rate = threads / (SPARE * kept_s)
    short_s = kept_s * SPARE * overload
    slower = (short_s * in_flight if in_flight else short_s - own.row_cpu_s) / wait_s
    own = replace(
        own,
        rate=Trace((rate,), own.rate.each_s),
        wait=Trace((wait_s,), own.rate.each_s),
        state_bytes=0.0,
        grown_bytes=1.0,
    )
    given = Allocation(
        cores=CORES * rate * own.row_cpu_s,
        memory_bytes=1.3 * (HEAP * own.live_bytes + own.nonheap_bytes),
        heap_bytes=HEAP * own.live_bytes,
        threads=threads,
    )
    return Member(
        own,
        given,
        service=_for_a_while(wait_s, slower, begins_s, ends_s) if case.slow else None,
        errors=Steps([(0.0, 0.0), (begins_s, error_share), (ends_s, 0.0)]) if case.fails else Constant(0.0),
        in_flight=in_flight,
        rate=_for_a_while(rate, SPARE * overload, begins_s, ends_s) if case.loaded else None,
    )


def _for_a_while(value: float, factor: float, begins_s: float, ends_s: float) -> Curve:
    return Steps([(0.0, value), (begins_s, value * factor), (ends_s, value)])


def _moments(case: Case) -> tuple[float, float]:
    """Return when the trouble begins and when the run ends, not before it; all draws of a fleet have the same times."""
    nominal = evaluation_parameters(PACKAGE, None)
    begins_s = float(nominal.value("remote", "begins_s"))
    return begins_s, begins_s + max(float(nominal.value("remote", "lasts_s")), case.lasts_s or 0.0)


def _first(records: Sequence[DecisionRecord], members: Sequence[Member], number: int, begins_s: float) -> float:
    acted = actions_of(records, [member.given for member in members])[number]
    times = [each.time_s - begins_s for each in acted if each.resource == "threads" and each.is_up]
    return min((time for time in times if time >= 0), default=float("inf"))


def _wandering(random: np.random.Generator, ticks: int, columns: int) -> NDArray[np.float64]:
    """Return noise of which each value keeps 0.8 of the one before."""
    values = random.standard_normal((ticks, columns))
    for tick in range(1, ticks):
        values[tick] = 0.8 * values[tick - 1] + 0.6 * values[tick]
    return values
