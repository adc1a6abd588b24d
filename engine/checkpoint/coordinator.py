"""The checkpoint coordinator: a state machine from events to commands (docs/design/checkpoints.md 1).

It decides when a barrier is sent, when an epoch is complete, published, committed or given up, and when the job is
over. The executors tell it what happened, by `CheckpointCoordinator.on`, and do what it says.
"""

from collections import Counter, deque
from dataclasses import dataclass

from penstock.engine.checkpoint import events as ev
from penstock.engine.checkpoint.epoch_in_flight import EpochInFlight
from penstock.engine.checkpoint.states import AFTER_ALL_STAGES, STAGES, TRANSITIONS, CheckpointState
from penstock.engine.core.event_log import EventLog
from penstock.model.config import CheckpointOptions

_S = CheckpointState

STOP_TRIES = 3
"""So often the last checkpoint of a job that is told to stop may fail; it is tried again after `LAST_RETRY_NS`."""

LAST_RETRY_NS = 1_000_000_000
"""The longest wait before a last checkpoint is tried again."""


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """Counts since the coordinator was made; ``committed_epoch`` is the last one whose output all sinks committed.

    ``dropped`` counts events that came too late, twice, or from an attempt or instance that does not run.
    ``failing``: the checkpoint that ended last was given up.
    """

    begun: int
    committed: int
    aborted: int
    dropped: int
    committed_epoch: int | None
    last_abort: str | None
    failing: bool


