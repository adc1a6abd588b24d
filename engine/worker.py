"""The worker loop of a task manager: one thread that steps whichever instance can work.

The loop itself reads no clock but the one handed in, sleeps never and does no I/O: `Worker.step` either ran something
or says until when there is nothing to do, and the shell around it waits.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.engine.accounting import Activity
from penstock.engine.exchange import Output
from penstock.engine.instance import Instance
from penstock.engine.operators.contract import Clock

QUANTUM_NS = 2_000_000
"""What an instance of share 1.0 may use of the core before the next one has its turn."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The loop stepped an instance."""

    instance: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing can run before ``until_ns`` (None: before something comes from outside)."""

    until_ns: int | None


@dataclass(frozen=True, slots=True)
class Done:
    """Every instance has ended."""


Outcome = Ran | Waiting | Done


class Worker:
    """Steps instances by deficit round robin over their shares of the core.

    An instance is runnable when it has input or a due timer and every output has room. One with less than a full batch
    to do lets others go first for a moment, for they may be about to fill it. What operators keep pending runs when
    nothing else can.
    """

    def __init__(self, instances: Sequence[Instance], clock: Clock, shares: Mapping[str, float] | None = None) -> None:
        """``shares`` maps instance names to their weight in the round robin, 1.0 when absent."""
        self.instances: tuple[Instance, ...] = ()
        self.at: Instance | None = None
        """The instance that is being looked at or stepped; once that has raised, the one that did."""
        self.stepped_ns: int | None = None
        """When the last step began, by the monotonic clock; None: none has."""
        self._clock = clock
        self._shares = dict(shares or {})
        self._deficit_ns: dict[str, int] = {}
        self._ready: deque[Instance] = deque()
        self._in_ready: set[int] = set()
        self._touched: dict[int, Instance] = {}
        self._wake_ns: dict[int, int] = {}
        self._woken = False
        self._sources: list[Instance] = []
        self.add(instances)

    def add(self, instances: Sequence[Instance]) -> None:
        """Step these instances, too."""
        self.instances += tuple(instances)
        self._sources += [instance for instance in instances if instance.head is not None]
        for instance in instances:
            self._deficit_ns[instance.name] = 0
            self._wire(instance)
            self.touch(instance)

    def remove(self, instances: Collection[Instance]) -> None:
        """Step these instances never again; no channel may join one of them to one that stays."""
        now_ns = self._clock.monotonic_ns()
        gone = {id(instance) for instance in instances}
        self.instances = tuple(instance for instance in self.instances if id(instance) not in gone)
        self._sources = [instance for instance in self._sources if id(instance) not in gone]
        self._ready = deque(instance for instance in self._ready if id(instance) not in gone)
        self._in_ready -= gone
        for instance in instances:
            self._unwire(instance)
            self._touched.pop(id(instance), None)
            self._wake_ns.pop(id(instance), None)
            self._deficit_ns.pop(instance.name, None)
            instance.accounting.enter(Activity.INPUT_WAIT, now_ns)
        self.at = None

    def set_share(self, instance: str, share: float) -> None:
        """Grant an instance another share of the core, above 0."""
        self._shares[instance] = share

    def touch(self, instance: Instance) -> None:
        """Look at this instance again before the next step."""
        self._touched[id(instance)] = instance

    def wake(self) -> None:
        """Look at every instance again in the next step: something came from outside. From any thread."""
        self._woken = True

    def step(self) -> Outcome:
        """Let one instance do one piece of work."""
        self.stepped_ns = now_ns = self._clock.monotonic_ns()
        if self._woken:
            # Unset first: what comes from here on is for the step after this one.
            self._woken = False
            for candidate in self.instances:
                self.touch(candidate)
        self._wake(now_ns)
        self._classify(now_ns)
        instance = self._pick(now_ns)
        if instance is not None:
            self._run(instance, now_ns, idle=False)
            return Ran(instance.name)
        for candidate in self.instances:
            self.at = candidate
            if candidate.has_pending() and all(output.has_room() for output in candidate.outputs):
                self._run(candidate, now_ns, idle=True)
                return Ran(candidate.name)
        self.at = None
        if all(candidate.done for candidate in self.instances):
            return Done()
        return Waiting(min(self._wake_ns.values(), default=None))

    def _run(self, instance: Instance, now_ns: int, *, idle: bool) -> None:
        instance.accounting.enter(Activity.BUSY, now_ns)
        self.at = instance
        instance.step(idle=idle)
        end_ns = self._clock.monotonic_ns()
        self._deficit_ns[instance.name] -= end_ns - now_ns
        instance.accounting.enter(instance.activity(end_ns), end_ns)
        self.at = None
        self.touch(instance)
        if instance.head is not None:
            # Alignment: how far one source has read decides whether the others may read.
            for source in self._sources:
                self.touch(source)

    def _wake(self, now_ns: int) -> None:
        if self._wake_ns and min(self._wake_ns.values()) <= now_ns:
            for instance in self.instances:
                if self._wake_ns.get(id(instance), now_ns + 1) <= now_ns:
                    self.touch(instance)

    def _classify(self, now_ns: int) -> None:
        touched, self._touched = self._touched, {}
        for key, instance in touched.items():
            self.at = instance
            activity = instance.activity(now_ns)
            if activity is not instance.accounting.activity:
                instance.accounting.enter(activity, now_ns)
            if activity is Activity.CORE_WAIT and key not in self._in_ready:
                self._in_ready.add(key)
                self._ready.append(instance)
            wake_ns = instance.wake_ns(now_ns)
            if wake_ns is None:
                self._wake_ns.pop(key, None)
            else:
                self._wake_ns[key] = wake_ns
        self.at = None

    def _pick(self, now_ns: int) -> Instance | None:
        aside = self._aside(now_ns)
        while self._ready:
            instance = self._ready[0]
            if id(instance) in aside:
                self._ready.rotate(-1)
                continue
            if instance.accounting.activity is not Activity.CORE_WAIT:
                self._ready.popleft()
                self._in_ready.discard(id(instance))
                self._deficit_ns[instance.name] = 0
                continue
            if self._deficit_ns[instance.name] > 0:
                return instance
            self._deficit_ns[instance.name] += max(1, int(QUANTUM_NS * self._shares.get(instance.name, 1.0)))
            if self._deficit_ns[instance.name] > 0 and len(self._ready) == 1:
                return instance
            self._ready.rotate(-1)
        return None

    def _aside(self, now_ns: int) -> set[int]:
        """Return the runnable instances that let others go first; none if no other can run.

        Sources do while somebody has a full batch to work off: what was just read is still near the core.
        """
        runnable = [item for item in self._ready if item.accounting.activity is Activity.CORE_WAIT]
        if len(runnable) < 2:
            return set()
        aside = {id(item) for item in runnable if item.steps_aside(now_ns)}
        if any(item.gate is not None and id(item) not in aside for item in runnable):
            aside |= {id(item) for item in runnable if item.gate is None and not item.has_barrier()}
        return aside if len(aside) < len(runnable) else set()

    def _wire(self, instance: Instance) -> None:
        """Let channels tell the loop when the instances at both their ends may have become runnable."""
        if instance.gate is not None:
            for gate_input in instance.gate.inputs:
                gate_input.channel.on_put = lambda: self.touch(instance)
        for output in instance.outputs:
            self._wire_output(instance, output)

    def _unwire(self, instance: Instance) -> None:
        if instance.gate is not None:
            for gate_input in instance.gate.inputs:
                gate_input.channel.on_put = _nobody
        for output in instance.outputs:
            for channel in output.channels:
                channel.on_take = _nobody

    def _wire_output(self, instance: Instance, output: Output) -> None:
        for channel in output.channels:
            channel.on_take = lambda: self.touch(instance)


def _nobody() -> None:
    """Nobody is to be looked at again."""
