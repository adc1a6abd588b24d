"""A task manager: hosts the instances that the head of a job gives to it, and joins them with those of others.

A machine that is told messages and says some. One thread calls `handle` and `turn`; whoever owns that thread waits, and
carries messages: `service` in a process of its own, the head's attempt in the process that started the job.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import assert_never

from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.checkpoint_port import BarrierGivenUp, CutTaken, Report
from penstock.engine.dataflow.worker import Outcome, Ran, Waiting
from penstock.engine.executors.hosted_instances import HostedInstances, Surroundings
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.alignment import ProgressReports
from penstock.engine.executors.managers.failures import Failure, failure_of
from penstock.engine.executors.managers.manager_parts import ManagerParts
from penstock.engine.executors.managers.manager_uploads import ManagerUploads
from penstock.engine.executors.managers.part_readings import read_all
from penstock.engine.executors.managers.places import Crossings
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.executors.managers.step_report import Step, step_of
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.part_status import read_status
from penstock.engine.restore.state_assignment import RestoredState
from penstock.engine.transport.link_set import LinkSet
from penstock.engine.transport.linked import LinkedChannels
from penstock.model.errors import BugError, RetryableError
from penstock.model.ids import TaskId

METRICS_NS = 1_000_000_000
"""How often figures are said."""


@dataclass(frozen=True, slots=True)
class ManagerShell:
    """The surroundings of a task manager.

    ``say`` takes what it says to the head, ``wake`` makes its thread call `turn` soon, from any thread.
    ``is_interrupted`` returns whether a deployment that waits for others is to be given up. One that ``keeps_errors``
    is in the process of whoever it tells, which can have them as they were `raised`.
    """

    clock: Clock
    say: Callable[[ms.ToHead], None]
    wake: Callable[[], None]
    links: LinkSet[int]
    is_interrupted: Callable[[], bool]
    parts: ManagerParts
    keeps_errors: bool = False


@dataclass(slots=True)
class _Deployed:
    """What was built of one region, and whether it ``stands still`` as something of it failed."""

    attempt: int
    tasks: frozenset[TaskId]
    part: Build
    runs: bool = False
    stands_still: bool = False
    ended: bool = False


class TaskManager:
    """Hosts instances of one job."""

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        setup: ManagerSetup,
        shell: ManagerShell,
        bind: Callable[[bytes], JobPlan],
    ) -> None:
        """Nothing is built yet. ``bind`` returns the plan with sinks that were packed."""
        self._plan, self._setup, self._shell, self._bind = plan, setup, shell, bind
        self.name = name
        self.has_left = False
        """Whether it was told to end, and has."""
        self._scratch = shell.parts.scratch
        self._uploads = None if setup.storage is None else ManagerUploads(setup.storage, shell.parts.page_stores)
        self._meeting, self._background, self._probe = shell.parts.meeting, shell.parts.background, shell.parts.probe
        self._hosted: HostedInstances | None = None
        self._deployed: dict[int, _Deployed] = {}
        self._progress = ProgressReports()
        self._raised: list[tuple[Failure, BaseException]] = []
        self._begun = 0
        self._is_idle = True
        self._started_ns = shell.clock.monotonic_ns()
        self._metrics_ns = self._started_ns + METRICS_NS

    @property
    def address(self) -> str:
        """Where others meet it."""
        return self._meeting.address

    def raised(self, failure: Failure) -> BaseException | None:
        """Return the error that it has said as this very value, once; None: it has said none such."""
        for said, error in self._raised:
            if said is failure:
                self._raised.remove((said, error))
                return error
        return None

    def handle(self, message: ms.ToManager) -> None:
        """Do what the head says."""
        match message:
            case ms.Deploy():
                self._deploy(message)
            case ms.Start():
                self._start(message.deployment)
            case ms.TakeDown():
                self._take_down(message)
            case ms.Inject():
                self._begun = max(self._begun, message.epoch)
                if self._hosted is not None:
                    self._hosted.instances.inject(message.epoch, message.sources, last=message.last)
            case ms.EndSources():
                if self._hosted is not None:
                    self._hosted.instances.end_sources(message.sources, drain=message.drain)
            case ms.Upload():
                self._upload(message.epoch)
            case ms.GiveUpEpoch():
                if self._hosted is not None and self._hosted.cuts is not None:
                    self._hosted.cuts.give_up(message.epoch)
            case ms.ReadStatus():
                self._say_status(message)
            case ms.Finish():
                self._finish(drained=message.drained)
            case ms.Leave():
                self.close()
                self.has_left = True
            case ms.Progress():
                if self._hosted is not None:
                    now_ns = self._shell.clock.monotonic_ns()
                    self._hosted.worker.touch_sources(self._progress.hear(message, now_ns))
            case ms.Setup():
                raise BugError(f"task manager {self.name!r} was set up twice")
            case _:
                assert_never(message)

    def turn(self) -> Outcome:
        """Let one instance do one piece of work, and let links carry what there is."""
        self._background.collect()
        outcome = self._step()
        self._is_idle = not isinstance(outcome, Ran) and not self.is_touched()
        for lost in self._shell.links.turn():
            self._shell.say(ms.LinkLost(lost.region, lost.peer, lost.reason))
        if not isinstance(outcome, Ran):
            self._say_ended()
        now_ns = self._shell.clock.monotonic_ns()
        progress = self._progress.report(now_ns)
        if progress is not None:
            self._shell.say(progress)
        if now_ns >= self._metrics_ns:
            self._metrics_ns = now_ns + METRICS_NS
            self._say_metrics()
            if self._probe is not None:
                self._shell.say(read_all(self._probe, self._hosted, now_ns))
        return outcome

    def due_ns(self) -> int:
        """Return when `turn` has something to do even if nothing happens."""
        progress_ns = self._progress.due_ns
        return self._metrics_ns if progress_ns is None else min(self._metrics_ns, progress_ns)

    @property
    def hosts(self) -> bool:
        """Whether instances are here."""
        return self._hosted is not None

    def step_now(self) -> Step | None:
        """Return the step that the loop is in, None: none; from any thread."""
        hosted = self._hosted
        return None if hosted is None else step_of(hosted.worker)

    def is_touched(self) -> bool:
        """Return whether an instance may run."""
        return self._hosted is not None and self._hosted.worker.is_touched()

    def wake_instance(self, instance: str) -> None:
        """Let the loop look at an instance; from any thread."""
        hosted = self._hosted
        if hosted is not None:
            hosted.worker.wake(instance)
        self._shell.wake()

    def metrics(self) -> JobMetrics | None:
        """Return a snapshot of what is hosted here, None: nothing; from any thread."""
        hosted = self._hosted
        if hosted is None:
            return None
        stepped_ns = hosted.worker.stepped_ns
        clock = self._shell.clock
        return hosted.read_metrics(self._started_ns, clock.monotonic_ns(), clock.wall_us(), stepped_ns)

    def close(self) -> None:
        """Let go of everything."""
        if self._hosted is not None:
            self._abandon(self._hosted)
        self._meeting.close()
        self._background.close(0)
        self._scratch.close()

    def _deploy(self, order: ms.Deploy) -> None:
        try:
            self._build(order)
        except BaseException as error:
            self._raise_at_once(error)
            self._shell.links.remove(order.deployment)
            self._shell.say(ms.Refused(order.deployment, self._failure(error)))
        else:
            self._shell.say(ms.Deployed(order.deployment))

    def _build(self, order: ms.Deploy) -> None:
        plan = self._bind(order.sinks)
        tasks = frozenset(TaskId(task) for task in order.tasks)
        crossings = Crossings(plan.graph, tasks, order.places, self.name)
        addresses = {peer: order.addresses[peer] for peer in sorted(crossings.peers)}
        links = self._meeting.meet(order.deployment, addresses, self._shell.is_interrupted)
        channels = {peer: LinkedChannels(link) for peer, link in links.items()}
        for peer, channel in channels.items():
            self._shell.links.add(order.deployment, peer, channel)
        self._scratch.claim()
        if self._hosted is None:
            self._started_ns = self._shell.clock.monotonic_ns()
            self._hosted = self._open(plan)
        restored = self._restored(order.restore, plan)
        try:
            start = AttemptStart(order.attempt, restored, order.last_epoch)
            part = self._hosted.add(plan, start, tasks, crossings.channel(channels), crossings.hosts)
        finally:
            if restored is not None:
                restored.close()
        self._deployed[order.deployment] = _Deployed(order.attempt, tasks, part)

    def _open(self, plan: JobPlan) -> HostedInstances:
        writer = None
        if self._uploads is not None:
            writer = CutWriter(self._uploads.repository, self._scratch.path / "uploads")
        around = Surroundings(
            self._shell.clock,
            self.wake_instance,
            lambda record: self._shell.say(ms.BadRecordMet(record)),
            lambda: self._begun,
            None if self._uploads is None else self._report,
            writer,
            self._scratch,
            self._shell.parts.state,
            None if self._probe is None else self._probe.thread_cpu_ns,
        )
        return HostedInstances(plan, self._setup.options, around)

    def _restored(self, restore: ms.Restore | None, plan: JobPlan) -> RestoredState | None:
        if self._uploads is None:
            return None
        restored = self._uploads.join_run(restore, plan, self._scratch.path / "restored")
        if restored is not None:
            self._begun = max(self._begun, restored.manifest.epoch)
        return restored

    def _start(self, deployment: int) -> None:
        deployed = self._deployed.get(deployment)
        if deployed is not None and self._hosted is not None:
            deployed.runs = True
            self._progress.begin(deployed.attempt, deployed.part.alignments, self._shell.clock.monotonic_ns())
            self._hosted.begin(deployed.part, deployed.attempt)

    def _take_down(self, order: ms.TakeDown) -> None:
        tasks = None if order.tasks is None else frozenset(TaskId(task) for task in order.tasks)
        notes: list[str] = []
        hosted = self._hosted
        if hosted is not None:
            self._say_metrics()
            if tasks is None:
                notes += self._abandon(hosted)
            else:
                self._forget(number for number, item in self._deployed.items() if item.tasks <= tasks)
                notes += hosted.release(tasks)
        self._shell.say(ms.TakenDown(order.tasks, tuple(notes)))

    def _abandon(self, hosted: HostedInstances) -> list[str]:
        self._forget(self._deployed)
        self._hosted = None
        return [*hosted.take_down(hosted.members(None)), *hosted.abandon()]

    def _forget(self, deployments: Iterable[int]) -> None:
        for deployment in list(deployments):
            self._shell.links.remove(deployment)
            self._progress.end(self._deployed.pop(deployment).part.alignments.keys())

    def _step(self) -> Outcome:
        hosted = self._hosted
        if hosted is None:
            return Waiting(None)
        try:
            outcome = hosted.worker.step()
        except BaseException as error:
            self._raise_at_once(error)
            at = hosted.worker.at
            self._fail(hosted, error, None if at is None else at.name)
            return Waiting(None)
        if hosted.dead_letters.failure is not None:
            self._fail(hosted, hosted.dead_letters.failure, None)
        return outcome

    def _fail(self, hosted: HostedInstances, error: BaseException, instance: str | None) -> None:
        """Say it, and let what it struck stand still until it is taken down."""
        for deployment, deployed in self._deployed.items():
            struck = instance is None or any(item.name == instance for item in deployed.part.instances)
            if struck and deployed.runs and not deployed.stands_still:
                deployed.stands_still = True
                hosted.worker.remove(deployed.part.instances)
                self._shell.say(ms.Failed(deployment, instance, self._failure(error)))

    def _raise_at_once(self, error: BaseException) -> None:
        """Let an order to end the program through, if this is its process; from another it is said as all errors."""
        if self._shell.keeps_errors and isinstance(error, KeyboardInterrupt | SystemExit):
            raise error

    def _failure(self, error: BaseException) -> Failure:
        failure = failure_of(error)
        if self._shell.keeps_errors:
            self._raised.append((failure, error))
        return failure

    def _say_ended(self) -> None:
        for deployment, deployed in self._deployed.items():
            if not deployed.runs or deployed.ended or deployed.stands_still:
                continue
            if all(instance.done for instance in deployed.part.instances):
                deployed.ended = True
                self._shell.links.end(deployment)
                self._say_metrics()
                self._shell.say(ms.AllEnded(deployment))

    def _upload(self, epoch: int) -> None:
        hosted, uploads = self._hosted, self._uploads
        if hosted is None or hosted.cuts is None or uploads is None:
            gone = RetryableError(f"checkpoint {epoch}: its instances are gone")
            self._shell.say(ms.UploadFailed(epoch, self._failure(gone)))
            return
        work = uploads.begin(epoch, hosted.cuts.begin_upload(epoch))

        def answer(uploaded: ms.Uploaded | None, error: BaseException | None) -> None:
            if uploaded is not None:
                self._shell.say(uploaded)
            elif error is not None:
                self._shell.say(ms.UploadFailed(epoch, self._failure(error)))

        self._background.submit(work, answer)

    def _finish(self, *, drained: bool) -> None:
        failure, hosted = None, self._hosted
        if hosted is not None:
            try:
                hosted.close(drained=drained)
                self._say_metrics()
            except BaseException as error:
                self._raise_at_once(error)
                failure = self._failure(error)
            else:
                self._forget(self._deployed)
                self._hosted = None
        self._shell.say(ms.Finished(failure))

    def _report(self, attempt: int, report: Report) -> None:
        match report:
            case CutTaken():
                self._shell.say(
                    ms.CutTaken(report.instance, attempt, report.epoch, report.ended, dict(report.receipts))
                )
            case BarrierGivenUp():
                self._shell.say(ms.BarrierMissed(report.instance, attempt, report.epoch))

    def _say_status(self, order: ms.ReadStatus) -> None:
        hosted = self._hosted
        if hosted is None:
            return
        sent, received = self._shell.links.counts()
        status = read_status(
            hosted.build,
            idle=self._is_idle and not self.is_touched(),
            sent=sent,
            received=received,
            undecided=order.undecided,
            last_barrier=order.last_barrier,
        )
        self._shell.say(ms.Status(order.number, status))

    def _say_metrics(self) -> None:
        metrics = self.metrics()
        if metrics is not None:
            self._shell.say(ms.Metrics(metrics))
