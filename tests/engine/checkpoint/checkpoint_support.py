"""A world around the checkpoint coordinator: instances in layers, answers in any order, and the truth beside it."""

from dataclasses import dataclass, field

from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.events import (
    AbortEpoch,
    Command,
    CommitFailed,
    CommitSinks,
    Committed,
    DrainRequested,
    EndSources,
    Event,
    FailJob,
    InjectBarrier,
    InstanceEnded,
    InstanceFailed,
    InstanceSnapshotted,
    Publish,
    Published,
    PublishFailed,
    Requested,
    RetainCheckpoints,
    Started,
    StartUpload,
    Stop,
    Tick,
    UploadFailed,
    UploadFinished,
)
from penstock.engine.checkpoint.states import CheckpointState
from penstock.model.config import CheckpointOptions

MS = 1_000_000
OPTIONS = CheckpointOptions(interval_ms=10, timeout_ms=100, retain=2, directory="somewhere")


@dataclass
class Member:
    """One instance: the last barrier it passed, all it passed in this attempt, those a source has still to send."""

    name: str
    pipeline: int
    inputs: list["Member"]
    attempt: int = 1
    passed: int = 0
    ended: bool = False
    paused: bool = False
    ending: bool = False
    barriers: list[int] = field(default_factory=list)
    history: list[int] = field(default_factory=list)

    def next_barrier(self) -> int | None:
        """The barrier it can pass now: all inputs have delivered it."""
        if not self.inputs:
            return self.barriers[0] if self.barriers else None
        ahead = [epoch for item in self.inputs for epoch in item.history if epoch > self.passed]
        epoch = min(ahead, default=None)
        if epoch is None or not all(epoch in item.history or item.ended for item in self.inputs):
            return None
        return epoch


