"""What the suite of attempts is run on: the executors, a job of two regions, and a session that only listens."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.checkpoint.writer import CutWriter, ManifestMaker
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.core.background import BackgroundThread
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import CheckpointPort, Contribution, Participants, Report
from penstock.engine.executors.embedded import EmbeddedOptions, embedded_attempts
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.executors.managers.managed_options import ManagedOptions
from penstock.engine.executors.processes.attempts import ProcessOptions, process_attempts
from penstock.engine.executors.simulated import memory_state
from penstock.engine.executors.simulation.attempt import SimulatedAttempt
from penstock.engine.executors.simulation.faults import NONE
from penstock.engine.executors.simulation.world import World
from penstock.engine.jobs.attempt import Attempt, AttemptContext, JobPlan, MakeAttempt
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.jobs.recovery_options import JobEnvironment
from penstock.model.config import CheckpointOptions, LoopOptions
from penstock.model.connectors import ENDED, NOTHING, Read, Reader, Source
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.local_files import LocalFiles
from tests.contracts.stepped_attempt import SteppedAttempt

SCHEMA = pa.schema({"key": pa.int64(), "value": pa.int64()})
LOOP = LoopOptions(batch_rows=4, channel_bytes=256, key_groups=8, linger_ms=0)
CUTS = 5
"""So many positions of two partitions are those of a third checkpoint, so two are committed."""

PATIENCE_NS = 60_000_000_000

EXECUTORS = ("embedded", "simulated", "stepped", "processes")


class Tap(Source):
    """Two partitions of rows that come while the job runs, until it is closed.

    With a ``failure`` it raises that once, before its end, when it was asked for its position ``CUTS`` times.
    """

    in_caller = True

    def __init__(self) -> None:
        self.rows: tuple[list[dict[str, int]], ...] = ([], [])
        self.closed = False
        self.failure: Exception | None = None
        self.cuts = 0

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def send(self, *values: int) -> None:
        for value in values:
            self.rows[value % 2].append({"key": value % 3, "value": value})

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["0", "1"]

    def open(self, partition: str, position: Any | None) -> Reader:
        return TapReader(self, self.rows[int(partition)], position or 0)


class TapReader(Reader):
    def __init__(self, tap: Tap, rows: list[dict[str, int]], row: int) -> None:
        self._tap, self._rows, self._row = tap, rows, row

    def read(self, max_rows: int) -> Read:
        if self._tap.failure is not None and self._tap.cuts >= CUTS:
            failure, self._tap.failure = self._tap.failure, None
            raise failure
        some = self._rows[self._row : self._row + max_rows]
        self._row += len(some)
        if some:
            return Read(pa.RecordBatch.from_pylist(some, SCHEMA))
        return ENDED if self._tap.closed and self._tap.failure is None else NOTHING

    def position(self) -> int:
        self._tap.cuts += 1
        return self._row


@dataclass
class TwoRegions:
    """Two pipelines that share no channel, each a source and a keyed task behind an exchange, at parallelism 2."""

    taps: Mapping[str, Tap] = field(default_factory=lambda: {"left": Tap(), "right": Tap()})
    sinks: Mapping[str, MemorySink] = field(default_factory=lambda: {"left": MemorySink(), "right": MemorySink()})

    def plan(self) -> ExecutionGraph:
        job = ps.Job()
        for side, tap in self.taps.items():
            sums = ps.read(tap, job=job).name(side).key_by("key").agg(total=ps.sum_("value")).name(f"{side} sums")
            sums.write(self.sinks[side], mode="changelog").name(f"{side} out")
        return job.plan(2, apart=True)

    def totals(self, side: str) -> dict[int, int]:
        """Return the rows that stand in a sink; each key has one."""
        rows = self.sinks[side].table().to_pylist()
        standing = {row["key"]: row["total"] for row in rows}
        assert len(standing) == len(rows)
        return standing

    def expected(self, side: str) -> dict[int, int]:
        sent: dict[int, int] = {}
        for row in (row for rows in self.taps[side].rows for row in rows):
            sent[row["key"]] = sent.get(row["key"], 0) + row["value"]
        return sent


@dataclass(frozen=True)
class Executor:
    """How attempts are made, and what surrounds the job."""

    make: MakeAttempt
    environment: JobEnvironment


def executor(kind: str, folder: Path) -> Executor:
    """Return an executor of `EXECUTORS`."""
    if kind == "simulated":
        world = World(1, NONE, memory_state, None, 1_000, 10_000_000)
        around = JobEnvironment(
            clock=world.clock, repository=world.repository, background=world.background, pause=world.pause
        )
        return Executor(partial(SimulatedAttempt, world), around)
    around = JobEnvironment(repository=CheckpointRepository(LocalFiles(folder / "kept")))
    if kind == "processes":
        managed = ManagedOptions(HostOptions(), BadRecords())
        return Executor(process_attempts(ProcessOptions(2, managed)), around)
    return Executor(SteppedAttempt if kind == "stepped" else embedded_attempts(EmbeddedOptions()), around)


class Listening(CheckpointSession):
    """A session that begins nothing by itself and writes down what it is told."""

    def __init__(self, around: JobEnvironment) -> None:
        assert around.repository is not None
        options = CheckpointOptions(interval_ms=86_400_000, directory="kept")
        manifests = ManifestMaker("job", LOOP.key_groups, "1", around.clock.wall_us)
        background = around.background or BackgroundThread("contract", lambda: None)
        super().__init__(CheckpointCoordinator(options), around.repository, manifests, background, around.clock)
        self.begun_with: list[tuple[CheckpointPort, Participants, AttemptStart]] = []
        self.reports: list[tuple[int, Report]] = []
        self.gone: list[str] = []

    def started(self, port: CheckpointPort, part: Participants, start: AttemptStart) -> None:
        self.begun_with.append((port, part, start))
        super().started(port, part, start)

    def report(self, attempt: int, report: Report) -> None:
        self.reports.append((attempt, report))

    def failed(self, reason: str, names: Collection[str] | None = None) -> None:
        self.gone += sorted(names or ())
        super().failed(reason, names)

    def heard(self, attempt: int | None = None) -> list[str]:
        """Return the names of instances that have reported, sorted."""
        return sorted(report.instance for number, report in self.reports if attempt in (None, number))


class Bench:
    """An attempt under test."""

    def __init__(
        self, kind: str, folder: Path, start: AttemptStart | None = None, job: "TwoRegions | None" = None
    ) -> None:
        chosen = executor(kind, folder)
        self.job = job or TwoRegions()
        self.graph = self.job.plan()
        self.session = Listening(chosen.environment)
        self._clock = chosen.environment.clock
        self._context = AttemptContext(
            chosen.environment.clock, self.session, CutWriter(chosen.environment.repository, folder / "uploads")
        )
        plan = JobPlan("job", self.graph, LOOP, folder / "job")
        self.attempt: Attempt = chosen.make(plan, self._context, start or AttemptStart())

    def tasks(self, side: str) -> frozenset[TaskId]:
        return frozenset(task.id for task in self.graph.tasks if self.graph.name(task).startswith(side))

    def names(self, side: str, *, readers: bool = False) -> list[str]:
        """Return the instances of a region, or those that read."""
        tasks = [task for task in self.graph.tasks if task.id in self.tasks(side)]
        chosen = [task for task in tasks if not readers or self.graph.name(task) == side]
        return sorted(name for task in chosen for name in self.graph.instances(task))

    def until(self, condition: Callable[[], bool]) -> None:
        """Let it go on until the condition holds; after `PATIENCE_NS` of its clock something was lost."""
        until_ns = self._clock.monotonic_ns() + PATIENCE_NS

        def over() -> bool:
            return condition() or self._clock.monotonic_ns() > until_ns

        assert self.attempt.proceed(over, None, None) is None
        assert condition()

    def upload(self, epoch: int) -> Sequence[Contribution]:
        """Let the cuts of an epoch be uploaded while the attempt goes on, as a session does."""
        upload = self.attempt.begin_upload(epoch)
        uploaded: list[Contribution] = []
        thread = Thread(target=lambda: uploaded.extend(upload()))
        thread.start()
        self.until(lambda: not thread.is_alive())
        return uploaded

    def for_a_while(self) -> None:
        """Let it go on for as long as 50 looks take."""
        looks = iter(range(50))
        self.until(lambda: next(looks, None) is None)

    def end(self) -> None:
        self.attempt.take_down(None, RuntimeError("the test is over"))
        self._context.resources.close()
