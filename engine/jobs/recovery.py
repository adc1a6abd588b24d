"""A job in this process that survives failures: what failed goes on from the last checkpoint.

A thin shell around the life cycle of a job, which decides; an `Attempt` runs. Regions of the job that share no channel
with what failed run on; a failure that strikes them all, or cannot be placed, ends the attempt, and another follows.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import get_ident

from penstock.engine.checkpoint.metrics import RegionRestarts, read_checkpoints
from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.core.background import BackgroundThread
from penstock.engine.core.job_events import Restarted
from penstock.engine.core.weak_calls import weakly
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.jobs import end_of_input
from penstock.engine.jobs import life_cycle as js
from penstock.engine.jobs.adoption import adopted_attempt
from penstock.engine.jobs.announced_life import AnnouncingLifeCycle
from penstock.engine.jobs.attempt import LONGEST_WAIT_S, Attempt, AttemptContext, JobPlan, MakeAttempt, Progress, Struck
from penstock.engine.jobs.job_session import make_session
from penstock.engine.jobs.job_storage import open_storage
from penstock.engine.jobs.metrics import JobMetrics, no_metrics
from penstock.engine.jobs.notices import JobNotices
from penstock.engine.jobs.recovery_options import JobEnvironment, RecoveryOptions
from penstock.engine.jobs.rescaling import Rescaling
from penstock.engine.jobs.restart_policy import RestartPolicy, is_retryable
from penstock.engine.jobs.status import JobStatus, error_sentence
from penstock.engine.jobs.steerable_job import SteerableJob
from penstock.engine.plan.regions import regions, restart_region
from penstock.engine.restore.restorer import Beginnings, recover_sinks, release_connectors, resize_sinks
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import BugError, OptionError, PlanChangedError, UserError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.failpoints import failpoint
from penstock.model.ids import TaskId
from penstock.state.files.durable_files import check_name

CLOSE_S = 2.0
"""How long a job that failed waits for what is still being written: a store that hangs must not hold it up."""


class StartInterrupted(KeyboardInterrupt):
    """A stop, raised by a signal handler in the thread of a job that has not begun to run."""


class RecoveringJob(SteerableJob):
    """A job that outlives failures. `run` works in the calling thread; `stop` may be called from any."""

    def __init__(
        self,
        plan: JobPlan,
        options: RecoveryOptions,
        make_attempt: MakeAttempt,
        environment: JobEnvironment | None = None,
    ) -> None:
        """Open the repository and try it out; nothing runs yet.

        Raises:
            PlanError: a stateful operator has no name of its own, or a sink cannot take part.
            UserError: the checkpoint directory cannot be used.
        """
        around = environment or JobEnvironment()
        self.name = plan.name
        self._options = options
        self._plan, self._storage = open_storage(plan, options, around)
        self._graph, self._clock = self._plan.graph, around.clock
        self._around, self._warn, self._tell = around, around.warn, around.tell
        self._wakened: SimpleQueue[None] = SimpleQueue()
        self._make_attempt = make_attempt
        self._background = around.background or BackgroundThread(f"checkpoints of {plan.name}", weakly(self._wake))
        self._beginnings = Beginnings(self._storage.repository, options.restore, self._warn, around.page_stores)
        if options.savepoint_on_stop is not None:
            self._check_savepoint(options.savepoint_on_stop)
        self.session = make_session(self._plan, self._storage, options, around, self._background)
        writer = CutWriter(self._storage.repository, self._storage.directory / "uploads")
        self._context = AttemptContext(
            self._clock,
            self.session,
            writer,
            self._storage.scratch,
            options.restore.allowed,
            warn=self._warn,
            tell=self._tell,
        )
        self._context.rescales.open(weakly(self._wake))
        self._life = AnnouncingLifeCycle(RestartPolicy(options.restarts), self._tell)
        self._attempt: Attempt | None = None
        self._stop: bool | None = None
        self._stop_ordered: js.RequestStop | None = None  # by the life cycle; attempts that follow are told as well
        self._error: BaseException | None = None
        self._heeded_stop: bool | None = None  # the last request for a stop that the life cycle was told of
        self._news = JobNotices(plan.name, self._clock, self._warn, options.restarts)
        tell = weakly(self._change_plan), self._news.rescaled
        self._rescaling = Rescaling(self._context.rescales, self._plan, self.session, self._clock, *tell)
        self._told_fenced, self._over, self._take_downs = False, False, 0
        self._regions = regions(self._graph)
        self._region_restarts: Counter[frozenset[TaskId]] = Counter()
        self._thread: int | None = None
        self.restarts, self.drained = 0, True
        self.restored_epoch: int | None = None

    @property
    def has_run(self) -> bool:
        """True if an attempt ever came to run: before that a stop has nothing to keep."""
        return self._life.has_run

    def run(self, progress: Progress | None = None) -> None:
        """Run until everything is committed, restarting after failures that may pass.

        Raises:
            PenstockError: what the job failed of for good.
        """
        self._thread = get_ident()
        try:
            commands: Sequence[js.Command] = self._life.on(js.Submitted(self._clock.monotonic_ns()))
            while not self._over:
                self._obey(commands)
                commands = [] if self._over else self._go_on(progress)
        except BaseException as error:
            if self._attempt is not None and self._attempt.is_up():
                self._attempt.take_down(None, error)
            if isinstance(error, StartInterrupted):
                self.drained = False
                self._news.not_begun()
            else:
                self._life.announced.become(js.JobState.FAILED, error)
                raise
        finally:
            self._background.close(None if self._life.state is js.JobState.FINISHED else CLOSE_S)
            self._context.resources.close()
            release_connectors(self._graph)
            self._storage.close()
            self._thread = None
            over = UserError(f"job {self.name!r} is over; its last checkpoint stands.")
            self.session.close(over)
            self._context.rescales.close(over)
        if self._error is not None:
            raise self._error
        if self.session.savepoints.unheard is not None:
            self._life.announced.become(js.JobState.FAILED, self.session.savepoints.unheard)
            raise self.session.savepoints.unheard

    def stop(self, *, drain: bool = False, savepoint: str | None = None) -> None:
        """Ask for a last checkpoint and the end; ``drain`` ends the inputs first. May be called by a signal handler.

        ``savepoint`` is the name under which the last checkpoint is kept; None: what the options say.

        Raises:
            OptionError: the name is not one, or is taken.
            UserError: the job stops already, and would not keep the savepoint.
        """
        if savepoint is not None:
            self._check_savepoint(savepoint)
            if self._stop is not None:
                raise UserError(f"job {self.name!r} stops already, and keeps no savepoint {savepoint!r} of its end.")
            self.session.stop_savepoint = savepoint
        self._stop = drain
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
        request = self.session.savepoints.ask(name)
        self._wake()
        try:
            return request.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(
                f"savepoint {name!r} of job {self.name!r} is not committed after {timeout_s} s"
            ) from None

    def metrics(self) -> JobMetrics:
        """Return a snapshot of the attempt that runs, or ran last."""
        metrics = no_metrics(self.name) if self._attempt is None else self._attempt.metrics()
        names = {task.id: self._graph.name(task) for task in self._graph.tasks}
        counted = tuple(
            RegionRestarts(", ".join(names[task] for task in sorted(region)), self._region_restarts[region])
            for region in self._regions
        )
        metrics = replace(metrics, checkpoints=read_checkpoints(self.session, self.restarts, counted))
        return self._rescaling.shown(metrics)

    def status(self) -> JobStatus:
        """Return where it is in its life; from any thread."""
        plain = self._life.announced.status(self.name, self._life.attempt, self.restored_epoch)
        return replace(plain, takes_checkpoints=True)

    @property
    def graph(self) -> ExecutionGraph:
        """Its plan."""
        return self._graph

    def places(self) -> Mapping[str, str]:
        """Return the task manager of each instance, as `Attempt.places` does; from any thread."""
        attempt = self._attempt
        return {} if attempt is None else attempt.places()

    def _check_savepoint(self, name: str) -> None:
        check_name("savepoint", name)
        if name in self._storage.repository.savepoints():
            raise OptionError(f"there is a savepoint {name!r} already: choose another name or delete it.")

    def _obey(self, commands: Sequence[js.Command]) -> None:
        """Do what the life cycle says, and what it says to that."""
        ahead = deque(commands)
        while ahead:
            match command := ahead.popleft():
                case js.Restore():
                    ahead += self._restore(command)
                case js.TakeDown():
                    self._take_down(self._whole_regions(command.tasks))
                case js.RequestStop():
                    self._stop_ordered = command
                    if self._attempt is not None:
                        self._attempt.stop(drain=command.drain)
                case js.GiveUp():
                    command.error.add_note(f"The job {self.name!r} is over: {command.reason}.")
                    self._error = command.error
                    self._over = True
                    if self._attempt is not None and self._attempt.is_up():
                        self._attempt.take_down(None, command.error)
                case js.Finish():
                    self._over = True
                    if not self._life.has_run:
                        self.drained = False
                        self._news.not_begun()

    def _go_on(self, progress: Progress | None) -> Sequence[js.Command]:
        """Let what is up run until something happens that the life cycle decides over, and tell it."""
        struck = self._proceed(progress)
        now_ns = self._clock.monotonic_ns()
        if self.session.stopped is not None and struck is None:
            return self._finish()
        if self._is_fenced():
            assert self._storage.leases.fenced is not None
            self._told_fenced = True
            struck = Struck(self._storage.leases.fenced, None)
        if struck is not None:
            return self._life.on(js.Failed(now_ns, struck.error, struck.tasks))
        if self._take_downs:
            failpoint("job.taken_down")
            done, self._take_downs = self._take_downs, 0
            return [command for _ in range(done) for command in self._life.on(js.TakenDown(now_ns))]
        if self._is_stop_new():
            drain = self._heeded_stop = self._stop
            return self._life.on(js.StopRequested(drain=bool(drain)))
        if self._life.state is js.JobState.RUNNING and (ended := self._rescaling.turn(self._attempt)) is not None:
            return self._life.on(js.Failed(now_ns, ended, None))
        return self._life.on(js.Elapsed(now_ns))

    def _proceed(self, progress: Progress | None) -> Struck | None:
        until_ns = self._life.due_ns()
        if self._attempt is not None and self._attempt.is_up():
            return self._attempt.proceed(lambda: self._is_due() or self._is_fenced(), until_ns, progress)
        if until_ns is None and not self._take_downs:
            raise BugError(f"job {self.name!r} waits for nothing while {self._life.state.name}")
        while not self._is_due() and not self._is_fenced():
            self.session.turn()
            seconds = LONGEST_WAIT_S
            if until_ns is not None:
                seconds = min(seconds, max(0.0, (until_ns - self._clock.monotonic_ns()) / 1e9))
            self._pause(seconds)
        return None

    def _is_due(self) -> bool:
        """Return whether the life cycle waits for something that is there: no checkpoint half done, a time, a stop."""
        if self._take_downs:
            return self.session.halted() or self.session.hangs
        if self._is_stop_new() or (self._life.state is js.JobState.RUNNING and self._rescaling.is_due()):
            return True
        due_ns = self._life.due_ns()
        return due_ns is not None and due_ns <= self._clock.monotonic_ns()

    def _is_stop_new(self) -> bool:
        return self._stop is not None and self._stop != self._heeded_stop

    def _is_fenced(self) -> bool:
        return self._storage.leases.fenced is not None and not self._told_fenced

    def _wait_for_lease(self, seconds: float) -> None:
        if self._stop is not None:
            raise UserError(f"job {self.name!r} was stopped while it waited for another run's lease.")
        self._pause(seconds)

    def _pause(self, seconds: float) -> None:
        pause = self._around.pause or partial(self._wakened.get, True)
        with suppress(Empty):
            pause(seconds)

    def _whole_regions(self, tasks: frozenset[TaskId] | None) -> frozenset[TaskId] | None:
        """Return what must restart with these tasks; None: all."""
        struck = None if tasks is None else restart_region(self._graph, tasks)
        return None if struck is None or len(struck) == len(self._graph.tasks) else struck

    def _take_down(self, tasks: frozenset[TaskId] | None) -> None:
        assert self._life.error is not None
        self._take_downs += 1
        if self._attempt is not None:
            failpoint("job.failing")
            self._attempt.take_down(tasks, self._life.error)
            if tasks is None:
                # Also those of an attempt that failed while it was built.
                self.session.failed("the attempt failed")

    def _restore(self, command: js.Restore) -> Sequence[js.Command]:
        tasks = self._whole_regions(command.tasks)
        restored: RestoredState | None = None
        try:
            failpoint("job.restoring")
            self._storage.acquire(self._wait_for_lease, self._warn, self._wake)
            if (graph := self._rescaling.next_plan(tasks)) is not None:
                self._change_plan(graph)
                resize_sinks(graph, tasks)
            pages, key_groups = self._storage.directory / "restored", self._plan.loop.key_groups
            restored = self._beginnings.choose(self._graph, key_groups, pages)
            failpoint("job.loaded")
            self._beginnings.pass_over()
            self._storage.rewind(self._context, self._graph, restored, tasks)
            adopted = adopted_attempt(self._make_attempt, self._plan, self._context, restored, self._life, self._news)
            if adopted is None:
                recover_sinks(self._graph, restored, tasks)
                failpoint("job.sinks_recovered")
            start = AttemptStart(command.attempt, restored, self.session.last_epoch())
            if tasks is None or self._attempt is None:
                self._attempt = adopted or self._make_attempt(self._plan, self._context, start)
                if self._stop_ordered is not None:
                    self._attempt.stop(drain=self._stop_ordered.drain)
            else:
                self._attempt.restore(tasks, start)
            failpoint("job.restored")
            self._restored(tasks, restored)
            commands = self._life.on(js.Restored(self._clock.monotonic_ns()))
            failpoint("job.running")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._news.not_restored(error, self._life.has_run)
            if not is_retryable(error) and (graph := self._rescaling.undo(error)) is not None:
                self._change_plan(graph)
                resize_sinks(graph)
                error = PlanChangedError(f"it goes on as before, for {type(error).__name__}: {error}")
            return self._life.on(js.Failed(self._clock.monotonic_ns(), error, command.tasks))
        finally:
            if restored is not None:
                restored.close()
        return commands

    def _change_plan(self, graph: ExecutionGraph) -> None:
        """Build all instances by another plan from now on."""
        self._graph, self._plan, self._regions = graph, replace(self._plan, graph=graph), regions(graph)

    def _restored(self, tasks: frozenset[TaskId] | None, restored: RestoredState | None) -> None:
        self.restored_epoch = None if restored is None else restored.epoch
        self.restarts = self._life.attempt - 1
        if (text := self._rescaling.built(tasks, restored)) is not None:
            self._news.rescaled(text)
            if tasks is None:
                return
        if not self._life.has_run:
            self._news.begins(self._graph, restored, self._storage.repository.strays())
            return
        self._region_restarts.update(region for region in self._regions if tasks is None or region <= tasks)
        names = [self._graph.name(task) for task in self._graph.tasks if tasks is not None and task.id in tasks]
        assert self._life.error is not None
        self._news.restarted(names, self.restored_epoch, self._life.error)
        sentence = error_sentence(self._life.error) or ""
        self._tell(Restarted(tuple(names), self.restored_epoch, sentence))

    def _finish(self) -> Sequence[js.Command]:
        """Close everything. There is nothing to go back to any more, so an error is raised as it is."""
        assert self._attempt is not None
        metrics = self._attempt.metrics()
        self._attempt.finish()
        failpoint("job.ended")
        kept = self._attempt.at_end and self._stop is None
        self.drained = self._attempt.drained or kept
        if self._options.says_end and self._stop is None:
            self._warn(end_of_input.open_windows_sentence(metrics) if kept else end_of_input.CLOSED)
        return self._life.on(js.LastCommitted())

    def _wake(self) -> None:
        attempt = self._attempt
        if attempt is not None:
            attempt.wake()
        if self._wakened.empty():
            self._wakened.put(None)