class CheckpointCoordinator:
    """Takes one checkpoint at a time. `on` is the only way to change it."""

    def __init__(self, options: CheckpointOptions) -> None:
        """Wait for the first `Started`. Without a directory a checkpoint is taken only on request and at the end."""
        self.state = _S.HALTED
        self._options = options
        self._log = EventLog("checkpoint coordinator")
        self._counts: Counter[str] = Counter()
        self._last_abort: str | None = None
        self._failing = False
        self._now_ns = 0
        self._attempt = 0
        self._attempts: dict[str, int] = {}
        self._sources: frozenset[str] = frozenset()
        self._ended: dict[str, ev.InstanceEnded] = {}
        self._requests: deque[str | None] = deque()
        self._stop = self._stop_at_end = False
        self._drain = self._held = False
        self._in_flight: EpochInFlight | None = None
        # Epoch in flight, or the last that was; the greatest ever begun; the last committed. 0: none.
        self._epoch = 0
        self._last_epoch = 0
        self._committed_epoch = 0
        # How far the answers asked for have come, as (epoch, stage).
        self._reached = (0, AFTER_ALL_STAGES)
        self._next_ns = 0
        self._not_before_ns = 0
        self._failed_in_row = 0

    @property
    def log(self) -> tuple[str, ...]:
        """The latest events, oldest first."""
        return self._log.entries

    def is_quiet(self) -> bool:
        """Return whether instances run and no checkpoint is in flight."""
        return self.state is _S.READY

    def is_halted(self) -> bool:
        """Return whether all instances are down and nothing is left half done."""
        return self.state is _S.HALTED

    def is_behind_all_input(self) -> bool:
        """Return whether the checkpoint in flight is complete as all instances have ended: no row comes behind it."""
        return self._in_flight is not None and self._in_flight.complete

    def statistics(self) -> CheckpointStatistics:
        """Return the counts so far."""
        return CheckpointStatistics(
            begun=self._counts["begun"],
            committed=self._counts["committed"],
            aborted=self._counts["aborted"],
            dropped=self._counts["dropped"],
            committed_epoch=self._committed_epoch or None,
            last_abort=self._last_abort,
            failing=self._failing,
        )

    @property
    def committed_epoch(self) -> int:
        """The last epoch whose output all sinks committed, 0: none."""
        return self._committed_epoch

    def due_ns(self) -> int | None:
        """Return from when on a `Tick` would do something, None if only another event can."""
        if self.state in (_S.ALIGNING, _S.UPLOADING):
            assert self._in_flight is not None
            return self._in_flight.started_ns + self._options.timeout_ms * 1_000_000
        if self.state is not _S.READY:
            return None
        if self._all_ended():
            return self._not_before_ns
        if self._held or not self._live_sources():
            # None may be sent, or would reach anybody: all instances are about to end.
            return None
        if self._requests or self._stop:
            return self._not_before_ns
        return self._next_ns if self._options.directory is not None else None

    def pressing_ns(self) -> int | None:
        """Return from when on nothing else may put off the next checkpoint, None: none is awaited.

        One that somebody wants is pressing at once, the others once they have been due for as long as an interval.
        """
        due_ns = self.due_ns() if self.state is _S.READY else None
        if due_ns is None or self._requests or self._stop or self._all_ended():
            return due_ns
        return due_ns + self._options.interval_ms * 1_000_000

    def on(self, event: ev.Event) -> list[ev.Command]:
        """Take in what happened and return what to do, in this order.

        Raises:
            BugError: the event is impossible in this state; its notes tell the events before.
        """
        if self._is_past(event):
            self._counts["dropped"] += 1
            self._log.add(f"{self.state.name}: {event}: dropped")
            return []
        before = self.state
        follows = TRANSITIONS[before].get(type(event))
        if follows is None:
            raise self._log.bug(f"{event} is impossible while {before.name} ({before.value})")
        commands = self._react(event)
        if not isinstance(event, ev.Tick) or commands:
            self._log.add(f"{before.name} -> {self.state.name}: {event}: {commands}")
        if self.state not in follows:
            raise self._log.bug(f"{event} led from {before.name} to {self.state.name}, against the table")
        self._reached = max(self._reached, self._position())
        return commands

    def _is_past(self, event: ev.Event) -> bool:
        """Return whether nothing follows from the event: it is a repetition, or of an epoch given up.

        So is what comes from another attempt, or an instance, than those that run: messages may be older than a
        restart, and whoever was told of one first may be ahead of it.
        """
        if isinstance(event, ev.InstanceSnapshotted | ev.AlignmentFailed | ev.InstanceEnded | ev.InstanceFailed):
            if event.attempt != self._attempts.get(event.instance):
                return True
        elif isinstance(event, ev.Committed | ev.CommitFailed) and event.attempt != self._attempt:
            return True
        match event:
            case ev.AlignmentFailed():
                return self._is_answered(event, event.epoch, 0)
            case ev.InstanceSnapshotted():
                return self._is_answered(event, event.epoch, 0) or event.instance in self._snapshots()
            case ev.InstanceEnded():
                return event.instance in self._ended
            case ev.UploadFinished() | ev.UploadFailed():
                return self._is_answered(event, event.epoch, 1)
            case ev.Published() | ev.PublishFailed():
                return self._is_answered(event, event.epoch, 2)
            case ev.Committed() | ev.CommitFailed():
                return self._is_answered(event, event.epoch, 3)
        return False

    def _is_answered(self, event: ev.Event, epoch: int, stage: int) -> bool:
        if (epoch, stage) > self._reached:
            raise self._log.bug(f"{event} answers what was never asked")
        return (epoch, stage) != self._position()

    def _position(self) -> tuple[int, int]:
        """Return the answer that is awaited."""
        return self._epoch, STAGES.get(self.state, AFTER_ALL_STAGES)

    def _snapshots(self) -> dict[str, object]:
        return self._in_flight.snapshots if self._in_flight is not None else {}

    def _live_sources(self) -> frozenset[str]:
        return self._sources - self._ended.keys()

    def _all_ended(self) -> bool:
        return self._ended.keys() == self._attempts.keys()

    def _react(self, event: ev.Event) -> list[ev.Command]:
        match event:
            case ev.Started():
                return self._start(event)
            case ev.Joined():
                self._attempts.update(dict.fromkeys(event.instances, event.attempt))
                self._sources |= event.sources
            case ev.Tick():
                return self._tick(event.now_ns)
            case ev.Requested():
                self._request(event)
            case ev.BarriersHeld():
                self._held = event.held
            case ev.DrainRequested():
                return self._drain_sources()
            case ev.InstanceSnapshotted():
                self._snapshots()[event.instance] = event.what
                return self._upload_if_aligned()
            case ev.AlignmentFailed():
                reason = (
                    f"instance {event.instance} got something else from one of its channels in place of the barrier"
                )
                return self._abort(reason, _S.READY)
            case ev.InstanceEnded():
                self._ended[event.instance] = event
                return self._upload_if_aligned()
            case ev.InstanceFailed():
                return self._halt(f"instance {event.instance} failed: {event.reason}")
            case ev.UploadFinished():
                self.state = _S.PUBLISHING
                return [ev.Publish(event.epoch, self._flight().savepoint)]
            case ev.UploadFailed() | ev.PublishFailed():
                if self.state is _S.HALTING_AT_PUBLISH:
                    return self._abort(event.reason, _S.HALTED)
                return self._fail(event.reason)
            case ev.Published():
                return self._commit(event.epoch)
            case ev.Committed():
                return self._finish(event.epoch)
            case ev.CommitFailed():
                self._in_flight = None
                self.state = _S.HALTED
        return []

    def _start(self, event: ev.Started) -> list[ev.Command]:
        if event.attempt <= self._attempt or not event.sources <= event.instances:
            raise self._log.bug(f"{event} must be a later attempt, and its sources among its instances")
        self._now_ns = event.now_ns
        self._attempt = event.attempt
        if event.alone:
            self._attempts.clear()
            self._ended.clear()
            self._sources = frozenset()
        for instance in event.gone:
            self._attempts.pop(instance, None)
        self._attempts.update(dict.fromkeys(event.instances, event.attempt))
        self._sources = (self._sources - event.instances - event.gone) | event.sources
        for instance in event.instances | event.gone:
            self._ended.pop(instance, None)
        restored = event.restored or 0
        self._last_epoch = max(self._last_epoch, event.last_epoch, restored)
        self._reached = max(self._reached, (self._last_epoch, AFTER_ALL_STAGES))
        self._next_ns = event.now_ns + self._options.interval_ms * 1_000_000
        self._not_before_ns = event.now_ns
        self._stop &= not self._stop_at_end
        self.state = _S.READY
        commands: list[ev.Command] = []
        if restored > self._committed_epoch:
            # Whether the attempt that published it came to commit all sinks is not known.
            self._epoch = restored
            self.state = _S.COMMITTING
            commands.append(ev.CommitSinks(restored, self._attempt))
        if self._drain:
            commands.append(ev.EndSources(self._live_sources()))
        return commands

    def _tick(self, now_ns: int) -> list[ev.Command]:
        self._now_ns = max(self._now_ns, now_ns)
        commands: list[ev.Command] = []
        due_ns = self.due_ns()
        if self.state in (_S.ALIGNING, _S.UPLOADING) and due_ns is not None and due_ns <= self._now_ns:
            commands += self._fail(f"it took longer than {self._options.timeout_ms} ms")
            due_ns = self.due_ns()
        if self.state is _S.READY and due_ns is not None and due_ns <= self._now_ns:
            commands += self._begin()
        return commands

    def _request(self, event: ev.Requested) -> None:
        if event.then_stop:
            self._stop_at_end, self._stop = event.at_end and (self._stop_at_end or not self._stop), True
        named = event.savepoint is not None or not event.then_stop
        if named and event.savepoint not in self._requests:
            self._requests.append(event.savepoint)

    def _drain_sources(self) -> list[ev.Command]:
        if self._drain:
            return []
        self._drain = True
        down = self.state in (_S.HALTED, _S.HALTING_AT_PUBLISH, _S.HALTING_AT_COMMIT, _S.OVER)
        return [] if down else [ev.EndSources(self._live_sources())]

    def _begin(self) -> list[ev.Command]:
        self._counts["begun"] += 1
        self._last_epoch += 1
        self._epoch = self._last_epoch
        requested = bool(self._requests)
        savepoint = self._requests.popleft() if requested else None
        stops = self._stop and not self._requests
        self._in_flight = EpochInFlight(self._epoch, self._now_ns, requested, savepoint, stops)
        self._next_ns = self._now_ns + self._options.interval_ms * 1_000_000
        self.state = _S.ALIGNING
        if self._all_ended():
            return self._upload_if_aligned()
        return [ev.InjectBarrier(self._epoch, self._live_sources(), last=stops)]

    def _upload_if_aligned(self) -> list[ev.Command]:
        if self.state is not _S.ALIGNING:
            return []
        flight = self._flight()
        parts = flight.parts(len(self._attempts), self._ended)
        if parts is None:
            return []
        flight.complete = not flight.snapshots
        self.state = _S.UPLOADING
        return [ev.StartUpload(flight.epoch, flight.savepoint, parts)]

    def _commit(self, epoch: int) -> list[ev.Command]:
        if self.state is _S.HALTING_AT_PUBLISH:
            self._in_flight = None
            self.state = _S.HALTED
            return []
        self.state = _S.COMMITTING
        return [ev.CommitSinks(epoch, self._attempt)]

    def _finish(self, epoch: int) -> list[ev.Command]:
        flight, self._in_flight = self._in_flight, None
        self._counts["committed"] += 1
        self._failing = False
        self._committed_epoch = max(self._committed_epoch, epoch)
        self._failed_in_row = 0
        commands: list[ev.Command] = [ev.RetainCheckpoints(epoch, self._options.retain)]
        if self.state is _S.HALTING_AT_COMMIT:
            self.state = _S.HALTED
        elif flight is not None and (flight.stops or flight.complete) and not self._requests:
            self.state = _S.OVER
            commands.append(ev.Stop(epoch, ended=flight.complete))
        else:
            self.state = _S.READY
        return commands

    def _halt(self, reason: str) -> list[ev.Command]:
        match self.state:
            case _S.READY:
                self.state = _S.HALTED
            case _S.ALIGNING | _S.UPLOADING:
                return self._abort(reason, _S.HALTED)
            case _S.PUBLISHING:
                self.state = _S.HALTING_AT_PUBLISH
            case _S.COMMITTING:
                self.state = _S.HALTING_AT_COMMIT
        return []

    def _fail(self, reason: str) -> list[ev.Command]:
        """Give the epoch in flight up, which failed while all instances run; too many in a row end the job."""
        self._failed_in_row += 1
        commands = self._abort(reason, _S.READY, self._failed_in_row)
        most = min(STOP_TRIES, self._options.max_failed) if self._stop else self._options.max_failed
        if self._failed_in_row >= most:
            commands.append(ev.FailJob(reason, self._failed_in_row))
        return commands

    def _abort(self, reason: str, then: CheckpointState, in_row: int = 0) -> list[ev.Command]:
        flight, self._in_flight = self._flight(), None
        self._counts["aborted"] += 1
        self._failing = True
        self._last_abort = f"epoch {flight.epoch}: {reason}"
        if flight.requested:
            self._requests.appendleft(flight.savepoint)
        wait_ns = self._options.interval_ms * 1_000_000
        if self._stop or self._all_ended():
            wait_ns = min(wait_ns, LAST_RETRY_NS)
        self._not_before_ns = flight.started_ns + wait_ns
        self.state = then
        return [ev.AbortEpoch(flight.epoch, reason, in_row)]

    def _flight(self) -> EpochInFlight:
        if self._in_flight is None:
            raise self._log.bug(f"no epoch is in flight while {self.state.name}")
        return self._in_flight
