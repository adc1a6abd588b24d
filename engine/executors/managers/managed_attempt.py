"""One attempt of a job on several task managers, as its head has it: orders out, reports in.

The head decides nothing here that `RecoveringJob` or the checkpoint session decide; it carries their commands to where
instances run, and brings what these say.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.core import job_events as je
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import BarrierGivenUp, Contribution, CutTaken, participants
from penstock.engine.dataflow.worker import Ran
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.adoption import restore_order
from penstock.engine.executors.managers.alignment import ProgressRelay
from penstock.engine.executors.managers.awaited_uploads import AwaitedUploads
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.file_checks import FileChecks
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.job_judgement import JobJudgement
from penstock.engine.executors.managers.managed_changes import ManagedChanges
from penstock.engine.executors.managers.managed_options import ManagedOptions
from penstock.engine.executors.managers.manager_changes import ManagerChanges
from penstock.engine.executors.managers.part_metrics import PartMetrics
from penstock.engine.executors.managers.part_readings import keep_of, part_of
from penstock.engine.executors.managers.places import CALLER, place_phrase
from penstock.engine.executors.managers.pool_news import Lost, News, Said
from penstock.engine.executors.managers.retired import Retired
from penstock.engine.executors.managers.strikes import Strikes
from penstock.engine.executors.managers.watch import Stuck, WellAgain
from penstock.engine.jobs.adoption import Adopt
from penstock.engine.jobs.attempt import Attempt, AttemptContext, JobPlan, LiveDone, Progress, Struck, struck_by_commit
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.rows_decided import decided_by
from penstock.engine.moves.live_changes import LiveChange
from penstock.model.errors import WorkerLostError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.keep_rates import KeepRates

PROGRESS_NS = 200_000_000
"""How often progress is reported."""


class ManagedAttempt(Attempt):
    """An `Attempt` on task managers, which says what its methods do; also of a job without checkpoints."""

    def __init__(
        self,
        plan: JobPlan,
        head: Head,
        context: AttemptContext,
        options: ManagedOptions,
        start: AttemptStart,
        adopted: Adopt | None = None,
    ) -> None:
        """Build everything; nothing runs yet. What is ``adopted`` runs already, and runs on."""
        self._plan, self._head, self._options = plan, head, options
        head.come_to(plan)
        self._clock, self._checkpoints, self._tell = context.clock, context.checkpoints, context.tell
        self._take_stretches, self.drained, self.at_end = context.take_stretches, True, False
        self._deployments = Deployments(plan.graph, head, context, self._take)
        self._files = FileChecks(plan.graph, head, context, self._take)
        self._strikes = Strikes(plan.graph, self._deployments, context.clock)
        self._changes = ManagerChanges(head, context, lambda managers: self._moving.vacate(managers))
        self._uploads = AwaitedUploads(lambda parts: self._judgement.refuse(parts, last=self.at_end))
        self._progress = ProgressRelay()
        rests = context.checkpoints is not None and options.host.keeps
        self._judgement = JobJudgement(plan.graph, options.bad_records, rests=rests)
        self._metrics = PartMetrics(plan, context.clock, options.bad_records)
        gone = Retired(self._deployments, self._uploads, self._judgement.forget)
        self._moving = ManagedChanges(head, self._deployments, context, self._come_to, self._metrics.state_bytes, gone)
        self._last: JobMetrics | None = None
        self._stop: bool | None = None
        self._committed_epoch = 0
        try:
            if adopted is None:
                self._deploy(frozenset(task.id for task in plan.graph.tasks), start)
            else:
                self._adopt(adopted, start)
        except BaseException as error:
            # What was deployed would run on, and nobody have it.
            self.take_down(None, error)
            raise
        self._metrics.start()

    def proceed(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        """Carry messages; without checkpoints, until every instance has ended."""
        try:
            return self._carry(until, until_ns, progress)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return Struck(error, None)

    def _carry(self, until: Callable[[], bool], until_ns: int | None, progress: Progress | None) -> Struck | None:
        report_ns = self._clock.monotonic_ns()
        while not until():
            outcome = self._head.turn()
            self._take_news()
            self._ask_for_status()
            self._tick()
            self._deployments.tell_memory()
            failure = self._judgement.failure(self._clock.monotonic_ns())
            if failure is not None:
                return Struck(failure, None)
            if self._checkpoints is not None:
                struck = self._checkpointed(self._checkpoints)
                if struck is not None or self._checkpoints.stopped is not None:
                    return struck  # behind the last checkpoint nothing strikes the job
            self._see_off()
            # What is lost is none that a change could go on with.
            struck = self._strikes.next() or self._moving.turn()
            if struck is not None:
                return struck
            if self._checkpoints is None and self._deployments.have_ended:
                # What was said last before the end is all there is.
                failure = self._judgement.judge(self._metrics.decided(self.metrics(), ended=True))
                return None if failure is None else Struck(failure, None)
            if self._stop is not None:
                drain, self._stop = self._stop, None
                self._request_stop(drain)
            elif not isinstance(outcome, Ran):
                self._stop_at_end()
                checkpoint_ns = None if self._checkpoints is None else self._checkpoints.due_ns()
                progress_ns = None if progress is None else report_ns + PROGRESS_NS
                own_ns = self._judgement.due_ns, self._head.control.due_ns, self._moving.due_ns
                times = [until_ns, checkpoint_ns, progress_ns, *own_ns, *self._strikes.due_ns()]
                self._head.wait(outcome, min((time_ns for time_ns in times if time_ns is not None), default=None))
            if progress is not None and self._clock.monotonic_ns() - report_ns >= PROGRESS_NS:
                report_ns = self._clock.monotonic_ns()
                progress(self.metrics())
        return None

    def is_up(self) -> bool:
        """Return whether there is an instance that was neither taken down nor finished."""
        return len(self._deployments) > 0

    def take_down(self, tasks: frozenset[TaskId] | None, error: BaseException) -> None:
        """Abort the instances of these tasks (None: all), wherever they are."""
        down = self._deployments.remove(tasks)
        taken = frozenset(task for deployment in down for task in deployment.tasks)
        self._strikes.drop(taken)
        self._moving.gone(taken, error)
        for note in self._deployments.release(tasks, down):
            error.add_note(f"While the job was aborted: {note}")
        if not self.is_up():
            self._uploads.end()
        self._judgement.ended(self._metrics.decided(self.metrics(), taken))
        if self._checkpoints is not None:
            self._checkpoints.failed(
                f"{type(error).__name__}: {error}", [name for item in down for name in item.places]
            )

    def restore(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        """Build regions anew, on the task managers that live."""
        self._deploy(tasks, start)

    def finish(self) -> None:
        """Close everything and check the ledger; on an error everything is aborted and the error is raised."""
        try:
            missing = self._deployments.finish(drained=self.drained, committed=self._checkpoints is not None)
        except BaseException as error:
            self.take_down(None, error)
            raise
        metrics = self.metrics()
        self._last = replace(metrics, ledger=replace(metrics.ledger, missing=tuple(missing)))
        self._deployments.remove(None)
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
        for manager, mine in self._deployments.names_by_manager(names).items():
            self._head.send(manager, ms.Inject(epoch, mine, last))

    def end_sources(self, names: Collection[str]) -> None:
        """Let sources end."""
        self._end(names, drain=True)

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        """Let all task managers upload; return what awaits them."""
        managers = self._deployments.managers
        if self._checkpoints is not None:
            self._checkpoints.repository.begin(epoch, elsewhere=True)
        awaited = self._uploads.begin(epoch, managers)
        self._head.send_to(managers, ms.Upload(epoch))
        known = Contribution(measured_cpu=dict(self._head.control.measured_cpu))
        return lambda: [*self._head.result_of(awaited), known]

    def give_up(self, epoch: int) -> None:
        """Let go of the cuts of an epoch."""
        self._uploads.give_up(epoch)
        self._head.send_to(self._deployments.managers, ms.GiveUpEpoch(epoch))

    def set_keep(self, rates: KeepRates) -> None:
        """Let task managers shed."""
        self._deployments.set_keep(rates)

    def change_live(self, change: LiveChange | None, done: Callable[[LiveDone], None]) -> ExecutionGraph | None:
        """Begin to come to another plan while all runs; see `Attempt.change_live`."""
        return self._moving.begin(change, done)

    def metrics(self) -> JobMetrics:
        """Return a snapshot: of other processes as they said last; from any thread."""
        if self._last is not None:
            return self._last
        merged = self._metrics.merged(CALLER, self._head.local.metrics())
        shown = self._head.control.shown(merged, self._clock.monotonic_ns())
        return self._moving.shown(shown, self._deployments.places())

    @property
    def graph(self) -> ExecutionGraph:
        """Its plan."""
        return self._plan.graph

    def places(self) -> Mapping[str, str]:
        """Return the task manager of each instance that is up; from any thread."""
        return self._deployments.places()

    def _deploy(self, tasks: frozenset[TaskId], start: AttemptStart) -> None:
        self._see_off()
        managers = self._files.check(self._head.await_managers(self._take))
        others_run = len(self._deployments) > 0
        if start.restored is not None:
            self._head.control.know(start.restored.manifest.measured_cpu)
        restore = restore_order(start, self._checkpoints)
        deployed = self._deployments.deploy(tasks, managers, start, restore)
        # Of those that are lost nothing counts any more; if all is built anew, nothing of before does.
        self._metrics.keep(managers if others_run else ())
        self.at_end = False
        counted = {} if start.restored is None else start.restored.manifest.ledger
        self._judgement.began(decided_by(self._plan.graph, counted, tasks))
        if self._checkpoints is not None:
            part, gone = participants(self._plan.graph, tasks), self._deployments.no_more(tasks)
            self._checkpoints.started(self, part, start, gone)
        self._moving.began(tasks, start)
        self._deployments.start(deployed)

    def _come_to(self, graph: ExecutionGraph) -> None:
        self._plan = self._metrics.plan = replace(self._plan, graph=graph)
        for part in (self._deployments, self._files, self._strikes):
            part.graph = graph
        self._judgement.come_to(graph)
        self._head.come_to(self._plan)

    def _adopt(self, order: Adopt, start: AttemptStart) -> None:
        checkpoints, graph = self._checkpoints, self._plan.graph
        assert checkpoints is not None
        counted = {} if start.restored is None else start.restored.manifest.ledger
        if start.restored is not None:
            self._head.control.know(start.restored.manifest.measured_cpu)
        self._judgement.began(decided_by(graph, counted, [task.id for task in graph.tasks]))
        begin = self._moving.adopting(order, start, partial(checkpoints.adopted, self, participants(graph)))
        self._deployments.adopt(order, start, checkpoints.repository, begin)

    def _take_news(self) -> None:
        for news in self._head.news():
            self._take(news)
        self._strikes.let_links_strike()

    def _take(self, news: News) -> None:
        match news:
            case Lost():
                self._tell(je.TaskManagerLost(news.manager, news.reason))
                self._lose(news)
            case Stuck():
                self._tell(je.Stuck(news.name, news.text))
            case WellAgain():
                self._tell(je.WellAgain(news.name, news.text))
            case Said(manager, message):
                self._hear(manager, message)

    def _hear(self, manager: str, message: ms.ToHead) -> None:
        if self._moving.hear(manager, message):
            return
        match message:
            case ms.CutTaken():
                if self._checkpoints is not None:
                    cut = CutTaken(message.instance, message.epoch, message.ended, message.receipts, message.stretches)
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
                self._uploads.fail(message.epoch, self._head.error(manager, message.failure))
            case ms.Failed():
                self._strikes.fail(message, self._head.error(manager, message.failure))
            case ms.LinkLost():
                self._strikes.lose_link(manager, message)
            case ms.AllEnded():
                deployment = self._deployments.get(message.deployment)
                if deployment is not None:
                    deployment.ended.add(manager)
            case ms.Deployed() | ms.Refused() | ms.TakenDown() | ms.Finished() | ms.Adopted():
                self._deployments.hear(manager, message)
            case ms.FilesSeen():
                self._files.hear(manager, message)
            case ms.Metrics():
                self._moving.note_rows(self._metrics.add(manager, message.metrics))
                self._take_stretches(message.stretches)
            case ms.Status():
                self._judgement.hear(manager, message, self._clock.monotonic_ns())
            case ms.BadRecordMet():
                self._options.bad_records.met(message.record)
            case ms.Readings():
                self._changes.hear(manager, read := message.machine)
                self._head.control.hear(manager, read, part_of(message), self._clock.monotonic_ns(), keep_of(message))
            case ms.Progress():
                self._head.send_each(self._progress.hear(manager, message))
            case ms.Joined():
                self._tell(je.TaskManagerJoined(manager))
            case ms.SetupFailed() | ms.LeaveAsked() | ms.StuckInStep() | ms.OutOfStep():
                pass
            case ms.Holding() | ms.WarmedUp() | ms.ChannelsJoined():
                pass

    def _lose(self, lost: Lost) -> None:
        if lost.in_order:
            self._head.control.forget(lost.manager)
        else:
            self._head.control.lose(lost.manager, self._clock.monotonic_ns())
        self._head.send_each(self._progress.lose(lost.manager))
        self._uploads.lose([lost.manager], lost.reason)
        error = WorkerLostError(f"{place_phrase(lost.manager)} is lost: {lost.reason}")
        self._deployments.lose(lost.manager, error)
        self._files.lose(lost.manager)
        self._strikes.at(lost.manager, error)

    def _checkpointed(self, checkpoints: CheckpointSession) -> Struck | None:
        """Let checkpoints go on; return it if a sink could not commit."""
        checkpoints.turn()
        if checkpoints.stopped is not None:
            self.drained = checkpoints.stopped.ended
        if checkpoints.committed_epoch > self._committed_epoch:
            self._committed_epoch = checkpoints.committed_epoch
            self._deployments.committed(self._committed_epoch)
        return struck_by_commit(checkpoints, self._plan.graph)

    def _see_off(self) -> None:
        """Let task managers come or go as it was asked for, those that host anything behind a checkpoint."""
        for manager in self._changes.turn(self._deployments.managers, self._clock.monotonic_ns()):
            self._strikes.at(manager, self._changes.departure(manager))

    def _tick(self) -> None:
        """Let controllers see the job, if it is time."""
        head, now_ns, places = self._head, self._clock.monotonic_ns(), self._deployments.places
        is_due = head.control.due_ns is not None and head.control.due_ns <= now_ns
        if is_due and (order := head.control.tick(head.places(places(), self._moving.owners), now_ns)):
            self._deployments.set_keep(order.rates, decision=order)

    def _ask_for_status(self) -> None:
        due_ns = self._judgement.due_ns
        if due_ns is None or not self.is_up() or self._clock.monotonic_ns() < due_ns:
            return
        managers = self._deployments.managers
        last = self._checkpoints.last_barrier if self._checkpoints is not None and self.at_end else None
        self._head.send_to(managers, self._judgement.ask(managers, last))

    def _stop_at_end(self) -> None:
        """Ask for the last checkpoint once no source has anything more for this run, and no call is on its way."""
        if self._checkpoints is not None and self.is_up() and self._judgement.take_rest():
            self.at_end = True
            self._checkpoints.stop_at_end()

    def _request_stop(self, drain: bool) -> None:
        self._head.pool.stop()
        self._judgement.stop(checkpoints=self._checkpoints is not None)
        if self._checkpoints is None:
            self.drained = drain
            self._end(participants(self._plan.graph).readers, drain=drain)
        elif drain:
            self._checkpoints.drain()
        else:
            self._checkpoints.request(then_stop=True)

    def _end(self, names: Collection[str], *, drain: bool) -> None:
        for manager, mine in self._deployments.names_by_manager(names).items():
            if mine:
                self._head.send(manager, ms.EndSources(mine, drain))