class World:
    """Two pipelines that share no channel; checks every command against what really happened."""

    def __init__(self, options: CheckpointOptions = OPTIONS) -> None:
        self.options = options
        self.members: list[Member] = []
        for pipeline, layers in enumerate(([2, 2, 1], [1, 1])):
            before: list[Member] = []
            for layer, width in enumerate(layers):
                made = [Member(f"{pipeline}.{layer}[{index}]", pipeline, before) for index in range(width)]
                self.members += made
                before = made
        self.coordinator = CheckpointCoordinator(options)
        self.now_ns = 0
        self.attempt = 0
        self.pool: list[Event] = []
        self.said: list[Event] = []
        self.failed: set[int] = set()
        self.begun = 0
        self.in_flight: int | None = None
        self.asked: dict[str, int | None] = dict.fromkeys(("upload", "publish", "commit"))
        self.uploaded: set[int] = set()
        self.published: list[int] = []
        self.committed: list[tuple[int, int]] = []
        self.complete = False
        self.stop_requested = False
        self.stop: Stop | None = None
        self.start({0, 1})

    def tell(self, event: Event) -> None:
        for command in self.coordinator.on(event):
            self.do(command)

    def start(self, pipelines: set[int]) -> None:
        self.attempt += 1
        started = [item for item in self.members if item.pipeline in pipelines]
        for item in started:
            item.attempt = self.attempt
            item.passed, item.ended, item.paused, item.ending = 0, False, False, False
            item.barriers, item.history = [], []
        self.failed = set()
        restored = self.published[-1] if self.published else None
        names = frozenset(item.name for item in started)
        sources = frozenset(item.name for item in started if not item.inputs)
        self.tell(Started(self.now_ns, self.attempt, names, sources, restored, self.begun))

    def crash(self, manifest_got_there: bool) -> None:
        """The whole process is gone, with every message; another one starts."""
        publishing = self.asked["publish"]
        if publishing is not None and manifest_got_there:
            self.published.append(publishing)
        self.asked = dict.fromkeys(self.asked)
        self.pool, self.said, self.in_flight = [], [], None
        self.coordinator = CheckpointCoordinator(self.options)
        self.start({0, 1})

    def say(self, event: Event) -> None:
        self.pool.append(event)

    def do(self, command: Command) -> None:
        match command:
            case InjectBarrier():
                self._begin(command.epoch)
                live = {item.name: item for item in self.members if not item.inputs and not self._is_known_ended(item)}
                assert command.sources == live.keys()
                for item in live.values():
                    if not item.ended:
                        item.barriers.append(command.epoch)
                        item.paused |= command.last
            case StartUpload():
                if command.epoch > self.begun:
                    self._begin(command.epoch)
                assert self.in_flight == command.epoch
                assert self.asked["upload"] is None or self.asked["upload"] < command.epoch
                assert dict(command.snapshots) == {item.name: self._truth(item, command.epoch) for item in self.members}
                self.asked["upload"] = command.epoch
                self.complete = all(item.ended and command.epoch not in item.history for item in self.members)
            case Publish():
                assert command.epoch in self.uploaded
                self.asked["publish"] = command.epoch
            case CommitSinks():
                assert self.published[-1] == command.epoch
                assert command.attempt == self.attempt
                assert (self.attempt, command.epoch) not in self.committed
                assert all(epoch <= command.epoch for _, epoch in self.committed)
                self.committed.append((self.attempt, command.epoch))
                self.asked["commit"] = command.epoch
            case AbortEpoch():
                assert command.epoch == self.in_flight
                assert command.epoch not in self.published
                self.in_flight = None
            case RetainCheckpoints():
                assert command.newest == self.published[-1]
                self.in_flight = None
            case FailJob():
                assert command.in_row >= self.options.max_failed or self.stop_requested
            case EndSources():
                for item in self.members:
                    item.ending |= item.name in command.sources
            case Stop():
                assert self.published[-1] == command.epoch
                assert self.in_flight is None
                assert command.ended == self.complete
                assert command.ended or self.stop_requested
                self.stop = command

    def _begin(self, epoch: int) -> None:
        assert self.in_flight is None
        assert epoch > self.begun
        self.begun = self.in_flight = epoch

    def _is_known_ended(self, item: Member) -> bool:
        return any(
            isinstance(event, InstanceEnded) and (event.instance, event.attempt) == (item.name, item.attempt)
            for event in self.said
        )

    def _truth(self, item: Member, epoch: int) -> object:
        if epoch in item.history:
            return "at", item.name, item.attempt, epoch
        assert item.ended
        return "end", item.name, item.attempt

    # What may happen.

    def tick(self, step_ms: int) -> None:
        self.now_ns += step_ms * MS
        self.tell(Tick(self.now_ns))

    def step(self, item: Member) -> None:
        """Let an instance pass a barrier, or end if nothing more can come."""
        if item.ended or item.pipeline in self.failed:
            return
        epoch = item.next_barrier()
        if epoch is not None:
            if not item.inputs:
                item.barriers.pop(0)
            item.passed = epoch
            item.history.append(epoch)
            self.say(InstanceSnapshotted(item.name, item.attempt, epoch, ("at", item.name, item.attempt, epoch)))
        elif item.ending if not item.inputs else self._inputs_are_over(item):
            item.ended = True
            self.say(InstanceEnded(item.name, item.attempt, item.passed, ("end", item.name, item.attempt)))

    def end(self, item: Member) -> None:
        """The input of a source ends, with barriers it has not sent."""
        if not item.inputs and not item.paused:
            item.ending = True
            item.barriers.clear()
            self.step(item)

    def fail(self, item: Member) -> None:
        self.failed.add(item.pipeline)
        self.say(InstanceFailed(item.name, item.attempt, "it broke"))

    def deliver(self, index: int) -> None:
        """Deliver one message that is under way, in any order."""
        if self.pool:
            event = self.pool.pop(index % len(self.pool))
            self.said.append(event)
            self.tell(event)

    def repeat(self, index: int) -> None:
        """Deliver a message again, however old."""
        if self.said:
            self.tell(self.said[-1 - index % len(self.said)])

    def answer(self, ok: bool) -> None:
        """Answer one of the outstanding orders."""
        what = next((what for what, epoch in self.asked.items() if epoch is not None), None)
        if what is None:
            return
        epoch, self.asked[what] = self.asked[what], None
        assert epoch is not None
        match what, ok:
            case "upload", True:
                self.uploaded.add(epoch)
                self.say(UploadFinished(epoch))
            case "upload", False:
                self.say(UploadFailed(epoch, "no luck"))
            case "publish", True:
                self.published.append(epoch)
                self.say(Published(epoch))
            case "publish", False:
                self.say(PublishFailed(epoch, "no luck"))
            case "commit", True:
                self.say(Committed(epoch, self.attempt))
            case "commit", False:
                self.failed |= {0, 1}
                self.say(CommitFailed(epoch, self.attempt, "no luck"))

    def restart(self) -> None:
        """Start what failed again as soon as the coordinator is halted."""
        if self.coordinator.state is CheckpointState.HALTED and self.failed:
            self.start(self.failed)

    def request(self, event: Requested | DrainRequested) -> None:
        self.stop_requested |= isinstance(event, Requested) and event.then_stop
        self.tell(event)

    def go_on(self) -> None:
        """Let everything happen that is due, in order and without a failure."""
        for item in self.members:
            self.step(item)
        self.answer(True)
        for _ in range(len(self.pool)):
            self.deliver(0)
        self.restart()
        self.tick(5)

    def finish_fairly(self, rounds: int = 60) -> None:
        """All inputs end, nothing fails any more and every message arrives."""
        for _ in range(rounds):
            if self.coordinator.state is CheckpointState.OVER:
                return
            for item in self.members:
                self.end(item)
            self.go_on()
        raise AssertionError(f"not over after {rounds} rounds: {self.coordinator.state}, {self.coordinator.log}")

    @staticmethod
    def _inputs_are_over(item: Member) -> bool:
        return all(other.ended and all(epoch <= item.passed for epoch in other.history) for other in item.inputs)
