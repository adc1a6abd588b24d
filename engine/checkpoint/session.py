"""Checkpoints of a job that runs in one process: carries the coordinator's commands out and brings it the answers.

One session serves one attempt after the other (`jobs.recovery`); writing happens in the `Background`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from penstock.engine.checkpoint import events as ev
from penstock.engine.checkpoint.connector_calls import tell_sources, widen_sinks
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator, CheckpointStatistics
from penstock.engine.checkpoint.kept_files import KeptFiles
from penstock.engine.checkpoint.kept_stretches import KeptStretches
from penstock.engine.checkpoint.notices import CheckpointNotices, not_committed, too_many_failed
from penstock.engine.checkpoint.savepoint_requests import SavepointRequests
from penstock.engine.checkpoint.sink_failure import SinkFailure, fail_for_good, reason_of
from penstock.engine.checkpoint.sink_receipts import SinkReceipts
from penstock.engine.checkpoint.step_retries import retry_until_known
from penstock.engine.checkpoint.writer import ManifestMaker
from penstock.engine.core.background import Background
from penstock.engine.core.contract import Clock
from penstock.engine.core.job_events import CheckpointCommitted, CheckpointFailed, Tell, tell_nobody
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import BarrierGivenUp, CheckpointPort, CutTaken, Participants, Report
from penstock.model.connectors import Sink, Source
from penstock.model.errors import PenstockError
from penstock.model.failpoints import failpoint
from penstock.state.checkpoints.manifest import CheckpointManifest
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.results import RetentionResult, Traffic, describe_skipped


class CheckpointSession:
    """The checkpoints of one job."""

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        repository: CheckpointRepository,
        manifests: ManifestMaker,
        background: Background,
        clock: Clock,
        warn: Callable[[str], None] = print,
        check_lease: Callable[[], None] = lambda: None,
        stop_savepoint: str | None = None,
    ) -> None:
        """Begin with no attempt; ``warn`` is told of checkpoints that fail, and of old ones that cannot be deleted.

        ``check_lease`` raises `FencedError` if another run has taken over; the background's thread calls it.
        """
        self.tell: Tell = tell_nobody
        """Takes what becomes of checkpoints, in the thread that calls `turn`."""
        self.stop_savepoint = stop_savepoint
        """The savepoint to keep of the last checkpoint when the job is stopped; to be set before the stop."""
        self.coordinator = coordinator
        self.repository = repository
        self.stopped: ev.Stop | None = None
        """Set when everything is committed and the job is over."""
        self.traffic = Traffic()
        self.durations_ns: list[int] = []
        self.failed_retentions = 0
        self.last_failed_retention: str | None = None
        self.savepoints = SavepointRequests()
        self.kept = KeptFiles(repository.files, manifests.job, manifests.seed)
        self.begun = 0
        """The last checkpoint that was begun, or restored."""
        self.last_barrier: int | None = None  # Sent; behind it sources read nothing more.
        self.hangs = False
        """Whether the job ends although its sinks are still committing: their end is not to be waited for."""
        self._maker = manifests
        self._background = background
        self._clock = clock
        self._check_lease = check_lease
        self._failure: SinkFailure | None = None
        self._news = CheckpointNotices(clock, warn)
        self._stop_ns: int | None = None
        self._is_drained = False
        self._port: CheckpointPort | None = None
        # Of the instances that are up; the attempt is the last one of all.
        self._attempts: dict[str, int] = {}
        self._attempt = 0
        self._sinks: dict[str, Sink] = {}
        self._sources: dict[str, Source] = {}
        self._receipts = SinkReceipts()
        self._stretches = KeptStretches()
        self._manifests: dict[int, CheckpointManifest] = {}
        self._given_up = 0
        self._began_ns: dict[int, int] = {}

    def started(
        self, port: CheckpointPort, part: Participants, start: AttemptStart, gone: frozenset[str] = frozenset()
    ) -> None:
        """Instances of an attempt, all or a region, are about to run: ``port`` reaches all that are up.

        Those of other regions keep their attempt, and what their sinks have prepared; those that are ``gone`` were of
        this one, and do not come back.
        """
        self._port, alone = port, not self._attempts
        self._attempts |= dict.fromkeys(part.instances, start.attempt)
        self._attempt, self.last_barrier = start.attempt, None
        self.begun = max(self.begun, start.epoch)
        self._manifests.clear()
        self._sources |= part.sources
        self._sinks |= part.sinks
        self._stretches.begin(part.instances)
        self._receipts.begin(part.sinks, start, self.coordinator.statistics().committed_epoch or 0)
        self._on(
            ev.Started(
                self._clock.monotonic_ns(),
                start.attempt,
                part.instances,
                part.readers,
                restored=None if start.restored is None else start.restored.epoch,
                last_epoch=start.last_epoch,
                alone=alone,
                gone=gone,
            )
        )

    def joined(self, instances: Collection[str], attempt: int, readers: Collection[str] = ()) -> None:
        """Instances have joined those of an attempt that run, ``readers`` among them; no checkpoint is in flight."""
        self._attempts |= dict.fromkeys(instances, attempt)
        self._on(ev.Joined(attempt, frozenset(instances), frozenset(readers)))

    def widen_sinks(self, writers: Mapping[str, int], answer: Callable[[BaseException | None], None]) -> None:
        """Let sinks have more writers than run, as no checkpoint is in flight; ``answer`` hears why one cannot."""
        sinks = {name: self._sinks[name] for name in writers}
        self._background.submit(lambda: widen_sinks(sinks, writers), lambda done, error: answer(error))

    def close(self, reason: PenstockError) -> None:
        """Let go of the attempt, which is over; savepoints that are still awaited fail for this reason."""
        self._port = None
        self.savepoints.close(reason)

    def adopted(self, port: CheckpointPort, part: Participants, start: AttemptStart, cuts: Iterable[CutTaken]) -> None:
        """Instances of a run before go on: an epoch that is half done is given up, what is published is committed.

        ``start`` is as if they had begun from the last checkpoint, its ``last_epoch`` the last that was begun at all.
        ``cuts`` have the receipts of what was prepared, and which instances have ended. Another checkpoint is asked
        for, as channels may wait for a barrier that not every source has sent.
        """
        self.started(port, part, start)
        self._given_up = start.last_epoch
        for cut in cuts:
            known = cut.epoch <= start.epoch
            if cut.ended or not known:
                self.report(start.attempt, replace(cut, receipts={}, stretches=()) if known else cut)
        self.request()

    def last_epoch(self) -> int:
        """Return the greatest epoch that was published, 0 if none was: for `AttemptStart`."""
        return max(self.repository.epochs(), default=0)

    def report(self, attempt: int, report: Report) -> None:
        """Take in what an instance of an attempt contributes; from the thread that calls `turn`."""
        if self._attempts.get(report.instance) != attempt:
            # Said by one that is gone; what it has prepared was, or will be, taken back.
            return
        match report:
            case CutTaken():
                self._take_cut(attempt, report)
            case BarrierGivenUp():
                self._on(ev.AlignmentFailed(report.instance, attempt, report.epoch))
            case _:
                assert_never(report)

    def turn(self) -> None:
        """Take in what was answered, and begin or give up a checkpoint if it is time."""
        self._background.collect()
        for name in self.savepoints.take():
            self.request(savepoint=name)
        now_ns = self._clock.monotonic_ns()
        self._news.look(self.coordinator.state, self.begun, now_ns)
        if self._stop_ns is not None and not self.hangs and self._news.commits_too_long(self._stop_ns, now_ns):
            self.hangs = True
            self._failure = SinkFailure(None, not_committed(self.begun))
        due_ns = self.coordinator.due_ns()
        if due_ns is not None and due_ns <= now_ns:
            self._on(ev.Tick(now_ns))

    def due_ns(self) -> int | None:
        """Return when `turn` has something to do, None: when an answer comes."""
        return self.coordinator.due_ns()

    def request(self, *, savepoint: str | None = None, then_stop: bool = False) -> None:
        """Ask for a checkpoint soon."""
        if then_stop and self._stop_ns is None:
            self._stop_ns = self._clock.monotonic_ns()
        if then_stop and savepoint is None:
            savepoint = self.stop_savepoint
        if savepoint is not None and self.savepoints.is_saved(savepoint):
            # By an attempt that failed before it came to stop.
            savepoint = None
        self._on(ev.Requested(savepoint, then_stop))

    def stop_at_end(self) -> None:
        """Take a last checkpoint: there is no more input for this run, but there may be for a later one."""
        self._on(ev.Requested(then_stop=True, at_end=True))

    def hold_barriers(self, *, held: bool) -> None:
        """Let no barrier be sent while state is on its way between instances; not ``held``: let them again."""
        self._on(ev.BarriersHeld(held))

    def drain(self) -> None:
        """Let the inputs end; the checkpoint behind them is the last."""
        self._is_drained = True
        self._on(ev.DrainRequested())

    def failed(self, reason: str, names: Collection[str] | None = None) -> None:
        """Instances of these names (None: all) are gone; until `halted`, something may still be half done."""
        for name in list(self._attempts) if names is None else names:
            attempt = self._attempts.pop(name, None)
            if attempt is not None:
                self._on(ev.InstanceFailed(name, attempt, reason))

    def take_failure(self) -> SinkFailure | None:
        """Return what went wrong with a commit, once: the sink's instances, or all, must be restarted."""
        failure, self._failure = self._failure, None
        return failure

    def halted(self) -> bool:
        """Return whether no answer is awaited any more, so that another attempt may start."""
        return self.coordinator.is_halted()

    @property
    def committed_epoch(self) -> int:
        """The last epoch whose output all sinks committed, 0: none."""
        return self.coordinator.committed_epoch

    def statistics(self) -> CheckpointStatistics:
        """Return the coordinator's counts."""
        return self.coordinator.statistics()

    def _take_cut(self, attempt: int, cut: CutTaken) -> None:
        self._receipts.add(cut)
        self._stretches.add(cut)
        if cut.ended:
            self._on(ev.InstanceEnded(cut.instance, attempt, delivered=cut.epoch - 1))
        elif cut.epoch > self._given_up:
            self._on(ev.InstanceSnapshotted(cut.instance, attempt, cut.epoch))

    def _on(self, event: ev.Event) -> None:
        for command in self.coordinator.on(event):
            self._do(command)

    def _do(self, command: ev.Command) -> None:
        match command:
            case ev.InjectBarrier():
                self._inject(command)
            case ev.StartUpload():
                self._upload(command)
            case ev.Publish():
                self._publish(command)
            case ev.CommitSinks():
                self._commit(command)
            case ev.AbortEpoch():
                self._ask().give_up(command.epoch)
                self._given_up = command.epoch
                self._manifests.pop(command.epoch, None)
                self.repository.abandon(command.epoch)
                failpoint("checkpoint.abandoned")
                self._news.given_up(command)
                self.tell(CheckpointFailed(command.epoch, command.reason))
            case ev.FailJob():
                self._failure = SinkFailure(None, too_many_failed(command, self.statistics().committed_epoch))
            case ev.RetainCheckpoints():
                self._retain(command)
            case ev.EndSources():
                self._ask().end_sources(command.sources)
            case ev.Stop():
                self.stopped = command

    def _inject(self, command: ev.InjectBarrier) -> None:
        self._began_ns = {command.epoch: self._clock.monotonic_ns()}
        self.begun = command.epoch
        self.last_barrier = command.epoch if command.last else None
        failpoint("checkpoint.barriers.before")
        self._ask().inject(command.epoch, command.sources, last=command.last)
        failpoint("checkpoint.barriers.after")

    def _ask(self) -> CheckpointPort:
        assert self._port is not None, "commands to instances follow their start"
        return self._port

    def _upload(self, command: ev.StartUpload) -> None:
        epoch = command.epoch
        # Without barriers, as all inputs had ended, it begins here.
        self._began_ns.setdefault(epoch, self._clock.monotonic_ns())
        receipts = {name: due for name, due in self._receipts.due(epoch).items() if due}
        failpoint("checkpoint.before_upload")
        self.repository.begin(epoch)
        upload = self._ask().begin_upload(epoch)

        def work() -> CheckpointManifest:
            return self._maker.make(epoch, upload(), receipts)

        def answer(manifest: CheckpointManifest | None, error: BaseException | None) -> None:
            if manifest is None:
                self._on(ev.UploadFailed(epoch, reason_of(error)))
                fail_for_good(error)
                return
            self._manifests[epoch] = manifest
            self._on(ev.UploadFinished(epoch))

        self._background.submit(work, answer)

    def _publish(self, command: ev.Publish) -> None:
        manifest, stretches = self._manifests.pop(command.epoch), self._stretches.due(command.epoch)
        savepoint, last = command.savepoint, None
        if self._is_drained and self.coordinator.is_behind_all_input():
            last = self.stop_savepoint

        def work() -> Traffic:
            self._check_lease()
            self.kept.write(manifest.epoch, self.repository.run, stretches)
            traffic = retry_until_known(lambda: self.repository.publish(manifest))
            self.kept.published()
            # A run that took over before that may not have seen the checkpoint: it must not be committed.
            retry_until_known(self._check_lease)
            if savepoint is not None:
                self.savepoints.write(self.repository, savepoint, manifest)
            if last is not None and not self.savepoints.is_saved(last):
                self.savepoints.write(self.repository, last, manifest)
            return traffic

        def answer(traffic: Traffic | None, error: BaseException | None) -> None:
            if traffic is None:
                self._on(ev.PublishFailed(command.epoch, reason_of(error)))
                fail_for_good(error)
                return
            self.traffic = traffic
            self.durations_ns.append(self._clock.monotonic_ns() - self._began_ns[command.epoch])
            tell_sources(self._sources, manifest)
            self._stretches.published(command.epoch)
            self._on(ev.Published(command.epoch))

        self._background.submit(work, answer)

    def _retain(self, command: ev.RetainCheckpoints) -> None:
        def work() -> RetentionResult:
            failpoint("checkpoint.retain.before")
            self._check_lease()
            result = self.repository.retain(command.count)
            if not result.unreadable:
                self._check_lease()
                self.kept.merge(self.repository.restorable)
            return result

        self._background.submit(work, self._retained)

    def _retained(self, result: RetentionResult | None, error: BaseException | None) -> None:
        """Note what could not be deleted; it goes with a later retention."""
        if result is None:
            reason = reason_of(error)
        elif result.unreadable:
            reason = f"no file is deleted while a manifest cannot be read. {describe_skipped(result.unreadable)}"
        else:
            self._news.retained()
            return
        self.failed_retentions += 1
        self.last_failed_retention = reason
        self._news.not_retained(reason)

    def _commit(self, command: ev.CommitSinks) -> None:
        epoch, attempt = command.epoch, command.attempt
        due = self._receipts.due(epoch)
        sinks = dict(self._sinks)
        committing: list[str] = []

        def work() -> None:
            failpoint("checkpoint.before_commit")
            for name, receipts in due.items():
                committing.append(name)
                self._check_lease()
                try:
                    sinks[name].commit(epoch, receipts)
                except PenstockError:
                    # It may be the other run's doing.
                    self._check_lease()
                    raise
                failpoint("checkpoint.between_commits")
            failpoint("checkpoint.after_commit")

        def answer(result: None, error: BaseException | None) -> None:
            if attempt != self._attempt:
                return
            if error is not None:
                self._failure = SinkFailure(committing[-1] if committing else None, error)
                self._on(ev.CommitFailed(epoch, attempt, reason_of(error)))
                return
            self._receipts.committed(epoch)
            self._news.committed(epoch)
            self._on(ev.Committed(epoch, attempt))
            # Whoever is told finds it counted.
            self.tell(CheckpointCommitted(epoch))
            self.savepoints.committed(epoch)

        self._background.submit(work, answer)
