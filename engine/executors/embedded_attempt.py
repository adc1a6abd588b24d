"""One attempt of a job in the calling process: its instances in one worker loop on one thread.

A thin shell: it owns the waiting, the stop and the end; all work happens in the `Worker` it turns.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

from penstock.engine.checkpoint.local_cuts import LocalCuts
from penstock.engine.checkpoint.run_scratch import RunScratch
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.connectors.letter_routes import LetterRoutes
from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.attempt_start import FIRST, AttemptStart
from penstock.engine.dataflow.build import Build, build
from penstock.engine.dataflow.checkpoint_port import Contribution, InstanceReport, participants
from penstock.engine.dataflow.cut import InstanceCut
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.instance_services import InstanceServices
from penstock.engine.dataflow.local_instances import LocalInstances
from penstock.engine.dataflow.worker import Done, Ran, Waiting, Worker
from penstock.engine.jobs.attempt import LONGEST_WAIT_S, AttemptContext, JobPlan, Progress, Struck
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.jobs.ledger import check_ledger, read_ledger
from penstock.engine.jobs.metrics import JobMetrics, read_metrics
from penstock.engine.jobs.stop_patience import StopPatience
from penstock.engine.operators.sink import LOOK_NS
from penstock.engine.paging.bucket_store import PagingOptions
from penstock.engine.paging.paging import Paging
from penstock.engine.plan.regions import struck_by
from penstock.model.config import LoopOptions
from penstock.model.dead_letters import LetterTarget
from penstock.model.errors import DeadLetterLimitError, FatalError
from penstock.model.ids import OperatorId, TaskId
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.stores.rocksdb_store import RocksDbStores

PROGRESS_NS = 200_000_000
"""How often progress is reported."""


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """Options of a run in this process that override its plan.

    ``letters`` is where dead letters go that have no target of their source's; None: into a file, as all do that are
    not ``routed``. One that ``keeps``, which needs checkpoints, leaves windows open when its inputs have ended, and
    stops at a checkpoint. ``bad_records`` are those of the whole run, over all attempts; None: any number is borne.
    ``async_calls`` makes what runs coroutines.
    """

    letters: LetterTarget | None = None
    routed: bool = True
    keeps: bool = False
    bad_records: BadRecords | None = None
    async_calls: MakeCalls = IoThread


class EmbeddedAttempt:
    """An `Attempt` in this process, which says what its methods do; it also runs a job without checkpoints."""

    def __init__(
        self,
        plan: JobPlan,
        options: EmbeddedOptions,
        clock: Clock,
        context: AttemptContext | None = None,
        start: AttemptStart = FIRST,
    ) -> None:
        """Build and open everything; nothing runs yet. Without ``context`` there are no checkpoints.

        Raises:
            PlanError: an operator does not fit its inputs.
        """
        self._plan, self._options, self._clock = plan, options, clock
        self._checkpoints = checkpoints = None if context is None else context.checkpoints
        scratch = None if context is None else context.scratch
        self._bad_records = options.bad_records or BadRecords()
        self._routes = LetterRoutes(
            plan.name, plan.graph.graph, options.letters, lambda: 0 if checkpoints is None else checkpoints.begun
        )
        routes = self._routes if options.routed else None
        self._dead_letters = DeadLetterWriter.for_graph(plan.graph.graph, plan.directory, routes, self._bad_records.met)
        self._cuts = None if context is None else LocalCuts(context.cut_writer, self._dead_letters.flush)
        self._own_scratch = RunScratch(plan.directory) if scratch is None else None
        self.at_end = False
        self.drained = True
        self.worker = Worker((), clock, quiet_ns=plan.loop.linger_ms * 1_000_000)
        self._instances = LocalInstances()
        self._ended_ns: int | None = None
        self._stop: bool | None = None
        self._stopping = False
        self._stop_patience: StopPatience | None = None
        self._look_ns = 0
        # Unlike an Event, a SimpleQueue may be used by a signal handler that interrupts whoever waits on it.
        self._wakened: SimpleQueue[None] = SimpleQueue()
        try:
            self._services = InstanceServices(
                clock,
                lambda operator, instance, image: MemoryStore(operator, plan.loop.state_bytes, image),
                self._dead_letters,
                wake=self.wake,
                async_calls=options.async_calls,
                paging=_paging(plan.loop, scratch or self._own_scratch, paged=checkpoints is not None),
                report=None if checkpoints is None else self._report,
                keeps=options.keeps,
            )
            if options.routed:
                self._routes.open()
            self.build = build(plan.graph, plan.loop, self._services, start)
        except BaseException:
            self._dead_letters.abort()
            self._close_scratch()
            raise
        self._started_ns = self._begin(self.build, start, None)

    def proceed(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        """Turn the loop; without checkpoints, until every instance has ended."""
        try:
            return self._turn(until, until_ns, progress)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            at = self.worker.at
            return Struck(error, None if at is None else self.build.tasks_of((at,)))

    def is_up(self) -> bool:
        """Return whether there is an instance that was neither taken down nor finished."""
        return self._ended_ns is None and bool(self.worker.instances)

    def take_down(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Abort the instances of these tasks (None: all); what goes wrong with that is a note to the error."""
        failed = [
            item for item in self._instances if tasks is None or not tasks.isdisjoint(self.build.tasks_of((item,)))
        ]
        self.worker.remove(failed)
        self._instances.remove(failed)
        self._bad_records.ended(self.build, self._operators_of(failed))
        releases = [item.head.close for item in failed if item.head is not None]
        releases += [node.operator.abort for item in failed for node in item.nodes]
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
        if self._checkpoints is not None and self._cuts is not None:
            names = [item.name for item in failed]
            self._cuts.forget(names)
            self._checkpoints.failed(f"{type(error).__name__}: {error}", names)

    def restore(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        """Build regions anew."""
        region = build(self._plan.graph, self._plan.loop, self._services, start, tasks)
        self.build.replace(region)
        self._begin(region, start, tasks)

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

    def wake(self, instance: str | None = None) -> None:
        """Let the loop look again, also at this instance if one is named; from any thread, once it runs."""
        if instance is not None:
            self.worker.wake(instance)
        # One entry is enough: whoever takes it steps the loop before waiting again.
        if self._wakened.empty():
            self._wakened.put(None)

    def inject(self, epoch: int, names: Collection[str], *, last: bool) -> None:
        """Let sources send a barrier."""
        self._instances.inject(epoch, names, last=last)

    def end_sources(self, names: Collection[str]) -> None:
        """Let sources end."""
        self._instances.end_sources(names)

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        """Return what uploads the cuts of an epoch."""
        assert self._cuts is not None
        return self._cuts.begin_upload(epoch)

    def give_up(self, epoch: int) -> None:
        """Let go of the cuts of an epoch."""
        assert self._cuts is not None
        self._cuts.give_up(epoch)

    def _report(self, attempt: int, report: InstanceReport) -> None:
        assert self._checkpoints is not None and self._cuts is not None
        self._checkpoints.report(attempt, self._cuts.take(report) if isinstance(report, InstanceCut) else report)

    def metrics(self) -> JobMetrics:
        """Return a snapshot, the last one when the job has ended; may be called from any thread while it runs."""
        stepped_ns = self.worker.stepped_ns
        now_ns, wall_us = self._clock.monotonic_ns(), self._clock.wall_us()
        if self._ended_ns is not None:
            now_ns, wall_us, stepped_ns = self._ended_ns, wall_us - (now_ns - self._ended_ns) // 1_000, None
        read = read_metrics(self._plan.name, self.build, self._started_ns, now_ns, wall_us, stepped_ns)
        return replace(read, bad_records=self._bad_records.lines(self.build))

    def _begin(self, part: Build, start: AttemptStart, tasks: frozenset[TaskId] | None) -> int:
        """Let instances that were built run from the next step on; return the time."""
        self._routes.begin(start.attempt)
        self.at_end = False
        self._instances.add(part.instances)
        if self._checkpoints is not None:
            self._checkpoints.started(self, participants(self._plan.graph, tasks), start)
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
            failure = self._dead_letters.failure or self._verdict() or self._undelivered()
            if failure is not None:
                return Struck(failure, None)
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

    def _undelivered(self) -> FatalError | None:
        """Return why a job that was told to stop ends without its last rows having arrived."""
        if self._stop_patience is None or (now_ns := self._clock.monotonic_ns()) < self._look_ns:
            return None
        self._look_ns = now_ns + LOOK_NS
        return self._stop_patience.look(now_ns, [operator.outstanding() for operator in self.build.operators()])

    def _checkpointed(self, checkpoints: CheckpointSession) -> Struck | None:
        """Let checkpoints go on; return it if a sink could not commit."""
        checkpoints.turn()
        failure = checkpoints.take_failure()
        if failure is not None:
            return Struck(failure.error, struck_by(self._plan.graph, failure.sink))
        if checkpoints.stopped is not None:
            self.drained = checkpoints.stopped.ended
        return None

    def _stop_at_end(self) -> None:
        """Ask for the last checkpoint once no source has anything more for this run, and no call is on its way.

        A checkpoint keeps the rows of such calls for a later run, which might end as early.
        """
        if self._checkpoints is None or not self._options.keeps or self.at_end or not self.is_up():
            return
        if not all(head.exhausted for head in self.build.heads()):
            return
        if not any(operator.unanswered() for operator in self.build.operators()):
            self.at_end = True
            self._checkpoints.stop_at_end()

    def _operators_of(self, instances: Collection[Instance]) -> frozenset[OperatorId]:
        tasks = self.build.tasks_of(instances)
        return frozenset(operator for task in self._plan.graph.tasks if task.id in tasks for operator in task.operators)

    def _wait(self, until_ns: int | None) -> None:
        seconds = LONGEST_WAIT_S
        if until_ns is not None:
            seconds = min(seconds, max(0.0, (until_ns - self._clock.monotonic_ns()) / 1e9))
        with suppress(Empty):
            self._wakened.get(timeout=seconds)

    def _request_stop(self, drain: bool) -> None:
        self._stopping = True
        self._stop_patience = self._stop_patience or StopPatience(checkpoints=self._checkpoints is not None)
        if self._checkpoints is not None:
            if drain:
                self._checkpoints.drain()
            else:
                self._checkpoints.request(then_stop=True)
            return
        self.drained = drain
        for instance in self._instances:
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


def _paging(options: LoopOptions, scratch: RunScratch | None, *, paged: bool) -> Paging | None:
    """Page the state of jobs that bound it or take checkpoints; without either it stays in memory as it is."""
    if options.state_bytes is None and not paged:
        return None
    assert scratch is not None
    scratch.claim()
    return Paging(PagingOptions(options.state_bytes), RocksDbStores(), scratch.path / "state")
