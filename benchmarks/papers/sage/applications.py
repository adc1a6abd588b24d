"""Applications to be sized: archetypes with multi-modal, heavy-tailed arrivals and service times.

As in Samza, every thread runs all operators over its partitions, so that an application is one task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.parameters import Parameters, evaluation_parameters

Values = NDArray[np.float64]
PACKAGE = "penstock.benchmarks.papers.sage"
"""The package of `parameters.toml`."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Values that hold ``each_s`` seconds each, again and again."""

    values: tuple[float, ...]
    each_s: float

    def __call__(self, time_s: float) -> float:
        """Return the value of this moment."""
        return self.values[int(time_s // self.each_s) % len(self.values)]


@dataclass(frozen=True, slots=True)
class Averaged:
    """A trace as a simulation in steps must see it: the mean over the step that begins.

    Its value at the step's begin would hold for all of the step: some values would last longer, others never come.
    """

    trace: Trace
    step_s: float

    def __call__(self, time_s: float) -> float:
        """Return the mean from this moment to a step later."""
        return (self._until(time_s + self.step_s) - self._until(time_s)) / self.step_s

    def _until(self, time_s: float) -> float:
        """Return the integral from 0."""
        values, each_s = self.trace.values, self.trace.each_s
        cycles, rest_s = divmod(time_s, each_s * len(values))
        place = min(int(rest_s // each_s), len(values) - 1)
        sums = _sums(self.trace)
        return cycles * sums[-1] + sums[place] + values[place] * (rest_s - place * each_s)


@cache
def _sums(trace: Trace) -> Sequence[float]:
    """Return the integrals of a trace up to each value's begin, and over a cycle."""
    return tuple((np.concatenate(([0.0], np.cumsum(trace.values))) * trace.each_s).tolist())


@dataclass(frozen=True, slots=True)
class Application:
    """An application: its trace, what a row costs, what lives.

    ``wait``: seconds that a row waits for a remote call; None: it makes none. ``grown_bytes``: how much larger rows
    become in ``growth_s``. ``state_bytes`` of keys are on the heap in the long run, each for ``retention_s``.
    """

    name: str
    rate: Trace
    row_cpu_s: float
    wait: Trace | None
    live_bytes: float
    state_bytes: float
    retention_s: float
    nonheap_bytes: float
    allocated_bytes: float
    grown_bytes: float
    growth_s: float
    parameters: Parameters

    @property
    def mean_rate(self) -> float:
        """Rows a second in the mean over a cycle."""
        return float(np.mean(self.rate.values))

    @property
    def most_calls_per_s(self) -> float:
        """Calls that its remote service answers a second: no fewer than twice those of the most rows, one for each."""
        return max(float(self.parameters.value("service", "most_calls_per_s")), 2 * max(self.rate.values))

    @property
    def partitions(self) -> int:
        """Partitions of its input: no fewer than the threads that its fullest moment keeps busy."""
        rate = np.array(self.rate.values)
        row_s: Values = np.full(len(rate), self.row_cpu_s)
        if self.wait is not None:
            row_s = row_s + np.array(self.wait.values) / (1 - rate / self.most_calls_per_s)
        return max(int(self.parameters.value("sage", "partitions")), int(np.ceil((rate * row_s).max())))


def latency_bound_s() -> float:
    """Return what is asked: no more rows wait than come in so many seconds in the mean.

    It is no figure of nature, so no draw changes it: the same is asked of brute force, of Sage and in the verdict.
    """
    return float(evaluation_parameters(PACKAGE, None).value("sage", "latency_s"))


def archetype(figures: Parameters, number: int, name: str) -> Application:
    """Return the archetype of a number; its place between the bounds that are drawn stays the same."""
    random = np.random.default_rng([2, number])

    def between(name: str) -> float:
        low, high = sorted(float(figures.value("archetype", f"{name}_{end}")) for end in ("low", "high"))
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    def has(name: str) -> bool:
        return bool(random.random() < figures.value("archetype", f"{name}_share"))

    cores, row_cpu_s = between("cores"), between("row_cpu_s")
    rate = _trace(figures, random, float(figures.value("trace", "burst_sigma")))
    waits = _trace(figures, random, float(figures.value("trace", "slow_sigma")))
    wait_s, state_bytes = between("wait") * row_cpu_s, between("state")
    calls, is_stateful, grows = has("calling"), has("stateful"), has("growing")
    return Application(
        name=name,
        rate=_times(rate, cores / row_cpu_s),
        row_cpu_s=row_cpu_s,
        wait=_times(waits, wait_s) if calls else None,
        live_bytes=between("live"),
        state_bytes=state_bytes if is_stateful else 0.0,
        retention_s=float(figures.value("archetype", "retention_s")),
        nonheap_bytes=between("nonheap"),
        allocated_bytes=between("allocated") * row_cpu_s,
        grown_bytes=float(figures.value("archetype", "grown_bytes")) if grows else 1.0,
        growth_s=float(figures.value("archetype", "growth_s")),
        parameters=figures,
    )


def _trace(figures: Parameters, random: np.random.Generator, sigma: float) -> Trace:
    """Return values of mean 1: levels of a few modes, each for a while, times lognormal factors."""
    each_s, cycle_s, dwell_s = (float(figures.value("trace", name)) for name in ("each_s", "cycle_s", "dwell_s"))
    count = round(cycle_s / each_s)
    modes = int(random.integers(2, max(3, figures.value("trace", "most_modes") + 1)))
    levels = np.linspace(float(figures.value("trace", "mode_low")), 1.0, modes)
    switches = random.random(count) < each_s / dwell_s
    chosen = random.integers(0, modes, count)[np.maximum.accumulate(np.where(switches, np.arange(count), 0))]
    values = levels[chosen] * np.exp(sigma * random.standard_normal(count))
    return Trace(tuple((values / values.mean()).tolist()), each_s)


def _times(trace: Trace, factor: float) -> Trace:
    return Trace(tuple(value * factor for value in trace.values), trace.each_s)
