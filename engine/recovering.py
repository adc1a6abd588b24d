"""A job in this process that survives failures: attempts that each go on from the last checkpoint (engine.md 7).

A thin shell around the life cycle of a job, which decides; `EmbeddedJob` is one attempt.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import Protocol

from penstock.engine import job_states as js
from penstock.engine.background import Background, BackgroundThread
from penstock.engine.checkpoint_metrics import read_checkpoints
from penstock.engine.checkpoint_session import CheckpointSession
from penstock.engine.checkpointing import CheckpointCoordinator
from penstock.engine.clock import SystemClock
from penstock.engine.embedded import LONGEST_WAIT_S, EmbeddedJob, Progress
from penstock.engine.metrics import JobMetrics, no_metrics
from penstock.engine.operators.contract import Clock
from penstock.engine.restart_policy import RestartPolicy
from penstock.engine.restored import LoadedFiles, Restored, check_names
from penstock.engine.snapshots import Snapshots
from penstock.model.config import CheckpointOptions, LoopOptions, RestartOptions
from penstock.model.errors import BugError, OptionError, UserError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.failpoints import failpoint
from penstock.model.job_graph import SinkSpec
from penstock.state.arrow_files import open_files
from penstock.state.checkpoint import CheckpointRepository
from penstock.state.checkpoint_values import Loaded
from penstock.state.durable_files import check_name
from penstock.state.page_store import PageStores
from penstock.state.rocksdb_store import RocksDbStores


@dataclass(frozen=True, slots=True)
class RestoreFrom:
    """Where a job begins: ``latest`` its newest complete checkpoint if there is one, a savepoint by name, or nothing.

    ``drop_state`` lets it leave state behind that the pipeline has no operator for.
    """

    latest: bool = True
    savepoint: str | None = None
    drop_state: bool = False


class Attempt(Protocol):
    """One run of a job, from what it was restored from to its end; `EmbeddedJob` says what the methods do."""

    drained: bool

    def run(self, progress: Progress | None = None) -> None:
        """Run to the end, a stop or a failure."""

    def stop(self, *, drain: bool = False) -> None:
        """Ask for the end."""

    def wake(self) -> None:
        """Let it look again."""

    def metrics(self) -> JobMetrics:
        """Return a snapshot."""


class MakeAttempt(Protocol):
    """Builds an attempt, ready to run."""

    def __call__(
        self,
        name: str,
        graph: ExecutionGraph,
        options: LoopOptions,
        directory: Path,
        /,
        *,
        clock: Clock,
        restored: Restored | None,
        checkpoints: CheckpointSession,
        attempt: int,
    ) -> Attempt:
        """Build as `EmbeddedJob` does."""


class RecoveringJob:
    """A job whose attempts follow each other. `run` works in the calling thread; `stop` may be called from any.

    The simulator hands in what it does otherwise: the repository, the background, what an attempt is, and ``pause``,
    which lets at most so many seconds pass.
    """

    def __init__(
        self,
        name: str,
        graph: ExecutionGraph,
        loop: LoopOptions,
        directory: Path,
        checkpoints: CheckpointOptions,
        restarts: RestartOptions,
        *,
        version: str,
        restore: RestoreFrom = RestoreFrom(),
        clock: Clock | None = None,
        warn: Callable[[str], None] = print,
        repository: CheckpointRepository | None = None,
        background: Background | None = None,
        make_attempt: MakeAttempt = EmbeddedJob,
        pause: Callable[[float], None] | None = None,
        savepoint_on_stop: str | None = None,
    ) -> None:
        """Open the repository; nothing runs yet.

        Raises:
            PlanError: a stateful operator has no name of its own, or a sink cannot take part.
        """
        assert checkpoints.directory is not None
        self.name = name
        self._graph = with_checkpoints(graph)
        self._loop, self._directory, self._restore = loop, directory, restore
        self._clock = clock or SystemClock()
        self._warn = warn
        self._wakened: SimpleQueue[None] = SimpleQueue()
        self._pause = pause or self._sleep
        self._make_attempt = make_attempt
        self._background = background or BackgroundThread(f"penstock-checkpoints-{name}", self._wake)
        if repository is None:
            repository = CheckpointRepository(open_files(checkpoints.directory, name))
        self._repository = repository
        self.session = CheckpointSession(
            CheckpointCoordinator(checkpoints),
            repository,
            Snapshots(repository, name, loop.key_groups, version, self._clock.wall_us, directory / "uploads"),
            self._background,
            self._clock,
        )
        self._life = js.JobLifeCycle(RestartPolicy(restarts))
        self._attempt: Attempt | None = None
        self._stop: bool | None = None
        self._error: BaseException | None = None
        self._told_to_stop = False
        self._passed_over: int | None = None
        self._thread: int | None = None
        if savepoint_on_stop is not None:
            self._check_savepoint(savepoint_on_stop)
            self.session.stop_savepoint = savepoint_on_stop
        self.restarts = 0
        self.drained = True
        self.restored_epoch: int | None = None

    def run(self, progress: Progress | None = None) -> None:
        """Run until everything is committed, restarting after failures that may pass.

        Raises:
            PenstockError: what the job failed of for good.
        """
        self._thread = get_ident()
        try:
            commands: list[js.Command] | None = self._life.on(js.Submitted())
            while commands is not None:
                commands = self._step(commands, progress)
        finally:
            self._background.close()
            self._thread = None
            over = f"job {self.name!r} is over; its last checkpoint stands."
            self.session.savepoints.close(UserError(over))
        if self._error is not None:
            raise self._error
        if self.session.savepoints.unheard is not None:
            raise self.session.savepoints.unheard

    def stop(self, *, drain: bool = False) -> None:
        """Ask for a last checkpoint and the end; ``drain`` ends the inputs first. May be called by a signal handler."""
        self._stop = drain
        attempt = self._attempt
        if attempt is not None:
            attempt.stop(drain=drain)
        self._wake()

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        """Take a savepoint; return its epoch once it is committed. From any thread but the one that runs the job.

        Raises:
            OptionError: the name is not one, or is taken.
            TimeoutError: it was not committed in time; it may be later.
            PenstockError: the job is over, or the savepoint could not be written.
        """
        if self._thread == get_ident():
            raise UserError(f"job {self.name!r} cannot wait for its own savepoint: ask for it from another thread.")
        self._check_savepoint(name)
        asked = self.session.savepoints.ask(name)
        self._wake()
        try:
            return asked.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(
                f"savepoint {name!r} of job {self.name!r} is not committed after {timeout_s} s"
            ) from None

    def metrics(self) -> JobMetrics:
        """Return a snapshot of the attempt that runs, or ran last."""
        found = no_metrics(self.name) if self._attempt is None else self._attempt.metrics()
        return replace(found, checkpoints=read_checkpoints(self.session, self.restarts))

    def _check_savepoint(self, name: str) -> None:
        check_name("savepoint", name)
        if name in self._repository.savepoints():
            raise OptionError(f"there is a savepoint {name!r} already: choose another name or delete it.")

    def _step(self, commands: list[js.Command], progress: Progress | None) -> list[js.Command] | None:
        following: list[js.Command] = []
        for command in commands:
            match command:
                case js.Restore():
                    following += self._run_attempt(command.attempt, progress)
                case js.TakeDown():
                    self._halt()
                    following += self._life.on(js.TakenDown(self._clock.monotonic_ns()))
                case js.RequestStop():
                    # `stop` told the attempt that runs, and `_run_attempt` tells the one that follows.
                    pass
                case js.GiveUp():
                    self._error = command.error
                    return None
                case js.Finish():
                    return None
        if following:
            return following
        return self._wait()

    def _wait(self) -> list[js.Command]:
        """Wait for the next attempt, or for a stop."""
        commands: list[js.Command] = []
        while not commands:
            due_ns = self._life.due_ns()
            if due_ns is None:
                raise BugError(f"job {self.name!r} waits for nothing while {self._life.state.name}")
            self._pause(min(max(0.0, (due_ns - self._clock.monotonic_ns()) / 1e9), LONGEST_WAIT_S))
            if self._stop is not None and not self._told_to_stop:
                self._told_to_stop = True
                commands = self._life.on(js.StopRequested(drain=self._stop))
            else:
                commands = self._life.on(js.Elapsed(self._clock.monotonic_ns()))
        return commands

    def _sleep(self, seconds: float) -> None:
        with suppress(Empty):
            self._wakened.get(timeout=seconds)

    def _run_attempt(self, number: int, progress: Progress | None) -> list[js.Command]:
        try:
            failpoint("job.restoring")
            restored = self._load()
            failpoint("job.loaded")
            recover_sinks(self._graph, restored)
            failpoint("job.sinks_recovered")
            self._attempt = self._make_attempt(
                self.name,
                self._graph,
                self._loop,
                self._directory,
                clock=self._clock,
                restored=restored,
                checkpoints=self.session,
                attempt=number,
            )
            failpoint("job.restored")
            self.restored_epoch = None if restored is None else restored.epoch
            self.restarts = number - 1
            commands = self._life.on(js.Restored(self._clock.monotonic_ns()))
            failpoint("job.running")
            if self._stop is not None:
                self._attempt.stop(drain=self._stop)
            self._attempt.run(progress)
            failpoint("job.ended")
            self.drained = self._attempt.drained
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return self._life.on(js.Failed(self._clock.monotonic_ns(), error))
        return commands + self._life.on(js.LastCommitted())

    def _halt(self) -> None:
        """Wait until no checkpoint is half done."""
        if self._attempt is None:
            return
        failpoint("job.failing")
        self.session.failed("the attempt failed")
        while not self.session.halted():
            self.session.turn()
            self._pause(LONGEST_WAIT_S)
        failpoint("job.taken_down")

    def _load(self) -> Restored | None:
        if self._attempt is None:
            self._repository.sweep()
        loaded = self._choose()
        if loaded is None:
            return None
        warning = loaded.warning()
        if warning is not None:
            self._warn(warning)
        may_drop = self._restore.drop_state
        files = self._directory / "restored"
        return begin_from(loaded, self._repository, self._graph, self._loop.key_groups, files, may_drop=may_drop)

    def _choose(self) -> Loaded | None:
        """Return what to go on from; a job told to begin elsewhere passes over the checkpoints of earlier ones."""
        epochs = self._repository.epochs()
        last = epochs[-1] if epochs else 0
        if self._passed_over is None:
            elsewhere = self._restore.savepoint is not None or not self._restore.latest
            self._passed_over = last if elsewhere else 0
        loaded = self._repository.latest() if last > self._passed_over else None
        if loaded is not None and loaded.manifest.epoch > self._passed_over:
            return loaded
        if last > self._passed_over:
            self._warn("CHECKPOINTS SKIPPED: all since the start are damaged; the job begins where it was told to.")
        return None if self._restore.savepoint is None else self._repository.savepoint(self._restore.savepoint)

    def _wake(self) -> None:
        attempt = self._attempt
        if attempt is not None:
            attempt.wake()
        if self._wakened.empty():
            self._wakened.put(None)


def begin_from(
    loaded: Loaded,
    repository: CheckpointRepository,
    graph: ExecutionGraph,
    key_groups: int,
    directory: Path,
    *,
    may_drop: bool = False,
    page_stores: PageStores | None = None,
) -> Restored:
    """Return a checkpoint as what a plan goes on from; ``may_drop``: state that no operator has the name of.

    Page stores (by default RocksDB's) are opened below ``directory``.

    Raises:
        UserError: it does not fit the plan.
    """
    files = LoadedFiles(repository, loaded.savepoint)
    restored = Restored(loaded.manifest, files, directory, page_stores or RocksDbStores())
    if restored.manifest.key_groups != key_groups:
        raise UserError(
            f"the checkpoint of epoch {restored.epoch} has {restored.manifest.key_groups} key groups, which are "
            f"kept for life, and the job was given {key_groups}: set key_groups back."
        )
    names = frozenset(node.name for node in graph.graph.operators.values())
    check_names(restored, names, may_drop=may_drop)
    return restored


def recover_sinks(graph: ExecutionGraph, restored: Restored | None) -> None:
    """Let all sinks finish or take back what they were at; before any instance is built.

    Raises:
        PenstockError: a sink cannot.
    """
    for node in graph.graph.operators.values():
        if isinstance(node.spec, SinkSpec):
            receipts = () if restored is None else restored.receipts(node.name)
            failpoint("job.sink.recovering")
            node.spec.sink.recover(None if restored is None else restored.epoch, receipts)
            failpoint("job.sink.recovered")


def with_checkpoints(graph: ExecutionGraph) -> ExecutionGraph:
    """Return the plan with sinks that hold rows back until their checkpoint is complete.

    Raises:
        UserError: a sink cannot do so as it is configured.
    """
    operators = dict(graph.graph.operators)
    for operator, node in operators.items():
        if isinstance(node.spec, SinkSpec) and node.spec.sink.transactional:
            node.spec.sink.check_transactional()
            operators[operator] = replace(node, spec=replace(node.spec, sink=node.spec.sink.with_checkpoints()))
    return replace(graph, graph=replace(graph.graph, operators=operators))
