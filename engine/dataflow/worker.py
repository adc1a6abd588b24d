"""The worker loop: one thread that steps whichever instance can work.

The loop itself reads no clock but the one handed in, sleeps never and does no I/O: `Worker.step` either ran something
or says until when there is nothing to do, and the shell around it waits.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.engine.core.contract import Clock, asleep
from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.round_robin import Turns, TurnStanding
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.wake_times import WakeTimes


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
    """Steps instances by their turns, over their shares of the core (`round_robin`).

    An instance is runnable when it has input or a due timer and every output has room. One with less than a full batch
    to do lets others go first for a moment, for they may be about to fill it. What operators keep pending runs when
    nothing else can.

    Only instances to which something happened are looked at: those that were stepped, whose channels were put into or
    taken from, whose time has come, or for whom `wake` was called.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        clock: Clock,
        shares: Mapping[str, float] | None = None,
        quiet_ns: int = 0,
        thread_cpu_ns: Callable[[], int] | None = None,
    ) -> None:
        """``shares`` maps instance names to their weight in the round robin, 1.0 when absent.

        What an instance keeps for a quiet moment leaves once in ``quiet_ns`` at most: rows that trickle in would
        otherwise each be followed by their results. ``thread_cpu_ns`` returns the time that the loop's thread has used
        on a core; None: the CPU of instances is not measured.
        """
        self.instances: tuple[Instance, ...] = ()
        self.at: Instance | None = None
        """The instance that is being looked at or stepped; once that has raised, the one that did."""
        self.stepped_ns: int | None = None
        """When the last step began, by the monotonic clock; None: none has."""
        self._clock, self._thread_cpu_ns = clock, thread_cpu_ns
        self._turns = Turns(shares)
        self._touched: dict[int, Instance] = {}
        self._wake_times = WakeTimes()
        # Those that may have something pending: a quiet moment comes for them when nothing else can run.
        self._keeping: dict[int, Instance] = {}
        self._quiet_ns = quiet_ns
        self._not_before_ns: dict[int, int] = {}
        self._running: dict[int, Instance] = {}
        self._by_name: dict[str, Instance] = {}
        self._by_head: dict[int, Instance] = {}
        # Appended to by other threads: names of instances to look at, None for all.
        self._woken: deque[str | None] = deque()
        self.add(instances)

    def add(self, instances: Sequence[Instance]) -> None:
        """Step these instances, too."""
        self.instances += tuple(instances)
        for instance in instances:
            self._by_name[instance.name] = instance
            self._running[id(instance)] = instance
            if instance.head is not None:
                self._by_head[id(instance.head)] = instance
        self.rewire(instances)

    def remove(self, instances: Collection[Instance]) -> None:
        """Step these instances never again; no channel may join one of them to one that stays."""
        now_ns = self._clock.monotonic_ns()
        removed = {id(instance) for instance in instances}
        self.instances = tuple(instance for instance in self.instances if id(instance) not in removed)
        for instance in instances:
            self._notify(instance, asleep)
            self._turns.forget(instance)
            for collection in (self._touched, self._keeping, self._running, self._not_before_ns):
                collection.pop(id(instance), None)
            self._wake_times.set(id(instance), None)
            if self._by_name.get(instance.name) is instance:
                del self._by_name[instance.name]
            if instance.head is not None:
                self._by_head.pop(id(instance.head), None)
            instance.accounting.enter(Activity.INPUT_WAIT, now_ns)
        self.at = None

    def rewire(self, instances: Collection[Instance]) -> None:
        """Look at instances, too, when something happens to channels that have joined them."""
        for instance in instances:
            self._notify(instance, partial(self.touch, instance))
            self.touch(instance)

    def set_share(self, instance: str, share: float) -> None:
        """Grant an instance another share of the core, above 0."""
        self._turns.set_share(instance, share)

    def touch(self, instance: Instance) -> None:
        """Look at this instance again before the next step."""
        self._touched[id(instance)] = instance

    def touch_sources(self, heads: Sequence[SourceHead]) -> None:
        """Look at the instances of these sources again before the next step, those of them that are stepped here."""
        for head in heads:
            if id(head) in self._by_head:
                self.touch(self._by_head[id(head)])

    def wake(self, instance: str | None = None) -> None:
        """Look at an instance, or every one, again in the next step: something came from outside. From any thread."""
        self._woken.append(instance)

    def is_touched(self) -> bool:
        """Return whether something happened to an instance since the last step began, so that another may run."""
        return bool(self._touched or self._woken)

    def step(self) -> Outcome:
        """Let one instance do one piece of work."""
        self.stepped_ns = now_ns = self._clock.monotonic_ns()
        while self._woken:
            self._touch_woken(self._woken.popleft())
        for key in self._wake_times.take(now_ns):
            if key in self._running:
                self.touch(self._running[key])
        self._classify(now_ns)
        instance = self._turns.next()
        idle = instance is None
        if instance is None:
            instance = self._pick_keeping(now_ns)
        if instance is None:
            return Waiting(self._until_ns()) if self._running else Done()
        self._run(instance, now_ns, idle=idle)
        return Ran(instance.name)

    def _touch_woken(self, name: str | None) -> None:
        if name is None:
            for instance in self.instances:
                self.touch(instance)
        elif name in self._by_name:
            self.touch(self._by_name[name])

    def _run(self, instance: Instance, now_ns: int, *, idle: bool) -> None:
        instance.accounting.enter(Activity.BUSY, now_ns)
        # What goes on after a pause is paid for by its rows, and is no step that fewer rows would save.
        instance.accounting.steps += not instance.goes_on
        self.at, has_little = instance, instance.has_little()
        if self._thread_cpu_ns is None:
            instance.step(idle=idle)
        else:
            began_ns = self._thread_cpu_ns()
            instance.step(idle=idle)
            instance.accounting.add_cpu(self._thread_cpu_ns() - began_ns)
        # Alignment: how far one source has read decides whether others may read.
        self.touch_sources(instance.settle())
        end_ns = self._clock.monotonic_ns()
        self._turns.spend(instance, end_ns - now_ns, has_little=has_little)
        instance.accounting.enter(instance.activity(end_ns), end_ns)
        instance.stepped(now_ns, end_ns)
        self.at = None
        self.touch(instance)

    def _classify(self, now_ns: int) -> None:
        touched, self._touched = self._touched, {}
        for key, instance in touched.items():
            self.at = instance
            activity = instance.activity(now_ns)
            if activity is not instance.accounting.activity:
                instance.accounting.enter(activity, now_ns)
            # What came since was put by a step that has just ended.
            instance.hold_rows(now_ns)
            wake_ns, patient_ns = instance.wake_ns(now_ns), None
            if activity is Activity.CORE_WAIT:
                patient_ns = instance.patient_until_ns(now_ns)
            self._turns.place(instance, _standing(instance, activity, patient_ns))
            if patient_ns is not None:
                wake_ns = patient_ns if wake_ns is None else min(wake_ns, patient_ns)
            self._wake_times.set(key, wake_ns)
            self._keeping[key] = instance
            if instance.done:
                self._running.pop(key, None)
        self.at = None

    def _pick_keeping(self, now_ns: int) -> Instance | None:
        """Return an instance that keeps something for a quiet moment and has room for it."""
        for key, instance in list(self._keeping.items()):
            self.at = instance
            if not instance.has_pending():
                # Only what makes the loop look at it again can change that.
                del self._keeping[key]
            elif self._not_before_ns.get(key, now_ns) <= now_ns and all(item.has_room() for item in instance.outputs):
                self._not_before_ns[key] = now_ns + self._quiet_ns
                return instance
        self.at = None
        return None

    def _until_ns(self) -> int | None:
        """Return until when nothing can run; who has no room for what it keeps waits for that and not for a time."""
        times = [
            not_before_ns
            for key, not_before_ns in self._not_before_ns.items()
            if key in self._keeping and all(output.has_room() for output in self._keeping[key].outputs)
        ]
        wake_ns = self._wake_times.next_ns()
        return min(times if wake_ns is None else [*times, wake_ns], default=None)

    def _notify(self, instance: Instance, notice: Callable[[], None]) -> None:
        """Have it called when the instance may have something new to do."""
        instance.on_change = notice
        if instance.gate is not None:
            instance.gate.on_input = notice
        for output in instance.outputs:
            for sender in output.senders:
                sender.on_credit = notice


def _standing(instance: Instance, activity: Activity, patient_ns: int | None) -> TurnStanding | None:
    """Return the standing of an instance that would do this now, and lets others go first until ``patient_ns``."""
    if activity is not Activity.CORE_WAIT:
        return None
    if instance.gate is None and not instance.has_barrier():
        return TurnStanding.READING
    return TurnStanding.EAGER if patient_ns is None else TurnStanding.PATIENT
