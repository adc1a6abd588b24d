"""One attempt of a job in the calling process: its instances in one worker loop on one thread.

A thin shell: it owns the waiting, the stop and the end; all work happens in the `Worker` it turns.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.core.weak_calls import weakly
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.checkpoint_port import Contribution, participants
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.worker import Done, Ran, Waiting, Worker
from penstock.engine.executors.hosted_instances import HostedInstances, HostOptions, Surroundings
from penstock.engine.jobs.attempt import (
    LONGEST_WAIT_S,
    AttemptContext,
    JobPlan,
    LiveDone,
    Progress,
    Struck,
    struck_by_commit,
)
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.jobs.job_rates import check_rates
from penstock.engine.jobs.ledger import check_ledger, read_ledger
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.part_status import is_exhausted, is_unanswered, read_outstanding
from penstock.engine.jobs.rows_decided import read_decided
from penstock.engine.jobs.stop_patience import StopPatience
from penstock.engine.moves.live_changes import LiveChange
from penstock.engine.operators.sink import LOOK_NS
from penstock.model.control import NO_CONTROL, ControlOptions
from penstock.model.dead_letters import LetterTarget
from penstock.model.errors import DeadLetterLimitError, FatalError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.keep_rates import KeepRates

if TYPE_CHECKING:
    from penstock.engine.executors.embedded_control import EmbeddedControl

PROGRESS_NS = 200_000_000
"""How often progress is reported."""

LOG_NS = 1_000_000_000
"""How often a job without checkpoints logs what it has kept."""


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """Options of a run in this process that override its plan.

    ``letters`` is where dead letters go that have no target of their source's; None: into a file, as all do that are
    not ``routed``. One that ``keeps``, which needs checkpoints, leaves windows open when its inputs have ended, and
    stops at a checkpoint. ``bad_records`` are those of the whole run, over all attempts; None: any number is borne.
    ``async_calls`` makes what runs coroutines. ``control`` is that of load.
    """

    letters: LetterTarget | None = None
    routed: bool = True
    keeps: bool = False
    bad_records: BadRecords | None = None
    async_calls: MakeCalls = IoThread
    control: ControlOptions = NO_CONTROL


class EmbeddedAttempt:
    """An `Attempt` in this process, which says what its methods do; it also runs a job without checkpoints."""

    def __init__(
        self,
        plan: JobPlan,
        options: EmbeddedOptions,
        context: AttemptContext,
        start: AttemptStart,
        control: "EmbeddedControl | None" = None,
    ) -> None:
        """Build and open everything; nothing runs yet. ``control`` is shown the job as it runs.

        Raises:
            PlanError: an operator does not fit its inputs.
        """
        self._plan, self._options, self._clock, self._control = plan, options, context.clock, control
        self._checkpoints = checkpoints = context.checkpoints
        self._shed, self._take_stretches = context.shed, context.take_stretches
        self._routes, self._routed = context.routes, 0
        context.routes.open(context.resources, plan.name)
        self._memory, self._told_memory = context.memory, context.memory.wanted
        self._log_ns = 0
        self._bad_records = options.bad_records or BadRecords()
        self.at_end = False
        self.drained = True
        self._ended_ns: int | None = None
        self._stop: bool | None = None
        self._stopping = False
        self._stop_patience: StopPatience | None = None
        self._look_ns = 0
        # Unlike an Event, a SimpleQueue may be used by a signal handler that interrupts whoever waits on it.
        self._wakened: SimpleQueue[None] = SimpleQueue()
        host = HostOptions(options.letters, options.routed, options.keeps, options.async_calls)
        around = Surroundings(
            context.clock,
            weakly(self.wake),
            self._bad_records.met,
            lambda: 0 if checkpoints is None else checkpoints.begun,
            None if checkpoints is None else checkpoints.report,
            context.cut_writer,
            context.scratch,
            thread_cpu_ns=None if control is None else control.thread_cpu_ns,
            budgets=lambda: context.memory.wanted,
        )
        self._hosted = HostedInstances(plan, host, around)
        self.worker: Worker = self._hosted.worker
        try:
            part = self._hosted.add(plan, start)
        except BaseException:
            self._hosted.abandon()
            raise
        self._started_ns = self._clock.monotonic_ns()
        self._begin(part, start, None)

    @property
    def build(self) -> Build:
        """Everything that runs."""
        return self._hosted.build

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
        failed = self._hosted.members(tasks)
        self._bad_records.ended(read_decided(self.build, self._names_of(failed)))
        notes = [*self._hosted.take_down(failed)]
        if tasks is None:
            notes += self._hosted.abandon()
            self._ended_ns = self._clock.monotonic_ns()
        for note in notes:
            error.add_note(f"While the job was aborted: {note}")
        if self._checkpoints is not None:
            self._checkpoints.failed(f"{type(error).__name__}: {error}", [item.name for item in failed])

    def restore(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        """Build regions anew."""
        self._begin(self._hosted.add(self._plan, start, tasks), start, tasks)

    def finish(self) -> None:
        """Close everything and check the ledger; on an error everything is aborted and the error is raised."""
        try:
            self._hosted.close(drained=self.drained)
        except BaseException as error:
            self.take_down(None, error)
            raise
        finally:
            self._ended_ns = self._clock.monotonic_ns()
            self._hosted.close_scratch()
            self._log_kept(self._ended_ns)
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
        self._hosted.instances.inject(epoch, names, last=last)

    def end_sources(self, names: Collection[str]) -> None:
        """Let sources end."""
        self._hosted.instances.end_sources(names)

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        """Return what uploads the cuts of an epoch."""
        assert self._hosted.cuts is not None
        return self._hosted.cuts.begin_upload(epoch)

    def give_up(self, epoch: int) -> None:
        """Let go of the cuts of an epoch."""
        assert self._hosted.cuts is not None
        self._hosted.cuts.give_up(epoch)

    def set_keep(self, rates: KeepRates) -> None:
        """Let sources shed."""
        check_rates(self._plan.graph, rates)
        self._shed.rates = rates
        self.build.set_keep(rates)

    def change_live(self, change: LiveChange | None, done: Callable[[LiveDone], None]) -> ExecutionGraph | None:
        """Return that it cannot: instances here come and go with a new attempt alone."""
        return None

    def metrics(self) -> JobMetrics:
        """Return a snapshot, the last one when the job has ended; may be called from any thread while it runs."""
        stepped_ns = self.worker.stepped_ns
        now_ns, wall_us = self._clock.monotonic_ns(), self._clock.wall_us()
        if self._ended_ns is not None:
            now_ns, wall_us, stepped_ns = self._ended_ns, wall_us - (now_ns - self._ended_ns) // 1_000, None
        read = self._hosted.read_metrics(self._started_ns, now_ns, wall_us, stepped_ns)
        decided = read_decided(self.build, self._bad_records.rejecting)
        read = replace(read, bad_records=self._bad_records.lines(decided))
        return read if self._control is None else self._control.shown(read)

    def places(self) -> Mapping[str, str]:
        """Return {}: there is this process alone."""
        return {}

    def _route(self, build: Build) -> None:
        """Let rows that may go to any instance go as it was asked for."""
        self._routed = self._routes.version
        build.set_routes(self._routes.of(self._plan.graph))

    def _begin(self, part: Build, start: AttemptStart, tasks: frozenset[TaskId] | None) -> None:
        """Let instances that were built run from the next step on."""
        self.at_end = False
        if self._shed.rates is not None:
            part.set_keep(self._shed.rates)
        self._route(part)
        if self._checkpoints is not None:
            self._checkpoints.started(self, participants(self._plan.graph, tasks), start)
        self._bad_records.began(read_decided(part))
        self._hosted.begin(part, start.attempt)

    def _turn(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        report_ns = self._clock.monotonic_ns()
        while not until():
            outcome = self.worker.step()
            rates = None if self._control is None else self._control.look(self.build)
            if rates is not None:
                self.set_keep(rates)
            if self._routed != self._routes.version:
                self._route(self.build)
            if self._memory.wanted is not self._told_memory:
                self._told_memory = self._memory.wanted
                self.build.set_memory(self._told_memory)
            if self._checkpoints is None and self._shed.rates is not None:
                self._log_kept(self._clock.monotonic_ns())
            failure = self._hosted.dead_letters.failure or self._verdict() or self._undelivered()
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
                    None if self._control is None else self._control.due_ns,
                ]
                # Checkpoints that went on behind the step may have sent barriers.
                if not self.worker.is_touched():
                    self._wait(min((time_ns for time_ns in times if time_ns is not None), default=None))
            if progress is not None and self._clock.monotonic_ns() - report_ns >= PROGRESS_NS:
                report_ns = self._clock.monotonic_ns()
                progress(self.metrics())
        return None

    def _log_kept(self, now_ns: int) -> None:
        """Log what was kept, if no checkpoint does and it is time or the end."""
        if self._checkpoints is None and (now_ns >= self._log_ns or self._ended_ns is not None):
            self._log_ns = now_ns + LOG_NS
            self._take_stretches(self.build.take_stretches())

    def _verdict(self) -> DeadLetterLimitError | None:
        """Return why the job must fail of its bad records, before the checkpoint behind them is published."""
        undecided = self._bad_records.undecided
        if not undecided:
            return None
        last = self._checkpoints.last_barrier if self._checkpoints is not None and self.at_end else None
        return self._bad_records.verdict(read_decided(self.build, undecided, last), stopping=self._stopping)

    def _undelivered(self) -> FatalError | None:
        """Return why a job that was told to stop ends without its last rows having arrived."""
        if self._stop_patience is None or (now_ns := self._clock.monotonic_ns()) < self._look_ns:
            return None
        self._look_ns = now_ns + LOOK_NS
        return self._stop_patience.look(now_ns, read_outstanding(self.build))

    def _checkpointed(self, checkpoints: CheckpointSession) -> Struck | None:
        """Let checkpoints go on; return it if a sink could not commit."""
        checkpoints.turn()
        if checkpoints.stopped is not None:
            self.drained = checkpoints.stopped.ended
        return struck_by_commit(checkpoints, self._plan.graph)

    def _stop_at_end(self) -> None:
        """Ask for the last checkpoint once no source has anything more for this run, and no call is on its way.

        A checkpoint keeps the rows of such calls for a later run, which might end as early.
        """
        if self._checkpoints is None or not self._options.keeps or self.at_end or not self.is_up():
            return
        if is_exhausted(self.build) and not is_unanswered(self.build):
            self.at_end = True
            self._checkpoints.stop_at_end()

    def _names_of(self, instances: Collection[Instance]) -> frozenset[str]:
        tasks, graph = self.build.tasks_of(instances), self._plan.graph
        return frozenset(
            graph.node(operator).name for task in graph.tasks if task.id in tasks for operator in task.operators
        )

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
        for instance in self._hosted.instances:
            if instance.head is not None:
                instance.end_input(drain=drain)
