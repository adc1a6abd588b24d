"""The figures of a run of Sage on real parts: how late rows are, the sizes it had, and what was done in which order."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.benchmarks.papers.real.seen import ACTIONS, SeenRun
from penstock.benchmarks.papers.sage.real_applications import QUERY
from penstock.model.columns import Floats
from penstock.scheduler.action_log import EntryKind, read_log, snapshot_of

LATE_S = 0.5
"""So late may 95 of 100 rows be."""

END_S = 10.0
"""The last seconds of the load, by which a size is judged."""

_KINDS = ("memory", "CPU", "parallelism")
_ACTION = re.compile(r": (heap|memory|CPU|parallelism) (up|down), ")


@dataclass(frozen=True, slots=True)
class Lateness:
    """Rows in the order in which they were worked off: when, and how late, seconds."""

    at_s: Floats
    late_s: Floats

    def p95(self, begin_s: float, end_s: float) -> float:
        """Return the 95th percentile within a window; infinite where no row was worked off."""
        own = self.late_s[(self.at_s >= begin_s) & (self.at_s < end_s)]
        return float(np.percentile(own, 95)) if len(own) else float("inf")


def lateness(run: SeenRun) -> Lateness:
    """Read how late rows were, by what a run has written."""
    table = pa.concat_tables([pq.read_table(path) for path in sorted((run.folder / "job" / QUERY).glob("*.parquet"))])
    table = table.sort_by("at_ns")
    return Lateness(run.seconds(table.column("at_ns").to_numpy()), table.column("late_ms").to_numpy() / 1e3)


def end_p95(run: SeenRun) -> float:
    """Return how late 95 of 100 rows are at the end of the load."""
    end_s = run.bounds[-1][1]
    return lateness(run).p95(end_s - END_S, end_s)


def late_share(run: SeenRun) -> float:
    """Return the share of the seconds of the load in which rows were later than they may be."""
    rows, end_s = lateness(run), int(run.bounds[-1][1])
    return float(np.mean([rows.p95(second, second + 1) > LATE_S for second in range(end_s)]))


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a run had at each look: memory of state in bytes, cores, task managers."""

    at_s: Floats
    memory: Floats
    cores: Floats
    workers: Floats


def sizes(run: SeenRun) -> Sizes:
    """Read the sizes of a run from its action log; times are since its first look."""
    path, found = run.folder / ACTIONS, []
    for entry in read_log(path):
        if entry.kind is EntryKind.SNAPSHOT:
            snapshot = snapshot_of(path, entry)
            own = snapshot.applications
            if own.memory_bytes is not None and own.cores is not None and own.threads is not None:
                found.append((snapshot.time_s, own.memory_bytes[0], own.cores[0], own.threads[0]))
    columns = np.array(found, np.float64).T
    return Sizes(*columns)


@dataclass(frozen=True, slots=True)
class Action:
    """What was done: memory, CPU or parallelism, up or down, on the snapshot of a number."""

    what: str
    is_up: bool
    number: int


def actions(path: Path) -> list[Action]:
    """Return what was applied, in order, by a run's action log."""
    reasons: dict[int, str] = {}
    found = []
    for entry in read_log(path):
        if entry.kind is EntryKind.DECISION and entry.content["decision"].get("applications"):
            reasons[entry.content["snapshot"]] = entry.content["decision"]["reason"]
        if entry.kind is EntryKind.RESULT and entry.content["outcome"] == "applied":
            number = entry.content["snapshot"]
            for what, way in _ACTION.findall(reasons.get(number, "")):
                # Heap and memory of a job are one.
                found.append(Action("memory" if what == "heap" else what, way == "up", number))
    return found


def keeps_order(done: Sequence[Action]) -> bool:
    """Return whether each resource first grew after those that go before it, of those that grew at all."""
    firsts = [[action.number for action in done if action.is_up and action.what == kind][:1] for kind in _KINDS]
    known = [first[0] for first in firsts if first]
    return known == sorted(known)


def undone(done: Sequence[Action]) -> int:
    """Return how often a resource grew again after it had shrunk."""
    return sum(
        later.is_up and later.what == earlier.what and not earlier.is_up
        for place, earlier in enumerate(done)
        for later in done[place + 1 :]
    )
