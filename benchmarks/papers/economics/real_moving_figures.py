"""The figures of a run in which an instance gives what it has away: which, when, and what its neighbours did meanwhile.

By the rows that the sinks have written, which say when each was counted, and by which instance.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.benchmarks.papers.economics.applications import SINKS
from penstock.benchmarks.papers.economics.real_moving import COUNT, INSTANCES
from penstock.benchmarks.papers.real.seen import ACTIONS, SeenRun
from penstock.model.columns import Floats
from penstock.scheduler.action_log import EntryKind, read_log

MEAN_S = 10.0
"""Throughput is a mean over so long."""

_STEP_S = 0.25
_SETTLED_S = 5.0

Who = tuple[str, int]
"""A sink, and the number of an instance that counts for it."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The rows of one sink, in the order in which they were counted: when, of which zone, and by which instance."""

    at_s: Floats
    zone: NDArray[np.int64]
    owner: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moved:
    """A move that was carried out: whose, what the job says of it, and seconds of the run.

    It lasts from the last row that any zone had before it changed its instance to the first that any had after it;
    ``pauses_s`` are by zone how long nobody counted a row.
    """

    who: Who
    said: Mapping[str, Any]
    begin_s: float
    end_s: float
    pauses_s: tuple[float, ...]


def counted(run: SeenRun) -> Mapping[str, Counted]:
    """Return by sink the rows that a run has written."""
    found = {}
    for sink in SINKS:
        files = sorted((run.folder / "job" / sink).glob("*.parquet"))
        table = pa.concat_tables([pq.read_table(path) for path in files]).sort_by("at_ns")
        zone, owner = (table.column(name).to_numpy() for name in ("zone", "owner"))
        found[sink] = Counted(run.seconds(table.column("at_ns").to_numpy()), zone, owner)
    return found


def moves(run: SeenRun) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the instances that have given away what they had, as the action log names them, and what it says of it."""
    results = [entry.content for entry in read_log(run.folder / ACTIONS) if entry.kind is EntryKind.RESULT]
    return [
        (instance, said)
        for result in results
        if result["outcome"] == "applied"
        for instance, said in result["detail"].get("moved", {}).items()
    ]


def failed(run: SeenRun) -> list[str]:
    """Return why moves that were wanted were not done."""
    results = [entry.content for entry in read_log(run.folder / ACTIONS) if entry.kind is EntryKind.RESULT]
    return [why for result in results for why in result["detail"].get("failed", {}).values()]


def is_named(run: SeenRun) -> bool:
    """Return whether the first sink's first instance was the first to move, and no instance of the second ever did."""
    own = [name for name, _ in moves(run)]
    return (
        bool(own)
        and own[0].startswith(SINKS[0] + COUNT)
        and own[0].endswith("[0]")
        and not any(name.startswith(SINKS[1] + COUNT) for name in own)
    )


def first_move(run: SeenRun, rows: Mapping[str, Counted]) -> Moved | None:
    """Return the first move that was carried out, None: none was."""
    for instance, said in moves(run):
        for sink in SINKS:
            if instance.startswith(sink + COUNT):
                number = int(instance.rpartition("[")[2].rstrip("]"))
                changed = list(_changes(rows[sink], number))
                if not changed:
                    return None
                begin_s, end_s = min(before for before, _ in changed), max(after for _, after in changed)
                return Moved((sink, number), said, begin_s, end_s, tuple(after - before for before, after in changed))
    return None


def _changes(rows: Counted, number: int) -> Iterator[tuple[float, float]]:
    """Return of each zone that an instance has given away when it had its last row before, and the next one."""
    for zone in np.unique(rows.zone):
        own = np.flatnonzero(rows.zone == zone)
        away = np.flatnonzero((rows.owner[own][:-1] == number) & (rows.owner[own][1:] != number))
        if away.size:
            yield float(rows.at_s[own[away[0]]]), float(rows.at_s[own[away[0] + 1]])


def dips(rows: Mapping[str, Counted], sink: str, begin_s: float, end_s: float) -> dict[Who, float]:
    """Return in percent by how much the throughput of each neighbour was less in the worst mean around a time.

    Neighbours are the instances of other sinks than ``sink``; they are held against the mean right before that time.
    """
    found = {}
    for other in SINKS:
        for number in range(INSTANCES) if other != sink else ():
            at_s = rows[other].at_s[rows[other].owner == number]
            before = _rows(at_s, begin_s - MEAN_S)
            worst = min(_rows(at_s, from_s) for from_s in np.arange(begin_s - MEAN_S, end_s + _STEP_S, _STEP_S))
            found[other, number] = 100.0 * (1.0 - worst / before)
    return found


def _rows(at_s: Floats, from_s: float) -> int:
    """Return the rows of a mean that begins then."""
    first, last = np.searchsorted(at_s, (from_s, from_s + MEAN_S))
    return int(last - first)


def calm_dips(run: SeenRun, rows: Mapping[str, Counted], moved: Moved) -> list[float]:
    """Return the same of times after the move at which nothing moves, the greatest of the neighbours each time."""
    sink, _ = moved.who
    times = np.arange(moved.end_s + _SETTLED_S + MEAN_S, run.bounds[-1][1] - MEAN_S, _SETTLED_S)
    return [max(dips(rows, sink, float(at_s), float(at_s)).values()) for at_s in times]
