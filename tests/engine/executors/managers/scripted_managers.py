"""Task managers without a process, as a head has them: they answer every order at once, or as a test says."""

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import penstock as ps
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.control.levers import NO_LEVERS, Levers
from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.engine.core.job_events import JobEvent
from penstock.engine.dataflow.attempt_start import FIRST
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.control_plane import ControlPlane
from penstock.engine.executors.managers.delivery import HEAD, Ends
from penstock.engine.executors.managers.head import Head, HeadParts
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.executors.managers.managed_options import ManagedOptions
from penstock.engine.executors.managers.manager_ranks import ManagerRanks
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.pool_news import News
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.executors.managers.visible_files import visible_files
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.bad_records import BadRecords
from penstock.model.config import LoopOptions
from penstock.model.control import NO_CONTROL, ControlOptions
from penstock.model.errors import RetryableError
from penstock.model.execution_graph import ExecutionGraph

JOB, RUN = "job", 1

Answer = Callable[[str, ms.ToManager], Sequence[ms.ToHead]]
"""Returns what a task manager of a name says to an order."""


def obey(name: str, order: ms.ToManager) -> Sequence[ms.ToHead]:
    """Answer as one does to whom everything succeeds."""
    match order:
        case ms.Setup():
            return [ms.Joined(1, f"nowhere:{name}", visible_files())]
        case ms.Deploy():
            return [ms.Deployed(order.deployment)]
        case ms.TakeDown():
            return [ms.TakenDown(order.tasks, ())]
        case ms.Finish():
            return [ms.Finished(None)]
    return []


class ScriptedManager:
    """The other end of a control link."""

    def __init__(self, name: str, end: socket.socket, clock: Clock, answer: Answer) -> None:
        self.heard: list[ms.ToManager] = []
        self._name, self._answer = name, answer
        self._plane = ControlPlane(clock, self._receive, lambda there, reason: None)
        self._plane.add(end, Ends(JOB, RUN, name, HEAD))

    def say(self, message: ms.ToHead) -> None:
        self._plane.send(HEAD, ms.encode(message))

    def close(self) -> None:
        self._plane.close()

    def _receive(self, there: str, data: bytes) -> None:
        order = ms.decode_for_manager(data)
        self.heard.append(order)
        for message in self._answer(self._name, order):
            self.say(message)


class ScriptedLauncher:
    """Starts such task managers; ``refusals`` are how many starts fail from now on."""

    def __init__(self, clock: Clock, answer: Answer = obey) -> None:
        self.managers: dict[str, ScriptedManager] = {}
        self.started: list[str] = []
        self.left_to_end: list[str] = []
        """Those that the end was waited for."""
        self.refusals = 0
        self.room = False
        """There is room for those that were refused."""
        self.answer = answer
        self._clock = clock
        self._ended: dict[str, str] = {}

    def start(self, name: str) -> socket.socket:
        if self.refusals:
            self.refusals -= 1
            raise RetryableError(f"the process of task manager {name!r} could not be started: no memory")
        here, there = socket.socketpair()
        self.started.append(name)
        self.managers[name] = ScriptedManager(name, there, self._clock, lambda who, order: self.answer(who, order))
        return here

    def has_room(self) -> bool:
        return self.room

    def kill(self, name: str) -> None:
        """Let one end."""
        self.end(name)
        self.managers[name].close()

    def end(self, name: str) -> None:
        """Let the process of one end, whose link is not closed yet."""
        self._ended[name] = "it was killed"

    def ended(self, name: str, patience_s: float = 0.0) -> str | None:
        return self._ended.get(name)

    def cpu_ns(self, name: str) -> int | None:
        return None

    def forget(self, name: str) -> None:
        self.managers.pop(name).close()

    def close(self, grace_s: float) -> None:
        self.left_to_end = list(self.managers)
        for name in self.left_to_end:
            self.forget(name)


class Scene:
    """A head with such task managers, and what it warns of."""

    def __init__(
        self,
        folder: Path,
        count: int = 2,
        answer: Answer = obey,
        clock: Clock | None = None,
        graph: ExecutionGraph | None = None,
        ranks: ManagerRanks | None = None,
        control: ControlOptions = NO_CONTROL,
        levers: Levers = NO_LEVERS,
    ) -> None:
        self.clock = clock or SystemClock()
        self.launcher = ScriptedLauncher(self.clock, answer)
        self.warned: list[str] = []
        self.told: list[JobEvent] = []
        self.plan = JobPlan(JOB, graph or _graph(folder), LoopOptions(), folder / "job")
        setup = ManagerSetup(b"", b"token" * 8, HostOptions())
        parts = HeadParts(self.plan, setup, self.clock, lambda wake: self._pool(count, wake), ranks=ranks)
        self.head = Head(replace(parts, control=control, levers=levers, pack_plan=lambda plan: b""))

    def attempt(self, checkpoints: CheckpointSession | None = None) -> ManagedAttempt:
        """Return an attempt, without checkpoints if there is no session for them, which is deployed and runs."""
        options = ManagedOptions(HostOptions(), BadRecords())
        context = AttemptContext(self.clock, checkpoints, tell=self.told.append)
        return ManagedAttempt(self.plan, self.head, context, options, FIRST)

    def news_until(self, condition: Callable[[], bool]) -> Iterator[News]:
        """Yield the news of the pool until a condition holds."""
        while not condition():
            yield from self.head.pool.turn()

    def _pool(self, count: int, wake: Callable[[], None]) -> ManagerPool:
        return ManagerPool(self.launcher, ControlPlane, self.clock, JOB, RUN, count, wake, self.warned.append)


def _graph(folder: Path) -> ExecutionGraph:
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job)
    bids.key_by("channel").agg(bids=ps.count()).write_json(folder / "out", mode="changelog")
    return job.plan(2, apart=True)
