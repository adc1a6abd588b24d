"""A task manager: hosts the instances that the head of a job gives to it, and joins them with those of others.

A machine that is told messages and says some. One thread calls `handle` and `turn`; whoever owns that thread waits, and
carries messages: `service` in a process of its own, the head's attempt in the process that started the job.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.connectors.dead_letter import FirstBadRecord
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import BarrierGivenUp, CutTaken, Report
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.worker import Outcome, Ran, Waiting
from penstock.engine.executors.hosted_instances import HostedInstances
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.adoption import plan_digest
from penstock.engine.executors.managers.alignment import ProgressReports
from penstock.engine.executors.managers.deployed_parts import DeployedPart, DeployedParts
from penstock.engine.executors.managers.manager_growth import ManagerGrowth, crossings_of
from penstock.engine.executors.managers.manager_moves import ManagerMoves
from penstock.engine.executors.managers.manager_partitions import ManagerPartitions
from penstock.engine.executors.managers.manager_shell import ManagerShell, meet, surroundings
from penstock.engine.executors.managers.manager_uploads import ManagerUploads, upload
from penstock.engine.executors.managers.part_readings import read_all, status_of
from penstock.engine.executors.managers.plan_reader import PlanReader
from penstock.engine.executors.managers.raised_errors import RaisedErrors
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.executors.managers.shared_files import seen_files
from penstock.engine.executors.managers.step_report import Step, step_of
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import BugError
from penstock.model.ids import TaskId

METRICS_NS = 1_000_000_000
"""How often figures are said."""


class TaskManager:
    """Hosts instances of one job."""

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        setup: ManagerSetup,
        shell: ManagerShell,
        plans: PlanReader,
    ) -> None:
        """Nothing is built yet."""
        self._plan, self._setup, self._shell, self._plans = plan, setup, shell, plans
        self.name = name
        self.has_left = False
        """Whether it was told to end, and has."""
        self._scratch = shell.parts.scratch
        self._uploads = None if setup.storage is None else ManagerUploads(setup.storage, shell.parts.page_stores)
        self._meeting, self._background, self._probe = shell.parts.meeting, shell.parts.background, shell.parts.probe
        self._hosted: HostedInstances | None = None
        self._deployed = DeployedParts(self._probe)
        self._progress = ProgressReports()
        self.errors = RaisedErrors(keeps=shell.keeps_errors)
        """Those that it has said, as they were raised, if it is in the process of its head."""
        self._moves = ManagerMoves(self._tell)
        self._growth = ManagerGrowth(self._deployed, self._moves, self._tell, shell.links.remove_peer)
        self._partitions = ManagerPartitions(self._deployed, self._tell)
        self._begun = 0
        self._run = 0 if setup.storage is None else setup.storage.run
        self._bad_records: list[FirstBadRecord] = []
        self._is_led = True
        self._is_idle = True
        self._started_ns = shell.clock.monotonic_ns()
        self._metrics_ns = self._started_ns + METRICS_NS

    @property
    def address(self) -> str:
        """Where others meet it."""
        return self._meeting.address

    def handle(self, message: ms.ToManager) -> None:
        """Do what the head says."""
        match message:
            case ms.LookAtFiles():
                self._shell.say(seen_files(message))
            case ms.ChangePlan():
                self._plan = self._plans.read(message.plan)
            case ms.Deploy() | ms.Grow():
                self._deploy(message)
            case ms.JoinGrown() | ms.Dismiss() | ms.PeerGone():
                self._growth.hear(message, self._hosted)
            case ms.ToSources():
                self._partitions.hear(message, self._fail)
            case ms.Start():
                self._start(message.deployment)
            case ms.TakeDown():
                self._take_down(message)
            case ms.Inject():
                self._begun = max(self._begun, message.epoch)
                if message.last:
                    self._deployed.note_end(message.sources)
                if self._hosted is not None:
                    self._hosted.instances.inject(message.epoch, message.sources, last=message.last)
            case ms.EndSources():
                self._deployed.note_end(message.sources)
                if self._hosted is not None:
                    self._hosted.instances.end_sources(message.sources, drain=message.drain)
            case ms.Upload():
                cuts = None if self._hosted is None else self._hosted.cuts
                upload(message.epoch, cuts, self._uploads, self._background, self._tell, self.errors.failure)
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
            case ms.SendMarkers() | ms.RoundOver():
                self._moves.hear(message)
            case ms.EpochCommitted() | ms.SetKeep() | ms.SetMemory() | ms.SetRoutes() | ms.SetCores():
                self._deployed.hear(message)
            case ms.ReadHolding():
                self.lose_head()
                self._shell.say(self._holding())
            case ms.Adopt():
                self._follow(message)
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
        self._partitions.look()
        self._is_idle = not isinstance(outcome, Ran) and not self.is_touched()
        for lost in self._shell.links.turn_on(self._shell.clock):
            part = self._deployed.get(lost.region)
            if part is not None:
                part.fault = f"its link to {lost.peer} broke: {lost.reason}"
            self._tell(ms.LinkLost(lost.region, lost.peer, lost.reason))
        if not isinstance(outcome, Ran):
            self._say_ended()
        now_ns = self._shell.clock.monotonic_ns()
        if (progress := self._progress.report(now_ns)) is not None:
            self._tell(progress)
        if now_ns >= self._metrics_ns:
            self._metrics_ns = now_ns + METRICS_NS
            self._say_metrics()
            if self._probe is not None:
                self._tell(read_all(self._probe, self._hosted, self._deployed, now_ns))
        self._deployed.look(now_ns)
        return outcome

    def due_ns(self) -> int:
        """Return when `turn` has something to do even if nothing happens."""
        times = (self._metrics_ns, self._progress.due_ns, self._deployed.guard_ns, self._deployed.sic.due_ns)
        return min(time_ns for time_ns in times if time_ns is not None)

    @property
    def hosts(self) -> bool:
        """Whether instances are here."""
        return self._hosted is not None

    def instances(self) -> Sequence[Instance]:
        """Return the instances that are here."""
        return [instance for _, deployed in self._deployed for instance in deployed.part.instances]

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
        clock, stepped_ns = self._shell.clock, hosted.worker.stepped_ns
        return hosted.read_metrics(self._started_ns, clock.monotonic_ns(), clock.wall_us(), stepped_ns)

    def lose_head(self) -> None:
        """Go on without a head, which hears nothing until one that follows adopts what is here; no barrier comes.

        Its sources read on, whatever those of others came to last.
        """
        self._is_led = False
        if self._hosted is not None:
            self._hosted.worker.touch_sources(self._progress.let_loose(self._shell.clock.monotonic_ns()))

    def close(self) -> None:
        """Let go of everything."""
        if self._hosted is not None:
            self._abandon(self._hosted)
        self._meeting.close()
        self._background.close(0)
        self._scratch.close()

    def _tell(self, message: ms.ToHead) -> None:
        """Say something to the head; what one that follows must know of it is kept."""
        if self._is_led:
            self._shell.say(message)

    def _holding(self) -> ms.Holding:
        digest = plan_digest(self._plan.graph, self._plan.loop.key_groups)
        return self._deployed.holding(self._run, digest, self.address, self._begun)

    def _follow(self, order: ms.Adopt) -> None:
        """Do from now on what another head says, which gives up what is half done."""
        self._is_led, self._run = True, order.run
        self._deployed.renumber(order.attempt)
        if self._uploads is not None:
            self._uploads.follow(order)
        if self._hosted is not None and self._hosted.cuts is not None:
            self._hosted.cuts.give_up(self._begun)
        self._progress.say_again(self._shell.clock.monotonic_ns())
        self._tell(ms.Adopted(self._holding()))
        for record in self._bad_records:
            self._tell(ms.BadRecordMet(record))
        for number, part in self._deployed:
            if part.ended:
                self._tell(ms.AllEnded(number))

    def _meet_bad_record(self, record: FirstBadRecord) -> None:
        self._bad_records.append(record)
        self._tell(ms.BadRecordMet(record))

    def _deploy(self, order: ms.Deploy | ms.Grow) -> None:
        try:
            self._build(order)
        except BaseException as error:
            self.errors.let_through(error)
            self._shell.links.remove(order.deployment)
            self._tell(ms.Refused(order.deployment, self.errors.failure(error)))
        else:
            self._tell(ms.Deployed(order.deployment))

    def _build(self, order: ms.Deploy | ms.Grow) -> None:
        plan = self._plans.bind(self._plan, order.sinks)
        tasks = frozenset(TaskId(task) for task in order.tasks)
        crossings = crossings_of(order, plan.graph, self.name)
        addresses = {peer: order.addresses[peer] for peer in crossings.peers}
        channels = meet(self._shell, order.deployment, addresses)
        self._scratch.claim()
        if self._hosted is None:
            self._started_ns = self._shell.clock.monotonic_ns()
            self._hosted = self._open(plan)
            if isinstance(order, ms.Grow):
                self._restored(None, plan)
        if isinstance(order, ms.Grow):
            self._begun = max(self._begun, order.last_epoch)
            self._growth.grow(order, plan, crossings, channels, self._hosted)
            return
        restored = self._restored(order.restore, plan)
        begun_from = 0 if restored is None else restored.epoch
        try:
            start = AttemptStart(order.attempt, restored, order.last_epoch)
            part = self._hosted.add(plan, start, tasks, crossings.channel(channels), crossings.hosts)
        finally:
            if restored is not None:
                restored.close()
        deployed = DeployedPart(order.attempt, tasks, part, plan, begun_from)
        self._moves.add(order.deployment, deployed.moves, order.places, part.instances, channels)
        self._deployed.add(order.deployment, deployed)

    def _open(self, plan: JobPlan) -> HostedInstances:
        uploads, folder = self._uploads, self._scratch.path / "uploads"
        writer = None if uploads is None else CutWriter(uploads.repository, folder)
        report = None if uploads is None else self._report
        met, moves = self._meet_bad_record, self._moves.report
        around = surroundings(self._shell, self.wake_instance, met, lambda: self._begun, report, writer, moves)
        around = replace(around, budgets=lambda: self._deployed.budgets)
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
                self._forget(number for number, item in self._deployed if item.tasks <= tasks)
                notes += hosted.release(tasks)
        self._tell(ms.TakenDown(order.tasks, tuple(notes)))

    def _abandon(self, hosted: HostedInstances) -> list[str]:
        self._forget(number for number, _ in self._deployed)
        self._hosted = None
        return [*hosted.take_down(hosted.members(None)), *hosted.abandon()]

    def _forget(self, deployments: Iterable[int]) -> None:
        for deployment in list(deployments):
            self._shell.links.remove(deployment)
            self._moves.remove(deployment)
            self._growth.forget(deployment)
            self._progress.end(self._deployed.remove(deployment).part.alignments.keys())

    def _step(self) -> Outcome:
        hosted = self._hosted
        if hosted is None:
            return Waiting(None)
        try:
            outcome = hosted.worker.step()
        except BaseException as error:
            self.errors.let_through(error)
            at = hosted.worker.at
            self._fail(error, None if at is None else at.name)
            return Waiting(None)
        if hosted.dead_letters.failure is not None:
            self._fail(hosted.dead_letters.failure, None)
        return outcome

    def _fail(self, error: BaseException, instance: str | None) -> None:
        """Say it, and let what it struck stand still until it is taken down."""
        for deployment, deployed in self._deployed:
            struck = instance is None or any(item.name == instance for item in deployed.part.instances)
            if struck and deployed.runs and not deployed.stands_still and self._hosted is not None:
                deployed.stands_still, deployed.fault = True, f"{type(error).__name__} in {instance}: {error}"
                self._hosted.worker.remove(deployed.part.instances)
                self._tell(ms.Failed(deployment, instance, self.errors.failure(error)))

    def _say_ended(self) -> None:
        for deployment, deployed in self._deployed:
            if deployed.runs and deployed.is_done and not (deployed.ended or deployed.stands_still):
                deployed.ended = True
                self._shell.links.end(deployment)
                self._say_metrics()
                self._tell(ms.AllEnded(deployment))

    def _finish(self, *, drained: bool) -> None:
        failure, hosted = None, self._hosted
        if hosted is not None:
            try:
                hosted.close(drained=drained)
                self._say_metrics()
            except BaseException as error:
                self.errors.let_through(error)
                failure = self.errors.failure(error)
            else:
                self._forget(number for number, _ in self._deployed)
                self._hosted = None
        self._tell(ms.Finished(failure))

    def _report(self, built_in: int, report: Report) -> None:
        attempt = self._deployed.attempt_of(report.instance, built_in)
        match report:
            case CutTaken():
                self._deployed.keep(report)
                said = report.instance, attempt, report.epoch, report.ended, dict(report.receipts), report.stretches
                self._tell(ms.CutTaken(*said))
            case BarrierGivenUp():
                self._tell(ms.BarrierMissed(report.instance, attempt, report.epoch))

    def _say_status(self, order: ms.ReadStatus) -> None:
        if self._hosted is not None:
            is_idle = self._is_idle and not self.is_touched()
            self._tell(status_of(order, self._hosted.build, self._shell.links, is_idle=is_idle))

    def _say_metrics(self) -> None:
        metrics = self.metrics()
        if metrics is not None:
            self._tell(ms.Metrics(metrics, () if self._uploads else self._deployed.take_stretches()))
