"""Orders at random to a running job: other numbers of instances, task managers that come and go, moves, and kills."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import penstock as ps
from penstock.dsl.job import Handle
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.moves.move_orders import MoveOrder
from penstock.engine.plan.recut import instances_by_name
from penstock.model.connectors import NOTHING, Read, Reader, Source
from penstock.model.errors import PenstockError, RetryableError
from penstock.model.job_graph import SourceSpec
from tests.contracts.executors.metered import LONG_S, task_managers, until

MOST_INSTANCES = 4
MOST_MANAGERS = 3


class Slowed(Source):
    """Gives the rows of another source, so many a second of each partition until there is a file that says to hurry."""

    def __init__(self, source: Source, rows_per_s: float, hurry: Path) -> None:
        self._source, self._rows_per_s, self._hurry = source, rows_per_s, hurry
        self.bounded, self.aligned = source.bounded, source.aligned

    @property
    def schema(self) -> Any:
        return self._source.schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        return self._source.partitions(parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        return _SlowedReader(self._source.open(partition, position), self._rows_per_s, self._hurry)

    def fix_bounds(self) -> None:
        self._source.fix_bounds()

    def restrict(self, columns: Sequence[str], predicate: Any) -> Source:
        return Slowed(self._source.restrict(columns, predicate), self._rows_per_s, self._hurry)

    def describe(self) -> str:
        return f"{self._source.describe()}, slowly"


class _SlowedReader(Reader):
    def __init__(self, reader: Reader, rows_per_s: float, hurry: Path) -> None:
        self._reader, self._rows_per_s, self._hurry = reader, rows_per_s, hurry
        self._since_s, self._given = time.monotonic(), 0

    def read(self, max_rows: int) -> Read:
        due = max_rows
        if not self._hurry.exists():
            due = int((time.monotonic() - self._since_s) * self._rows_per_s) - self._given
        if due <= 0:
            return NOTHING
        read = self._reader.read(min(max_rows, due))
        self._given += 0 if read.rows is None else read.rows.num_rows
        return read

    def position(self) -> Any:
        return self._reader.position()

    def close(self) -> None:
        self._reader.close()


def slow_down(job: ps.Job, rows_per_s: float, hurry: Path) -> None:
    """Let the sources of a job give so many rows a second of each partition, until they are to hurry."""
    for node in list(job.graph.operators.values()):
        if isinstance(node.spec, SourceSpec):
            job.change(node.id, spec=replace(node.spec, source=Slowed(node.spec.source, rows_per_s, hurry)))


@dataclass
class Steering:
    """Gives orders to a job one after the other; each is done, or was refused with a reason, before the next."""

    handle: Handle
    seed: int
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    processes: Callable[[], Sequence[psutil.Process]] = task_managers
    """Returns the processes of task managers that live."""

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        assert isinstance(self.handle._job, RecoveringJob)
        self._job = self.handle._job

    def give(self, orders: int, kills: int) -> None:
        """Give so many orders that are carried out, and kill task managers in between, as long as the job runs."""
        kinds = {"rescale": self._rescale, "move": self._move, "scale": self._scale, "drain": self._drain}
        killing = set(self._rng.choice(orders, kills, replace=False).tolist())
        done = 0
        while done < orders and self.handle.running:
            if done in killing:
                killing.remove(done)
                self._kill()
            self._await_places()
            kind = str(self._rng.choice(list(kinds), p=[0.45, 0.3, 0.15, 0.1]))
            try:
                kinds[kind]()
            except PenstockError as error:
                self.refused[f"{kind}: {error}"] += 1
            else:
                self.done[kind] += 1
                done += 1

    def _rescale(self) -> None:
        name = str(self._rng.choice(sorted(instances_by_name(self._job.graph))))
        self._job.rescale({name: int(self._rng.integers(1, MOST_INSTANCES + 1))}, LONG_S)

    def _move(self) -> None:
        places = self._job.places()
        if not places:
            raise RetryableError("nothing is up")
        name = str(self._rng.choice(sorted(places)))
        manager = str(self._rng.choice(sorted(set(places.values()))))
        self._job.moves.ask(MoveOrder(name, manager)).answer.result(LONG_S)

    def _scale(self) -> None:
        wanted = int(self._rng.integers(1, MOST_MANAGERS + 1))
        managers = self._job.managers
        managers.resize(wanted)
        self._until(lambda: len(managers.known().live) == wanted and not managers.known().leaving)
        self._job.rescale({}, LONG_S)

    def _drain(self) -> None:
        managers = self._job.managers
        live = sorted(managers.known().live)
        if not live:
            raise RetryableError("nothing is up")
        name = str(self._rng.choice(live))
        managers.drain(name)
        self._until(lambda: name not in (*managers.known().live, *managers.known().leaving))

    def _kill(self) -> None:
        """Kill one once all is up, so that no order of before is still open."""
        self._await_places()
        processes = self.processes()
        if processes:
            os.kill(processes[int(self._rng.integers(len(processes)))].pid, signal.SIGKILL)
            self.done["kill"] += 1

    def _await_places(self) -> None:
        self._until(lambda: bool(self._job.places()) and bool(self._job.managers.known().live))

    def _until(self, condition: Callable[[], bool]) -> None:
        until(lambda: not self.handle.running or condition())
