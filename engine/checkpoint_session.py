"""Checkpoints of a job that runs in one process: carries the coordinator's commands out and brings it the answers.

One session serves one attempt after the other (`recovering`); writing happens in the `Background`.
"""

from collections.abc import Callable
from typing import Any

from penstock.engine import checkpoint_events as ev
from penstock.engine.background import Background
from penstock.engine.build import Build
from penstock.engine.checkpointing import CheckpointCoordinator, CheckpointStatistics
from penstock.engine.cuts import InstanceCut
from penstock.engine.elements import Barrier
from penstock.engine.operators.contract import Clock
from penstock.engine.restored import Restored
from penstock.engine.snapshots import Snapshots
from penstock.model.connectors import Sink
from penstock.model.errors import RetryableError
from penstock.model.failpoints import failpoint
from penstock.model.job_graph import SinkSpec
from penstock.state.checkpoint import CheckpointRepository
from penstock.state.checkpoint_manifest import Manifest
from penstock.state.checkpoint_values import Retained, Traffic


class CheckpointSession:
    """The checkpoints of one job."""

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        repository: CheckpointRepository,
        snapshots: Snapshots,
        background: Background,
        clock: Clock,
    ) -> None:
        """Begin with no attempt."""
        self.coordinator = coordinator
        self.repository = repository
        self.stopped: ev.Stop | None = None
        """Set when everything is committed and the job is over."""
        self.failure: BaseException | None = None
        """Set when the attempt must end: a sink could not commit."""
        self.traffic = Traffic()
        self.durations_ns: list[int] = []
        self._snapshots = snapshots
        self._background = background
        self._clock = clock
        self._build: Build | None = None
        self._attempt = 0
        self._sinks: dict[str, Sink] = {}
        self._receipts: dict[str, list[tuple[int, Any]]] = {}
        self._manifests: dict[int, Manifest] = {}
        self._began_ns = 0

    def started(self, build: Build, attempt: int, restored: Restored | None) -> None:
        """Instances of a new attempt are about to run; their cuts come to this session from now on."""
        self._build = build
        self._attempt = attempt
        self.failure = None
        self._manifests.clear()
        self._sinks = {
            node.name: node.spec.sink
            for node in (build.graph.node(operator) for operator in build.counters)
            if isinstance(node.spec, SinkSpec)
        }
        self._receipts = {
            name: [] if restored is None else [(restored.epoch, receipt) for receipt in restored.receipts(name)]
            for name in self._sinks
        }
        for instance in build.instances:
            instance.on_cut = self._cut
        epochs = self.repository.epochs()
        self._on(
            ev.Started(
                self._clock.monotonic_ns(),
                attempt,
                frozenset(instance.name for instance in build.instances),
                frozenset(instance.name for instance in build.instances if instance.head is not None),
                restored=None if restored is None else restored.epoch,
                last_epoch=epochs[-1] if epochs else 0,
            )
        )

    def turn(self) -> None:
        """Take in what was answered, and begin or give up a checkpoint if it is time."""
        self._background.collect()
        now_ns = self._clock.monotonic_ns()
        due_ns = self.coordinator.due_ns()
        if due_ns is not None and due_ns <= now_ns:
            self._on(ev.Tick(now_ns))

    def due_ns(self) -> int | None:
        """Return when `turn` has something to do, None: when an answer comes."""
        return self.coordinator.due_ns()

    def request(self, *, savepoint: str | None = None, then_stop: bool = False) -> None:
        """Ask for a checkpoint soon."""
        self._on(ev.Requested(savepoint, then_stop))

    def drain(self) -> None:
        """Let the inputs end."""
        self._on(ev.DrainRequested())

    def failed(self, reason: str) -> None:
        """Every instance of the attempt is gone; wait for what must not be left half done."""
        assert self._build is not None
        for instance in self._build.instances:
            instance.on_cut = None
            self._on(ev.InstanceFailed(instance.name, self._attempt, reason))

    def halted(self) -> bool:
        """Return whether no answer is awaited any more, so that another attempt may start."""
        return self.coordinator.is_halted()

    def statistics(self) -> CheckpointStatistics:
        """Return the coordinator's counts."""
        return self.coordinator.statistics()

    def _cut(self, cut: InstanceCut, *, ended: bool) -> None:
        for operator in cut.operators:
            if operator.receipt is not None:
                self._receipts[operator.operator].append((cut.epoch, operator.receipt))
        if ended:
            self._on(ev.InstanceEnded(cut.instance, self._attempt, delivered=cut.epoch - 1, what=cut))
        else:
            self._on(ev.InstanceSnapshotted(cut.instance, self._attempt, cut.epoch, cut))

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
                self._manifests.pop(command.epoch, None)
                self.repository.abandon(command.epoch)
            case ev.RetainCheckpoints():
                self._background.submit(lambda: self.repository.retain(command.count), _retained)
            case ev.EndSources():
                self._end_sources(command)
            case ev.Stop():
                self.stopped = command

    def _inject(self, command: ev.InjectBarrier) -> None:
        assert self._build is not None
        self._began_ns = self._clock.monotonic_ns()
        for instance in self._build.instances:
            if instance.name in command.sources:
                instance.inject(Barrier(command.epoch), last=command.last)

    def _end_sources(self, command: ev.EndSources) -> None:
        assert self._build is not None
        for instance in self._build.instances:
            if instance.head is not None and instance.name in command.sources:
                instance.head.stop(drain=True)

    def _upload(self, command: ev.StartUpload) -> None:
        cuts = [what for what in command.snapshots.values() if isinstance(what, InstanceCut)]
        receipts = {name: [receipt for _, receipt in known] for name, known in self._receipts.items() if known}
        epoch = command.epoch
        failpoint("checkpoint.before_upload")

        def answer(manifest: Manifest | None, error: BaseException | None) -> None:
            if manifest is None:
                self._on(ev.UploadFailed(epoch, _told(error)))
                return
            self._manifests[epoch] = manifest
            self._on(ev.UploadFinished(epoch))

        self._background.submit(lambda: self._snapshots.upload(epoch, cuts, receipts), answer)

    def _publish(self, command: ev.Publish) -> None:
        manifest = self._manifests.pop(command.epoch)

        def work() -> Traffic:
            traffic = _until_known(lambda: self.repository.publish(manifest))
            if command.savepoint is not None:
                self.repository.save(command.savepoint, manifest)
            return traffic

        def answer(traffic: Traffic | None, error: BaseException | None) -> None:
            if traffic is None:
                self._on(ev.PublishFailed(command.epoch, _told(error)))
                return
            self.traffic = traffic
            self.durations_ns.append(self._clock.monotonic_ns() - self._began_ns)
            self._on(ev.Published(command.epoch))

        self._background.submit(work, answer)

    def _commit(self, command: ev.CommitSinks) -> None:
        epoch, attempt = command.epoch, command.attempt
        due = {
            name: [receipt for prepared, receipt in known if prepared <= epoch]
            for name, known in self._receipts.items()
        }
        sinks = self._sinks

        def work() -> None:
            failpoint("checkpoint.before_commit")
            for name, receipts in due.items():
                sinks[name].commit(epoch, receipts)
            failpoint("checkpoint.after_commit")

        def answer(result: None, error: BaseException | None) -> None:
            if attempt != self._attempt:
                return
            if error is not None:
                self.failure = error
                self._on(ev.CommitFailed(epoch, attempt, _told(error)))
                return
            for name, known in self._receipts.items():
                self._receipts[name] = [item for item in known if item[0] > epoch]
            self._on(ev.Committed(epoch, attempt))

        self._background.submit(work, answer)


def _until_known(publish: Callable[[], Traffic], tries: int = 5) -> Traffic:
    """Publish again as long as it is not known whether it was done; publishing twice is as once."""
    for _ in range(tries - 1):
        try:
            return publish()
        except RetryableError:
            continue
    return publish()


def _retained(result: Retained | None, error: BaseException | None) -> None:
    """What could not be deleted goes with the next retention; nothing is lost by it."""


def _told(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"
