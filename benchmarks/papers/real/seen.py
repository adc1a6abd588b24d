"""A finished run as curves: what was offered, read and taken, by the counts of its processes; and its decisions.

Times are seconds since the first phase began. What is offered is what the broker has confirmed to the injector.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.real.kept_case import FINISHED
from penstock.benchmarks.papers.real.schedule import Phase, phase_bounds
from penstock.engine.control.decision_replay import redecide
from penstock.model.columns import Floats
from penstock.model.snapshot import ClusterSnapshot

ACTIONS = "job/actions.jsonl"


@dataclass(frozen=True, slots=True)
class Curve:
    """A count that grows, and when it was what."""

    at_s: Floats
    rows: Floats

    def at(self, time_s: Floats | float) -> Floats:
        """Return the count at these times, linear between two looks."""
        return np.asarray(np.interp(time_s, self.at_s, self.rows), np.float64)

    def between(self, begin_s: float, end_s: float) -> float:
        """Return what was counted in a window."""
        return float(self.at(end_s) - self.at(begin_s))


class SeenRun:
    """The counts of a run, and its case as plain data."""

    def __init__(self, folder: Path) -> None:
        """Read a finished run.

        Raises:
            OSError: it is not there.
        """
        self.folder = folder
        seen = json.loads((folder / FINISHED).read_text(encoding="utf-8"))
        self.case: Mapping[str, Any] = seen["case"]
        self.capacity: float = seen["capacity"]
        self.capacity_after: float = seen["capacity_after"]
        self.phases = tuple(Phase(**phase) for phase in seen["phases"])
        self.broker_cpu_s: float = seen["broker_cpu_s"]
        self.queries: Mapping[str, Any] = seen["queries"]
        self.exact: Any = seen["exact"]
        self.calibrated: Sequence[Mapping[str, Any]] = seen.get("calibrated", ())
        """What the jobs counted that its capacity was measured with, before and after: ``taken`` and ``busy_ns``."""
        self.topics: tuple[str, ...] = tuple(seen["injected"][0]["delivered"])
        self._injected: Sequence[Mapping[str, Any]] = seen["injected"]
        # Figures that a job says before all of it runs, or when it has ended, are not of the run.
        self.samples: Sequence[Mapping[str, Any]] = [each for each in seen["samples"] if each["read"]]
        self._begin_ns: int = seen["begin_ns"]
        self.job_begun_s = self._seconds(seen["job_begun_ns"])
        self.times_s = np.array([self._seconds(each["at_ns"]) for each in self.samples])

    def _seconds(self, at_ns: int) -> float:
        return (at_ns - self._begin_ns) / 1e9

    def seconds(self, at_ns: NDArray[np.int64]) -> Floats:
        """Return when something was, by the monotonic clock of the machine."""
        return np.asarray((at_ns - self._begin_ns) / 1e9, np.float64)

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """When each phase begins and ends."""
        return phase_bounds(self.phases)

    def offered(self, topics: Sequence[str] | None = None) -> Curve:
        """Return the rows in these topics, or in all."""
        rows = [
            sum(sum(count) for topic, count in each["delivered"].items() if topics is None or topic in topics)
            for each in self._injected
        ]
        return Curve(np.array([self._seconds(each["at_ns"]) for each in self._injected]), np.array(rows, np.float64))

    def read(self) -> Curve:
        """Return the rows that all sources have read."""
        return Curve(self.times_s, np.array([sum(each["read"].values()) for each in self.samples], np.float64))

    def taken(self, query: str) -> Curve:
        """Return the rows that went into a query."""
        operator = self.queries[query]["operator"]
        return Curve(self.times_s, np.array([each["taken"][operator] for each in self.samples], np.float64))

    def lag(self) -> Floats:
        """Return at each sample the rows that were offered and not read."""
        return np.maximum(self.offered().at(self.times_s) - self.read().rows, 0.0)

    def input_s(self) -> Floats:
        """Return the lag at each sample in seconds of the input as it comes then."""
        rate = np.array([self.rows_per_s(float(at)) for at in self.times_s])
        return np.asarray(self.lag() / rate, np.float64)

    def rows_per_s(self, at_s: float) -> float:
        """Return the rate at which rows come to all topics at a time."""
        rates: Mapping[str, float] = self.case.get("rates", {})
        topics = sum(rates.get(topic, 1.0) for topic in self.case["topics"])
        numbers = [number for number, (begin, _) in enumerate(self.bounds) if begin <= max(at_s, 0.0)]
        return self.phases[numbers[-1]].rows_per_s * topics

    def accuracy(self, query: str, begin_s: float, end_s: float) -> float:
        """Return the rows that went into a query over those offered to it in a window."""
        offered = self.offered(self.queries[query]["topics"]).between(begin_s, end_s)
        return self.taken(query).between(begin_s, end_s) / offered if offered else 1.0

    def within(self, begin_s: float, end_s: float) -> list[int]:
        """Return the samples of a window."""
        return np.flatnonzero((self.times_s >= begin_s) & (self.times_s <= end_s)).tolist()

    @property
    def shed(self) -> int:
        """Rows that were shed."""
        return int(self.samples[-1]["shed"])

    def cpu_percent(self) -> Mapping[str, float]:
        """Return the CPU of the injector, of the broker and of the job's process while rows came, percent of a core."""
        injected, length_s = self._injected, self.bounds[-1][1]
        own = self.within(0.0, length_s)
        first, last = self.samples[own[0]], self.samples[own[-1]]
        return {
            "injector": 100.0 * (injected[-1]["cpu_s"] - injected[0]["cpu_s"]) / length_s,
            "broker": 100.0 * self.broker_cpu_s / length_s,
            "job": 1e11 * (last["cpu_s"] - first["cpu_s"]) / (last["at_ns"] - first["at_ns"]),
        }

    def snapshots(self, policy: str) -> list[ClusterSnapshot]:
        """Return what a policy of the job has seen, by its action log."""
        return [each.snapshot for each in redecide(self.folder / ACTIONS, policy, {})]

    def row_s(self, query: str) -> float:
        """Return how long the loop works at a row that goes into a query, as its capacity was measured, seconds."""
        operator = self.queries[query]["operator"]
        busy_ns, rows = 0.0, 0
        for counted in self.calibrated:
            own = [busy for task, busy in counted["busy_ns"].items() if operator in task.split(" -> ")]
            busy_ns, rows = busy_ns + sum(own), rows + counted["taken"][operator]
        return busy_ns / 1e9 / rows
