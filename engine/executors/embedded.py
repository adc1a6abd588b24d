"""The embedded executor: a whole job in the calling process, on one thread.

A thin shell: it owns the waiting, the stop and the end; all work happens in the `Worker` it turns.
"""

import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

from penstock.engine.checkpoint.run_scratch import RunScratch
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.connectors.letter_routes import LetterRoutes
from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.core.clock import SystemClock
from penstock.engine.core.collector import keep_collections_short
from penstock.engine.core.contract import Clock
from penstock.engine.core.freed_memory import keep_freed_memory
from penstock.engine.core.interpreter_lock import hand_over_soon
from penstock.engine.dataflow.build import Build, StateFactory, build
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.worker import Done, Ran, Waiting, Worker
from penstock.engine.jobs.attempt import Progress, Struck
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.jobs.leases import Leases
from penstock.engine.jobs.ledger import check_ledger, read_ledger
from penstock.engine.jobs.metrics import JobMetrics, read_metrics
from penstock.engine.paging.bucket_store import PagingOptions
from penstock.engine.paging.paging import Paging
from penstock.engine.plan.regions import struck_by
from penstock.engine.restore.state_assignment import Restored
from penstock.model.config import LoopOptions
from penstock.model.dead_letters import LetterTarget
from penstock.model.errors import DeadLetterLimitError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import OperatorId, TaskId
from penstock.state.store import StateStore
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.stores.rocksdb_store import RocksDbStores
from penstock.state.tables.image import StoreImage

LONGEST_WAIT_S = 0.5
"""How long the loop sleeps at most. Whoever has something for it wakes it; this is for a wake that never comes."""

PROGRESS_NS = 200_000_000
"""How often progress is reported."""

__all__ = ["LONGEST_WAIT_S", "EmbeddedJob", "Progress"]


