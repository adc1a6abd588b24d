"""A job in this process that survives failures: attempts that each go on from the last checkpoint (engine.md 7).

A thin shell around the life cycle of a job, which decides; `EmbeddedJob` is one attempt.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue

from penstock.engine import job_states as js
from penstock.engine.background import BackgroundThread
from penstock.engine.checkpoint_session import CheckpointSession
from penstock.engine.checkpointing import CheckpointCoordinator
from penstock.engine.clock import SystemClock
from penstock.engine.embedded import EmbeddedJob, Progress
from penstock.engine.metrics import JobMetrics
from penstock.engine.operators.contract import Clock
from penstock.engine.restart_policy import RestartPolicy
from penstock.engine.restored import Restored, check_names
from penstock.engine.snapshots import Snapshots
from penstock.model.config import CheckpointOptions, LoopOptions, RestartOptions
from penstock.model.errors import BugError, UserError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SinkSpec
from penstock.state.arrow_files import open_files
from penstock.state.checkpoint import CheckpointRepository
from penstock.state.checkpoint_values import Loaded


@dataclass(frozen=True, slots=True)
class RestoreFrom:
    """Where a job begins: ``latest`` its newest complete checkpoint if there is one, a savepoint by name, or nothing.

    ``drop_state`` lets it leave state behind that the pipeline has no operator for.
    """

    latest: bool = True
    savepoint: str | None = None
    drop_state: bool = False


class RecoveringJob:
    """A job whose attempts follow each other. `run` works in the calling thread; `stop` may be called from any."""

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
        self._background = BackgroundThread(f"penstock-checkpoints-{name}", self._wake)
        repository = CheckpointRepository(open_files(checkpoints.directory, name))
        self._repository = repository
        self.session = CheckpointSession(
            CheckpointCoordinator(checkpoints),
            repository,
            Snapshots(repository, name, loop.key_groups, version, self._clock.wall_us),
            self._background,
            self._clock,
        )
        self._life = js.JobLifeCycle(RestartPolicy(restarts))
        self._attempt: EmbeddedJob | None = None
        self._stop: bool | None = None
        self._error: BaseException | None = None
        self._told_to_stop = False
        self.restarts = 0
        self.drained = True
        self.restored_epoch: int | None = None

    def run(self, progress: Progress | None = None) -> None:
        """Run until everything is committed, restarting after failures that may pass.

        Raises:
            PenstockError: what the job failed of for good.
        """
        try:
            commands: list[js.Command] | None = self._life.on(js.Submitted())
            while commands is not None:
                commands = self._step(commands, progress)
        finally:
            self._background.close()
        if self._error is not None:
            raise self._error

    def stop(self, *, drain: bool = False) -> None:
        """Ask for a last checkpoint and the end; ``drain`` ends the inputs first. May be called by a signal handler."""
        self._stop = drain
        attempt = self._attempt
        if attempt is not None:
            attempt.stop(drain=drain)
        self._wake()

    def metrics(self) -> JobMetrics:
        """Return a snapshot of the attempt that runs, or ran last."""
        if self._attempt is None:
            raise BugError(f"job {self.name!r} has not begun")
        return self._attempt.metrics()

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
        due_ns = self._life.due_ns()
        if due_ns is None:
            raise BugError(f"job {self.name!r} waits for nothing while {self._life.state.name}")
        seconds = max(0.0, (due_ns - self._clock.monotonic_ns()) / 1e9)
        with suppress(Empty):
            self._wakened.get(timeout=min(seconds, 0.05))
        if self._stop is not None and not self._told_to_stop:
            self._told_to_stop = True
            return self._life.on(js.StopRequested(drain=self._stop))
        return self._life.on(js.Elapsed(self._clock.monotonic_ns())) or self._wait()

    def _run_attempt(self, number: int, progress: Progress | None) -> list[js.Command]:
        try:
            restored = self._load()
            self._recover_sinks(restored)
            self._attempt = EmbeddedJob(
                self.name,
                self._graph,
                self._loop,
                self._directory,
                clock=self._clock,
                restored=restored,
                checkpoints=self.session,
                attempt=number,
            )
            self.restored_epoch = None if restored is None else restored.epoch
            self.restarts = number - 1
            commands = self._life.on(js.Restored(self._clock.monotonic_ns()))
            if self._stop is not None:
                self._attempt.stop(drain=self._stop)
            self._attempt.run(progress)
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
        self.session.failed("the attempt failed")
        while not self.session.halted():
            self.session.turn()
            with suppress(Empty):
                self._wakened.get(timeout=0.05)

    def _load(self) -> Restored | None:
        loaded: Loaded | None = None
        first = self._attempt is None
        if first:
            self._repository.sweep()
        if first and self._restore.savepoint is not None:
            loaded = self._repository.savepoint(self._restore.savepoint)
        elif self._restore.latest or not first:
            loaded = self._repository.latest()
        if loaded is None:
            return None
        warning = loaded.warning()
        if warning is not None:
            self._warn(warning)
        restored = Restored(loaded.manifest, lambda entry: self._repository.read(entry, loaded.savepoint))
        if restored.manifest.key_groups != self._loop.key_groups:
            raise UserError(
                f"the checkpoint of epoch {restored.epoch} has {restored.manifest.key_groups} key groups, which are "
                f"kept for life, and the job was given {self._loop.key_groups}: set key_groups back."
            )
        names = frozenset(node.name for node in self._graph.graph.operators.values())
        check_names(restored, names, may_drop=self._restore.drop_state)
        return restored

    def _recover_sinks(self, restored: Restored | None) -> None:
        for node in self._graph.graph.operators.values():
            if isinstance(node.spec, SinkSpec):
                receipts = () if restored is None else restored.receipts(node.name)
                node.spec.sink.recover(None if restored is None else restored.epoch, receipts)

    def _wake(self) -> None:
        attempt = self._attempt
        if attempt is not None:
            attempt.wake()
        if self._wakened.empty():
            self._wakened.put(None)


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
