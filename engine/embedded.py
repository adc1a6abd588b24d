"""The embedded executor: a whole job in the calling process, on one thread.

A thin shell: it owns the waiting, the stop and the end; all work happens in the `Worker` it turns.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from penstock.engine.async_calls import IoThread, MakeCalls
from penstock.engine.build import Build, StateFactory, build
from penstock.engine.checkpoint_session import CheckpointSession
from penstock.engine.clock import SystemClock
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.freed_memory import keep_freed_memory
from penstock.engine.ledger import check_ledger, read_ledger
from penstock.engine.metrics import JobMetrics, read_metrics
from penstock.engine.operators.contract import Clock
from penstock.engine.paging.bucket_store import PagingOptions
from penstock.engine.paging.paging import Paging
from penstock.engine.restored import Restored
from penstock.engine.worker import Done, Outcome, Ran, Waiting, Worker
from penstock.model.config import LoopOptions
from penstock.model.execution_graph import ExecutionGraph
from penstock.state.image import StoreImage
from penstock.state.memory_store import MemoryStore
from penstock.state.rocksdb_store import RocksDbStores
from penstock.state.store import StateStore

LONGEST_WAIT_S = 0.05
"""How long the loop sleeps at most, so that a stop or an interrupt is never waited for longer."""

Progress = Callable[[JobMetrics], None]


class EmbeddedJob:
    """One run of a job. `run` turns the loop in the calling thread; `stop` may be called from any other."""

    def __init__(
        self,
        name: str,
        graph: ExecutionGraph,
        options: LoopOptions,
        directory: Path,
        *,
        clock: Clock | None = None,
        dead_letters: DeadLetterWriter | None = None,
        async_calls: MakeCalls = IoThread,
        restored: Restored | None = None,
        checkpoints: CheckpointSession | None = None,
        attempt: int = 1,
    ) -> None:
        """Build and open everything; nothing runs yet. Tests hand in another clock, and who makes async calls.

        The job goes on from ``restored``, and its instances take part in ``checkpoints`` under this attempt.

        Raises:
            PlanError: an operator does not fit its inputs.
        """
        keep_freed_memory()
        self.name = name
        self._clock = clock or SystemClock()
        self._dead_letters = dead_letters or DeadLetterWriter.for_graph(graph.graph, directory)
        self.build: Build = build(
            graph,
            options,
            self._clock,
            _state_factory(options),
            self._dead_letters,
            wake=self.wake,
            async_calls=async_calls,
            restored=restored,
            paging=_paging(options, directory, checkpoints),
        )
        if restored is not None:
            restored.close()
        self._checkpoints = checkpoints
        if checkpoints is not None:
            checkpoints.started(self.build, attempt, restored)
        self.worker = Worker(self.build.instances, self._clock)
        self._started_ns = self._clock.monotonic_ns()
        self._ended_ns: int | None = None
        for instance in self.build.instances:
            instance.accounting.begin(self._started_ns)
        self._stop: bool | None = None
        # Unlike an Event, a SimpleQueue may be used by a signal handler that interrupts whoever waits on it.
        self._wakened: SimpleQueue[None] = SimpleQueue()
        self.drained = True

    def run(self, progress: Progress | None = None) -> None:
        """Run to the end of all inputs or to a stop; close sinks and check the ledger.

        On an error everything is aborted and the error is raised.
        """
        try:
            self._turn(progress)
            self._finish()
        except BaseException as error:
            self._abort(error)
            raise
        finally:
            self._ended_ns = self._clock.monotonic_ns()
        check_ledger(read_ledger(self.build), ended=True)

    def stop(self, *, drain: bool = False) -> None:
        """Ask the loop to stop: what was read is processed and written; ``drain`` also closes open windows.

        May be called from a signal handler.
        """
        self._stop = drain
        self._wakened.put(None)

    def metrics(self) -> JobMetrics:
        """Return a snapshot, the last one when the job has ended; may be called from any thread while it runs."""
        now_ns, wall_us = self._clock.monotonic_ns(), self._clock.wall_us()
        if self._ended_ns is not None:
            now_ns, wall_us = self._ended_ns, wall_us - (now_ns - self._ended_ns) // 1_000
        return read_metrics(self.name, self.build, self._started_ns, now_ns, wall_us)

    def _turn(self, progress: Progress | None) -> None:
        report_ns = self._clock.monotonic_ns()
        while True:
            outcome = self.worker.step()
            if self._checkpoints is not None and self._checkpointed(self._checkpoints, outcome):
                return
            if isinstance(outcome, Done) and self._checkpoints is None:
                return
            if self._stop is not None:
                drain, self._stop = self._stop, None
                self._request_stop(drain)
            elif not isinstance(outcome, Ran):
                self._wait(outcome.until_ns if isinstance(outcome, Waiting) else None)
            if progress is not None and self._clock.monotonic_ns() - report_ns > 200_000_000:
                report_ns = self._clock.monotonic_ns()
                progress(self.metrics())

    def _checkpointed(self, checkpoints: CheckpointSession, outcome: Outcome) -> bool:
        """Let checkpoints go on; return whether the last one is committed.

        Raises:
            PenstockError: a sink could not commit.
        """
        checkpoints.turn()
        if checkpoints.failure is not None:
            raise checkpoints.failure
        if checkpoints.stopped is not None:
            self.drained = checkpoints.stopped.ended
            return True
        if isinstance(outcome, Waiting | Done):
            # A source that was given a barrier can run.
            for instance in self.build.instances:
                self.worker.touch(instance)
        return False

    def wake(self) -> None:
        """Let the loop look again; from any thread, once it runs."""
        self.worker.wake()
        # One entry is enough: whoever takes it steps the loop before waiting again.
        if self._wakened.empty():
            self._wakened.put(None)

    def _wait(self, until_ns: int | None) -> None:
        seconds = LONGEST_WAIT_S
        if until_ns is not None:
            seconds = min(seconds, max(0.0, (until_ns - self._clock.monotonic_ns()) / 1e9))
        with suppress(Empty):
            self._wakened.get(timeout=seconds)

    def _request_stop(self, drain: bool) -> None:
        if self._checkpoints is not None:
            if drain:
                self._checkpoints.drain()
            else:
                self._checkpoints.request(then_stop=True)
            return
        self.drained = drain
        for instance in self.build.instances:
            if instance.head is not None:
                instance.head.stop(drain)
            self.worker.touch(instance)

    def _finish(self) -> None:
        for head in self.build.heads():
            head.close()
        for operator in self.build.operators():
            if self._checkpoints is not None and not self.drained:
                # What came after the last barrier comes again.
                operator.abort()
            else:
                operator.close()
        self._dead_letters.close()

    def _abort(self, error: BaseException) -> None:
        """Release everything; what goes wrong with that is a note to the error that it is done for."""
        closes = [head.close for head in self.build.heads()]
        aborts = [operator.abort for operator in self.build.operators()]
        for release in (*closes, *aborts, self._dead_letters.close):
            try:
                release()
            except Exception as second:
                error.add_note(f"While the job was aborted: {type(second).__name__}: {second}")


def _paging(options: LoopOptions, directory: Path, checkpoints: CheckpointSession | None) -> Paging | None:
    """Page the state of jobs that bound it or take checkpoints; without either it stays in memory as it is."""
    if options.state_bytes is None and checkpoints is None:
        return None
    return Paging(PagingOptions(options.state_bytes), RocksDbStores(), directory / "state")


def _state_factory(options: LoopOptions) -> StateFactory:
    def make(operator: str, instance: int, image: StoreImage) -> StateStore:
        return MemoryStore(operator, options.state_bytes, image)

    return make
