"""One attempt of a job on several task managers, as its head has it: orders out, reports in.

The head decides nothing here that `RecoveringJob` or the checkpoint session decide; it carries their commands to where
instances run, and brings what these say.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.core.contract import RowCounters
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import BarrierGivenUp, Contribution, CutTaken, participants
from penstock.engine.dataflow.worker import Ran, Waiting
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.alignment import ProgressRelay
from penstock.engine.executors.managers.awaited_uploads import AwaitedUploads
from penstock.engine.executors.managers.failures import Failure, error_of
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.places import CALLER, Places, deal_out, names_at, tasks_at
from penstock.engine.executors.managers.plan_parcel import pack_sinks
from penstock.engine.executors.managers.pool import Lost, News, Said
from penstock.engine.executors.managers.status_rounds import StatusRounds
from penstock.engine.jobs.attempt import Attempt, AttemptContext, JobPlan, Progress, Struck
from penstock.engine.jobs.bad_records import BadRecords
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics, merge_metrics
from penstock.engine.jobs.rows_decided import RowsDecided, decided_at, decided_by
from penstock.engine.jobs.stop_patience import StopPatience
from penstock.engine.plan.regions import regions, struck_by
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import PenstockError, WorkerLostError
from penstock.model.execution_graph import ExecutionGraph, instance_name
from penstock.model.ids import TaskId
from penstock.state.checkpoints.manifest import encode_manifest

TAKE_DOWN_NS = 10_000_000_000
"""How long a task manager may take to let go of its instances before it is ended."""

PROGRESS_NS = 200_000_000
"""How often progress is reported."""

LINK_NS = 500_000_000
"""How long it is awaited, when a link is lost, whether one of its ends is: that says more."""


@dataclass(frozen=True, slots=True)
class ManagedOptions:
    """Options of a job on task managers: what its instances need, and its bad records over all attempts."""

    host: HostOptions
    bad_records: BadRecords


@dataclass(slots=True)
class _Region:
    """A region that is deployed, where, and which task managers have seen all of their part end."""

    deployment: int
    tasks: frozenset[TaskId]
    places: Places
    ended: set[str] = field(default_factory=set)

    @property
    def managers(self) -> tuple[str, ...]:
        """Where instances are, the process of the caller last: it does at once what it is told."""
        return tuple(sorted(set(self.places.values()), key=lambda name: (name == CALLER, name)))


class ManagedAttempt(Attempt):
    """An `Attempt` on task managers, which says what its methods do; also of a job without checkpoints."""

    def __init__(
        self,
        plan: JobPlan,
        head: Head,
        context: AttemptContext,
        options: ManagedOptions,
        start: AttemptStart,
    ) -> None:
        """Build everything; nothing runs yet."""
        self._plan, self._head, self._options = plan, head, options
        self._clock, self._checkpoints = context.clock, context.checkpoints
        self.drained = True
        self.at_end = False
        self._regions: dict[int, _Region] = {}
        self._struck: deque[Struck] = deque()
        # By deployment: when it is told that a link was lost, if none of its ends was by then.
        self._lost_links: dict[int, tuple[int, str]] = {}
        self._uploads = AwaitedUploads(self._refuse)
        self._metrics: dict[str, JobMetrics] = {}
        self._last: JobMetrics | None = None
        self._progress = ProgressRelay()
        self._rounds = StatusRounds(plan.graph)
        self._verdict: PenstockError | None = None
        self._patience: StopPatience | None = None
        self._stop: bool | None = None
        self._stopping = False
        # Of which deployment (0: of all) who is to answer yet.
        self._answers: set[tuple[int, str]] = set()
        self._failures: list[BaseException] = []
        self._notes: list[str] = []
        self._started_ns = self._clock.monotonic_ns()
        self._deploy(frozenset(task.id for task in plan.graph.tasks), start)
        self._started_ns = self._clock.monotonic_ns()

    def proceed(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        """Carry messages; without checkpoints, until every instance has ended."""
        report_ns = self._clock.monotonic_ns()
        while not until():
            outcome = self._head.turn()
            self._take_news()
            self._ask_for_status()
            failure = self._verdict or self._undelivered()
            if failure is not None:
                return Struck(failure, None)
            if self._struck:
                return self._struck.popleft()
            if self._checkpoints is not None:
                struck = self._checkpointed(self._checkpoints)
                if struck is not None or self._checkpoints.stopped is not None:
                    return struck
            elif self._has_ended():
                # What was said last before the end is all there is.
                self._judge(self._decided(None, ended=True))
                return None if self._verdict is None else Struck(self._verdict, None)
            if self._stop is not None:
                drain, self._stop = self._stop, None
                self._request_stop(drain)
            elif not isinstance(outcome, Ran):
                self._stop_at_end()
                times = [
                    until_ns,
                    None if self._checkpoints is None else self._checkpoints.due_ns(),
                    None if progress is None else report_ns + PROGRESS_NS,
                    self._rounds.due_ns if self._wants_status() else None,
                    min((due_ns for due_ns, _ in self._lost_links.values()), default=None),
                ]
                self._head.wait(outcome, min((time_ns for time_ns in times if time_ns is not None), default=None))
            if progress is not None and self._clock.monotonic_ns() - report_ns >= PROGRESS_NS:
                report_ns = self._clock.monotonic_ns()
                progress(self.metrics())
        return None

    def is_up(self) -> bool:
        """Return whether there is an instance that was neither taken down nor finished."""
        return bool(self._regions)

    def take_down(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Abort the instances of these tasks (None: all), wherever they are."""
        down = [region for region in self._regions.values() if tasks is None or region.tasks <= tasks]
        names = [name for region in down for name in region.places]
        reason = f"{type(error).__name__}: {error}"
        for region in down:
            del self._regions[region.deployment]
            self._lost_links.pop(region.deployment, None)
        taken = frozenset(task for region in down for task in region.tasks)
        self._struck = deque(item for item in self._struck if item.tasks is not None and not item.tasks <= taken)
        for note in self._release(tasks, {manager for region in down for manager in region.managers}):
            error.add_note(f"While the job was aborted: {note}")
        if not self._regions:
            self._uploads.end()
        self._rounds.forget()
        self._options.bad_records.ended(self._decided(frozenset(task for region in down for task in region.tasks)))
        if self._checkpoints is not None:
            self._checkpoints.failed(reason, names)

    def restore(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        """Build regions anew, on the task managers that live."""
        self._deploy(tasks, start)

    def finish(self) -> None:
        """Close everything and check the ledger; on an error everything is aborted and the error is raised."""
        managers = self._managers()
        self._failures.clear()
        self._answers = {(0, manager) for manager in managers}
        try:
            for manager in sorted(managers, key=lambda name: name == CALLER):
                self._head.send(manager, ms.Finish(self.drained))
            self._await_answers()
        except BaseException as error:
            self.take_down(None, error)
            raise
        self._last = self.metrics()
        self._regions.clear()
        check_ledger(self._last.ledger, ended=True)

    def stop(self, *, drain: bool = False) -> None:
        """Ask the loop to stop: what was read is processed and written; ``drain`` also closes open windows.

        May be called from a signal handler.
        """
        self._stop = drain
        self._head.wake()

    def wake(self) -> None:
        """Let the loop look again; from any thread."""
        self._head.wake()

    def inject(self, epoch: int, names: Collection[str], *, last: bool) -> None:
        """Let sources send a barrier; all task managers hear that a checkpoint begins."""
        for manager, mine in self._named(names).items():
            self._head.send(manager, ms.Inject(epoch, mine, last))

    def end_sources(self, names: Collection[str]) -> None:
        """Let sources end."""
        self._end(names, drain=True)

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        """Let all task managers upload; return what awaits them."""
        managers = self._managers()
        if self._checkpoints is not None:
            self._checkpoints.repository.begin(epoch, elsewhere=True)
        awaited = self._uploads.begin(epoch, managers)
        for manager in managers:
            self._head.send(manager, ms.Upload(epoch))
        return awaited

    def give_up(self, epoch: int) -> None:
        """Let go of the cuts of an epoch."""
        self._uploads.give_up(epoch)
        for manager in self._managers():
            self._head.send(manager, ms.GiveUpEpoch(epoch))

    def metrics(self) -> JobMetrics:
        """Return a snapshot: of other processes as they said last; from any thread."""
        if self._last is not None:
            return self._last
        parts = dict(self._metrics)
        local = self._head.local.metrics()
        if local is not None:
            parts[CALLER] = local
        graph = self._plan.graph
        merged = merge_metrics(self._plan.name, graph, list(parts.values()))
        bad = self._options.bad_records
        lines = bad.lines(_decided_of(graph, merged)) if bad.rejecting else ()
        elapsed_ns = self._clock.monotonic_ns() - self._started_ns
        return replace(merged, elapsed_ns=elapsed_ns, bad_records=lines)

    def _deploy(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        managers = self._head.await_managers(self._take)
        graph = self._plan.graph
        parts = [
            _Region(self._head.next_deployment(), region, deal_out(graph, region, managers))
            for region in regions(graph)
            if region <= tasks
        ]
        users = {manager for region in parts for manager in region.managers}
        self._failures.clear()
        self._answers = {(region.deployment, manager) for region in parts for manager in region.managers}
        try:
            self._order(parts, start)
            self._await_answers()
        except BaseException:
            self._release(tasks, users)
            raise
        # Of those that are lost nothing counts any more; if all is built anew, nothing of before does.
        self._metrics = {name: read for name, read in self._metrics.items() if self._regions and name in managers}
        self._regions |= {region.deployment: region for region in parts}
        self.at_end = False
        self._rounds.forget()
        counted = {} if start.restored is None else start.restored.manifest.ledger
        self._options.bad_records.began(decided_by(graph, counted, tasks))
        if self._checkpoints is not None:
            self._checkpoints.started(self, participants(graph, tasks), start)
        for region in parts:
            for manager in region.managers:
                self._head.send(manager, ms.Start(region.deployment))

    def _order(self, parts: Sequence[_Region], start: AttemptStart) -> None:
        """Let task managers build regions, that of the caller's process last: it then waits for the others."""
        sinks = pack_sinks(self._plan.graph)
        restore = None if start.restored is None else self._restore(start.restored)
        late = []
        for region in parts:
            order = ms.Deploy(
                region.deployment,
                start.attempt,
                tuple(sorted(region.tasks)),
                dict(region.places),
                {manager: self._head.address(manager) for manager in region.managers},
                sinks,
                restore,
                start.last_epoch,
            )
            for manager in region.managers:
                if manager == CALLER:
                    late.append(order)
                else:
                    self._head.send(manager, order)
        for order in late:
            self._head.send(CALLER, order)

    def _restore(self, restored: RestoredState) -> ms.Restore:
        assert self._checkpoints is not None
        return ms.Restore(
            encode_manifest(restored.manifest),
            restored.savepoint,
            tuple(sorted(self._checkpoints.repository.damaged)),
            tuple(sorted(restored.closed)),
            restored.is_afresh,
        )

    def _release(self, tasks: frozenset[TaskId] | None, managers: set[str]) -> Sequence[str]:
        """Let task managers take instances down; return what went wrong with that."""
        self._notes.clear()
        self._failures.clear()
        self._answers = {(0, manager) for manager in managers}
        down = None if tasks is None else tuple(sorted(tasks))
        for manager in sorted(managers, key=lambda name: name == CALLER):
            self._head.send(manager, ms.TakeDown(down))
        until_ns = self._clock.monotonic_ns() + TAKE_DOWN_NS
        while self._answers and self._clock.monotonic_ns() < until_ns:
            self._turn_for_answers(until_ns)
        for _, manager in sorted(self._answers):
            self._take_all(self._head.pool.kill(manager, "it did not let go of its instances in time"))
        return list(self._notes)

    def _await_answers(self) -> None:
        """Take news until all that were asked have answered.

        Raises:
            PenstockError: one has failed, or is lost.
        """
        while self._answers:
            self._turn_for_answers(None)
            if self._failures:
                raise self._failures.pop(0)

    def _turn_for_answers(self, until_ns: int | None) -> None:
        outcome = self._head.turn() if self._regions else Waiting(None)
        self._take_all(self._head.news())
        if self._answers and (until_ns is not None or not self._failures):
            self._head.wait(outcome, until_ns)

    def _decided(self, tasks: frozenset[TaskId] | None, *, ended: bool = False) -> Mapping[str, RowsDecided]:
        """Return of how many rows some tasks (None: all) have decided, as was said last; ``ended``: no row follows."""
        return _decided_of(self._plan.graph, self.metrics(), tasks, ended=ended)

    def _take_news(self) -> None:
        self._take_all(self._head.news())
        now_ns = self._clock.monotonic_ns()
        for deployment, (due_ns, reason) in list(self._lost_links.items()):
            if due_ns <= now_ns and deployment in self._regions:
                del self._lost_links[deployment]
                self._struck.append(Struck(WorkerLostError(reason), self._regions[deployment].tasks))

    def _take_all(self, news: Iterable[News]) -> None:
        for item in news:
            self._take(item)

    def _take(self, news: News) -> None:
        match news:
            case Lost():
                self._lose(news)
            case Said(manager, message):
                self._hear(manager, message)

    def _hear(self, manager: str, message: ms.ToHead) -> None:
        match message:
            case ms.CutTaken():
                if self._checkpoints is not None:
                    cut = CutTaken(message.instance, message.epoch, message.ended, message.receipts)
                    self._checkpoints.report(message.attempt, cut)
            case ms.BarrierMissed():
                if self._checkpoints is not None:
                    self._checkpoints.report(message.attempt, BarrierGivenUp(message.instance, message.epoch))
            case ms.Uploaded():
                part = Contribution(message.entries, message.positions, message.counters, message.ended)
                if self._checkpoints is not None:
                    self._checkpoints.repository.add_traffic(message.epoch, message.traffic)
                self._uploads.add(message.epoch, manager, part)
            case ms.UploadFailed():
                self._uploads.fail(message.epoch, self._error(manager, message.failure))
            case ms.Failed():
                self._fail(manager, message)
            case ms.LinkLost():
                if message.deployment in self._regions and message.deployment not in self._lost_links:
                    reason = f"the link between {_place(manager)} and {_place(message.peer)} is lost: {message.reason}"
                    self._lost_links[message.deployment] = self._clock.monotonic_ns() + LINK_NS, reason
            case ms.AllEnded():
                if message.deployment in self._regions:
                    self._regions[message.deployment].ended.add(manager)
            case ms.Deployed():
                self._answers.discard((message.deployment, manager))
            case ms.Refused():
                self._answers.discard((message.deployment, manager))
                self._failures.append(self._error(manager, message.failure))
            case ms.TakenDown():
                self._answers.discard((0, manager))
                self._notes += message.notes
            case ms.Finished():
                self._answers.discard((0, manager))
                if message.failure is not None:
                    self._failures.append(self._error(manager, message.failure))
            case ms.Metrics():
                self._metrics[manager] = message.metrics
            case ms.Status():
                self._take_status(manager, message)
            case ms.BadRecordMet():
                self._options.bad_records.met(message.record)
            case ms.Progress():
                self._relay(self._progress.hear(manager, message))
            case ms.Joined() | ms.SetupFailed() | ms.LeaveAsked() | ms.StuckInStep() | ms.OutOfStep():
                pass

    def _relay(self, progress: Mapping[str, ms.Progress]) -> None:
        for manager, message in progress.items():
            self._head.send(manager, message)

    def _error(self, manager: str, failure: Failure) -> BaseException:
        error = self._head.local.raised(failure) if manager == CALLER else None
        return error_of(failure, _place(manager)) if error is None else error

    def _fail(self, manager: str, message: ms.Failed) -> None:
        region = self._regions.get(message.deployment)
        if region is None:
            return
        error = self._error(manager, message.failure)
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise error
        tasks = None if message.instance is None else self._tasks_of(message.instance)
        self._struck.append(Struck(error, tasks))

    def _lose(self, lost: Lost) -> None:
        self._relay(self._progress.lose(lost.manager))
        self._uploads.lose([lost.manager], lost.reason)
        error = WorkerLostError(f"{_place(lost.manager)} is lost: {lost.reason}")
        answers = {answer for answer in self._answers if answer[1] == lost.manager}
        if answers:
            self._answers -= answers
            self._failures.append(error)
        for region in self._regions.values():
            if lost.manager in region.managers:
                self._lost_links.pop(region.deployment, None)
                self._struck.append(Struck(error, tasks_at(self._plan.graph, region.places, lost.manager)))

    def _checkpointed(self, checkpoints: CheckpointSession) -> Struck | None:
        """Let checkpoints go on; return it if a sink could not commit."""
        checkpoints.turn()
        failure = checkpoints.take_failure()
        if failure is not None:
            return Struck(failure.error, struck_by(self._plan.graph, failure.sink))
        if checkpoints.stopped is not None:
            self.drained = checkpoints.stopped.ended
        return None

    def _wants_status(self) -> bool:
        """Return whether something is to be decided over the whole job that no task manager can."""
        ends = self._checkpoints is not None and self._options.host.keeps and not self.at_end
        return ends or self._patience is not None or bool(self._options.bad_records.undecided)

    def _ask_for_status(self) -> None:
        due_ns = self._rounds.due_ns
        if due_ns is None or not self._regions or not self._wants_status() or self._clock.monotonic_ns() < due_ns:
            return
        managers = self._managers()
        last = self._checkpoints.last_barrier if self._checkpoints is not None and self.at_end else None
        order = ms.ReadStatus(self._rounds.begin(managers), tuple(self._options.bad_records.undecided), last)
        for manager in managers:
            self._head.send(manager, order)

    def _take_status(self, manager: str, message: ms.Status) -> None:
        if self._rounds.add(manager, message.number, message.status, self._clock.monotonic_ns()):
            status = self._rounds.latest
            assert status is not None
            self._judge(status.decided)

    def _refuse(self, parts: Sequence[Contribution]) -> PenstockError | None:
        """Return why the job must fail instead of publishing a checkpoint of these parts."""
        if self._options.bad_records.undecided:
            self._judge(decided_at(self._plan.graph, parts, last=self.at_end))
        return self._verdict

    def _judge(self, decided: Mapping[str, RowsDecided]) -> None:
        """Look whether the job must fail of its bad records."""
        if self._options.bad_records.undecided:
            verdict = self._options.bad_records.verdict(decided, stopping=self._stopping)
            self._verdict = self._verdict or verdict

    def _undelivered(self) -> PenstockError | None:
        """Return why a job that was told to stop ends without its last rows having arrived."""
        status = self._rounds.latest
        if self._patience is None or status is None:
            return None
        return self._patience.look(self._clock.monotonic_ns(), status.outstanding)

    def _stop_at_end(self) -> None:
        """Ask for the last checkpoint once no source has anything more for this run, and no call is on its way."""
        if self._checkpoints is None or not self._options.host.keeps or self.at_end or not self.is_up():
            return
        if self._rounds.at_rest():
            self.at_end = True
            self._checkpoints.stop_at_end()

    def _request_stop(self, drain: bool) -> None:
        self._stopping = True
        self._patience = self._patience or StopPatience(checkpoints=self._checkpoints is not None)
        if self._checkpoints is None:
            self.drained = drain
            readers = participants(self._plan.graph).readers
            self._end(readers, drain=drain)
        elif drain:
            self._checkpoints.drain()
        else:
            self._checkpoints.request(then_stop=True)

    def _end(self, names: Collection[str], *, drain: bool) -> None:
        for manager, mine in self._named(names).items():
            if mine:
                self._head.send(manager, ms.EndSources(mine, drain))

    def _managers(self) -> set[str]:
        return {manager for region in self._regions.values() for manager in region.managers}

    def _named(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return which of these instances are at each task manager."""
        found: dict[str, list[str]] = {}
        for region in self._regions.values():
            for manager in region.managers:
                mine = found.setdefault(manager, [])
                mine += sorted(names_at(region.places, manager).intersection(names))
        return {manager: tuple(mine) for manager, mine in found.items()}

    def _tasks_of(self, instance: str) -> frozenset[TaskId]:
        return frozenset(
            task.id
            for task in self._plan.graph.tasks
            if any(instance_name(self._plan.graph.name(task), index) == instance for index in range(task.parallelism))
        )

    def _has_ended(self) -> bool:
        return all(region.ended.issuperset(region.managers) for region in self._regions.values())


def _place(manager: str) -> str:
    return "the process that started the job" if manager == CALLER else f"task manager {manager!r}"


def _decided_of(
    graph: ExecutionGraph, metrics: JobMetrics, tasks: Collection[TaskId] | None = None, *, ended: bool = False
) -> Mapping[str, RowsDecided]:
    names = RowCounters().as_dict()
    counted = {line.operator: {name: getattr(line, name) for name in names} for line in metrics.ledger.operators}
    return decided_by(graph, counted, tasks, ended=ended)