class EmbeddedJob:
    """One run of a job. `run` turns the loop in the calling thread; `stop` may be called from any other.

    With checkpoints it is an `Attempt`, which says what its other methods do.
    """

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
        letters: LetterTarget | None = None,
        keeps: bool = False,
        bad_records: BadRecords | None = None,
        leases: Leases | None = None,
    ) -> None:
        """Build and open everything; nothing runs yet. Tests hand in another clock, and who makes async calls.

        The job goes on from ``restored``, and its instances take part in ``checkpoints`` under this attempt.
        ``letters`` is where dead letters go that have no target of their source's; None: into a file. One that
        ``keeps``, which needs checkpoints, leaves windows open when its inputs have ended, and stops at a checkpoint.
        ``bad_records`` are those of the whole run, over all attempts; None: any number is borne. ``leases`` are those
        of the outputs of a job without checkpoints.

        Raises:
            PlanError: an operator does not fit its inputs.
            InUseError: another run that lives writes to an output of this one.
        """
        keep_freed_memory()
        keep_collections_short()
        hand_over_soon()
        self.name = name
        self._clock = clock or SystemClock()
        self._routes = LetterRoutes(name, graph.graph, letters)
        self._dead_letters = dead_letters or DeadLetterWriter.for_graph(graph.graph, directory, self._routes)
        self._bad_records = bad_records or BadRecords()
        self._dead_letters.on_first = self._bad_records.met
        self._graph, self._options, self._async_calls = graph, options, async_calls
        lent = None if checkpoints is None else checkpoints.scratch
        self._own_scratch = RunScratch(directory) if lent is None else None
        self._checkpoints = checkpoints
        self._keeps = keeps
        self.at_end = False
        self.worker = Worker((), self._clock, quiet_ns=options.linger_ms * 1_000_000)
        self._ended_ns: int | None = None
        self._stop: bool | None = None
        self._stopping = False
        # Unlike an Event, a SimpleQueue may be used by a signal handler that interrupts whoever waits on it.
        self._wakened: SimpleQueue[None] = SimpleQueue()
        self.drained = True
        self._leases = leases or Leases(None, ())
        try:
            self._leases.acquire(None, time.sleep, _say, self.wake)
            self._paging = _paging(options, lent or self._own_scratch, checkpoints)
            if dead_letters is None:
                self._open_routes()
            self.build: Build = self._built(restored, None)
        except BaseException:
            self._dead_letters.abort()
            self._close_scratch()
            self._leases.release()
            raise
        self._started_ns = self._begin(self.build, restored, attempt)

    @property
    def has_run(self) -> bool:
        """It is built, so it can stop in order."""
        return True

    def run(self, progress: Progress | None = None) -> None:
        """Run to the end of all inputs or to a stop; close sinks and check the ledger.

        On an error everything is aborted and the error is raised.
        """
        try:
            struck = self._turn(_never, None, progress)
            if struck is not None:
                raise struck.error
            self._leases.check()
        except BaseException as error:
            self.take_down(None, error)
            self._leases.release()
            raise
        try:
            self.finish()
        finally:
            self._leases.release()

    def proceed(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        """Let all that is up run until ``until`` says so, something raises, or the last checkpoint is committed."""
        try:
            return self._turn(until, until_ns, progress)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            at = self.worker.at
            return Struck(error, None if at is None else self._tasks_of(at))

    def is_up(self) -> bool:
        """Return whether there is an instance that was neither taken down nor finished."""
        return self._ended_ns is None and bool(self.worker.instances)

    def take_down(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Abort the instances of these tasks (None: all); what goes wrong with that is a note to the error."""
        gone = [item for item in self.worker.instances if tasks is None or not tasks.isdisjoint(self._tasks_of(item))]
        self.worker.remove(gone)
        self._bad_records.ended(self.build, self._operators_of(gone))
        releases = [item.head.close for item in gone if item.head is not None]
        releases += [node.operator.abort for item in gone for node in item.nodes]
        if tasks is None:
            releases.append(self._dead_letters.abort)
            self._ended_ns = self._clock.monotonic_ns()
        for release in releases:
            try:
                release()
            except Exception as second:
                error.add_note(f"While the job was aborted: {type(second).__name__}: {second}")
        if tasks is None:
            self._close_scratch()
        if self._checkpoints is not None:
            self._checkpoints.failed(f"{type(error).__name__}: {error}", gone)

    def restore(self, tasks: frozenset[TaskId], restored: Restored | None, attempt: int) -> None:
        """Build regions anew."""
        region = self._built(restored, tasks)
        self.build.replace(region)
        self._begin(region, restored, attempt)

    def finish(self) -> None:
        """Close everything and check the ledger; on an error everything is aborted and the error is raised."""
        try:
            self._close()
        except BaseException as error:
            self.take_down(None, error)
            raise
        finally:
            self._ended_ns = self._clock.monotonic_ns()
            self._close_scratch()
        check_ledger(read_ledger(self.build), ended=True)

    def stop(self, *, drain: bool = False) -> None:
        """Ask the loop to stop: what was read is processed and written; ``drain`` also closes open windows.

        May be called from a signal handler.
        """
        self._stop = drain
        self._wakened.put(None)

    def metrics(self) -> JobMetrics:
        """Return a snapshot, the last one when the job has ended; may be called from any thread while it runs."""
        stepped_ns = self.worker.stepped_ns
        now_ns, wall_us = self._clock.monotonic_ns(), self._clock.wall_us()
        if self._ended_ns is not None:
            now_ns, wall_us, stepped_ns = self._ended_ns, wall_us - (now_ns - self._ended_ns) // 1_000, None
        found = read_metrics(self.name, self.build, self._started_ns, now_ns, wall_us, stepped_ns)
        return replace(found, bad_records=self._bad_records.lines(self.build))

    def _open_routes(self) -> None:
        if self._checkpoints is not None:
            checkpoints = self._checkpoints
            self._routes.epoch = lambda: checkpoints.begun
            checkpoints.flush_letters = self._dead_letters.flush
        self._routes.open()

    def _built(self, restored: Restored | None, tasks: frozenset[TaskId] | None) -> Build:
        made = build(
            self._graph,
            self._options,
            self._clock,
            _state_factory(self._options),
            self._dead_letters,
            wake=self.wake,
            async_calls=self._async_calls,
            restored=restored,
            paging=self._paging,
            tasks=tasks,
            keeps=self._keeps,
        )
        if restored is not None:
            restored.close()
        return made

    def _begin(self, part: Build, restored: Restored | None, attempt: int) -> int:
        """Let instances that were built run from the next step on; return the time."""
        self._routes.attempt = attempt
        self.at_end = False
        if self._checkpoints is not None:
            self._checkpoints.started(part, attempt, restored)
        self._bad_records.began(part)
        self.worker.add(part.instances)
        now_ns = self._clock.monotonic_ns()
        for instance in part.instances:
            instance.accounting.begin(now_ns)
        return now_ns

    def _turn(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        report_ns = self._clock.monotonic_ns()
        while not until():
            outcome = self.worker.step()
            failure = self._dead_letters.failure or self._verdict()
            if failure is not None:
                return Struck(failure, None)
            if self._leases.fenced is not None:
                return Struck(self._leases.fenced, None)
            if self._checkpoints is not None:
                struck = self._checkpointed(self._checkpoints)
                if struck is not None or self._checkpoints.stopped is not None:
                    return struck
            elif isinstance(outcome, Done):
                return None
            if self._stop is not None:
                drain, self._stop = self._stop, None
                self._request_stop(drain)
            elif not isinstance(outcome, Ran):
                self._stop_at_end()
                times = [
                    until_ns,
                    outcome.until_ns if isinstance(outcome, Waiting) else None,
                    None if self._checkpoints is None else self._checkpoints.due_ns(),
                    None if progress is None else report_ns + PROGRESS_NS,
                ]
                # Checkpoints that went on behind the step may have sent barriers.
                if not self.worker.is_touched():
                    self._wait(min((time_ns for time_ns in times if time_ns is not None), default=None))
            if progress is not None and self._clock.monotonic_ns() - report_ns >= PROGRESS_NS:
                report_ns = self._clock.monotonic_ns()
                progress(self.metrics())
        return None

    def _verdict(self) -> DeadLetterLimitError | None:
        """Return why the job must fail of its bad records, before the checkpoint behind them is published."""
        last = self._checkpoints.last_barrier if self._checkpoints is not None and self.at_end else None
        return self._bad_records.verdict(self.build, stopping=self._stopping, last_barrier=last)

    def _checkpointed(self, checkpoints: CheckpointSession) -> Struck | None:
        """Let checkpoints go on; return it if a sink could not commit."""
        checkpoints.turn()
        failure = checkpoints.take_failure()
        if failure is not None:
            return Struck(failure.error, struck_by(self._graph, failure.sink))
        if checkpoints.stopped is not None:
            self.drained = checkpoints.stopped.ended
        return None

    def _stop_at_end(self) -> None:
        """Ask for the last checkpoint once no source has anything more for this run, and no call is on its way.

        A checkpoint keeps the rows of such calls for a later run, which might end as early.
        """
        if self._checkpoints is None or not self._keeps or self.at_end or not self.is_up():
            return
        if not all(head.exhausted for head in self.build.heads()):
            return
        if not any(operator.unanswered() for operator in self.build.operators()):
            self.at_end = True
            self._checkpoints.stop_at_end()

    def _tasks_of(self, instance: Instance) -> frozenset[TaskId]:
        return self.build.tasks_of((instance,))

    def _operators_of(self, instances: Collection[Instance]) -> frozenset[OperatorId]:
        tasks = self.build.tasks_of(instances)
        return frozenset(operator for task in self._graph.tasks if task.id in tasks for operator in task.operators)

    def wake(self, instance: str | None = None) -> None:
        """Let the loop look again, also at this instance if one is named; from any thread, once it runs."""
        if instance is not None:
            self.worker.wake(instance)
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
        self._stopping = True
        if self._checkpoints is not None:
            if drain:
                self._checkpoints.drain()
            else:
                self._checkpoints.request(then_stop=True)
            return
        self.drained = drain
        for instance in self.build.instances:
            if instance.head is not None:
                instance.end_input(drain=drain)

    def _close_scratch(self) -> None:
        if self._own_scratch is not None:
            self._own_scratch.close()

    def _close(self) -> None:
        for head in self.build.heads():
            head.close()
        for operator in self.build.operators():
            if self._checkpoints is not None and not self.drained:
                # What came after the last barrier comes again.
                operator.abort()
            else:
                operator.close()
        self._dead_letters.close()


def _never() -> bool:
    return False


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _paging(options: LoopOptions, scratch: RunScratch | None, checkpoints: CheckpointSession | None) -> Paging | None:
    """Page the state of jobs that bound it or take checkpoints; without either it stays in memory as it is."""
    if options.state_bytes is None and checkpoints is None:
        return None
    assert scratch is not None
    scratch.claim()
    return Paging(PagingOptions(options.state_bytes), RocksDbStores(), scratch.path / "state")


def _state_factory(options: LoopOptions) -> StateFactory:
    def make(operator: str, instance: int, image: StoreImage) -> StateStore:
        return MemoryStore(operator, options.state_bytes, image)

    return make
