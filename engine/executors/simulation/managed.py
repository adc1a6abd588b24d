"""The executor of a head and several task managers, simulated: the real attempt over the real head of a `Cluster`."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.worker import Outcome
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.head import Head, HeadParts
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt, ManagedOptions
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.setup import ManagerSetup, Storage
from penstock.engine.executors.simulation.background import NotThereYetError
from penstock.engine.executors.simulation.calls import CallsAtOnce
from penstock.engine.executors.simulation.cluster import Cluster, Job
from penstock.engine.executors.simulation.control_network import Side
from penstock.engine.executors.simulation.world import World
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.bad_records import BadRecords

MOST_MANAGERS = 3
_LONGEST_WAIT_NS = 500_000_000

Value = TypeVar("Value")


class _ClusterWaiter:
    """The wait of a head: meanwhile the cluster goes on."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world, self._cluster = world, cluster

    def add(self, descriptor: int) -> None:
        """Do nothing: the cluster wakes the head when a link brings something."""

    def wait(self, timeout_s: float | None) -> None:
        """Let the cluster go on until the head is woken, or so many seconds have passed."""
        self._world.fate.check_alive()
        clock, cluster = self._world.clock, self._cluster
        wait_ns = _LONGEST_WAIT_NS if timeout_s is None else int(timeout_s * 1e9)
        until_ns = clock.monotonic_ns() + wait_ns
        while True:
            cluster.turn(until_ns)
            if not cluster.is_head_awake():
                continue
            # It may be slow to look.
            if clock.monotonic_ns() >= until_ns or (cluster.woken and self._world.dice.chance(0.5)):
                break
        cluster.woken = False

    def wake(self) -> None:
        """End the wait."""
        self._cluster.wake()

    def close(self) -> None:
        """Do nothing."""


class SimulatedHead(Head):
    """A head whose process may be gone: nothing is done in order any more then."""

    def __init__(self, parts: HeadParts, world: World, cluster: Cluster) -> None:
        """Start task managers."""
        self._world, self._cluster = world, cluster
        super().__init__(parts)

    def send(self, name: str, message: ms.ToManager) -> None:
        """Say something, if this process lives."""
        self._world.fate.check_alive()
        super().send(name, message)

    def turn(self) -> Outcome:
        """Let others go on a little before an instance here does one piece of work."""
        now_ns = self._world.clock.monotonic_ns()
        for _ in range(self._world.dice.below(3)):
            self._cluster.turn(now_ns)
        return super().turn()

    def result_of(self, future: Future[Value]) -> Value:
        """Return what is there; the background asks again if nothing is.

        Raises:
            NotThereYetError: it is not.
        """
        if not future.done():
            raise NotThereYetError
        return future.result()

    def close(self) -> None:
        """End all task managers, by whatever way this process ends."""
        try:
            if self._world.fate.is_over:
                self._links.close()
            else:
                super().close()
        finally:
            self._cluster.let_go()


class ManagedProcess:
    """One process of a job: what makes its attempts, and lets time pass between them."""

    def __init__(self, world: World, run: int) -> None:
        """Begin without a head; the first attempt opens it."""
        self._world, self._run = world, run
        self._head: SimulatedHead | None = None
        self._waiter: _ClusterWaiter | None = None
        self.last: ManagedAttempt | None = None

    def make(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> ManagedAttempt:
        """Make an attempt."""
        options = ManagedOptions(HostOptions(routed=False, async_calls=CallsAtOnce), BadRecords())
        if self._head is None:
            self._head = self._open(plan, context, options)
            context.resources.enter_context(self._head)
        restored = start.restored
        where = "nothing" if restored is None else f"epoch {restored.epoch}"
        self._world.history.event(f"attempt {start.attempt} begins from {where}")
        self.last = ManagedAttempt(plan, self._head, context, options, start)
        return self.last

    def pause(self, seconds: float) -> None:
        """Let time pass between two attempts."""
        if self._waiter is None:
            self._world.pause(seconds)
        else:
            self._waiter.wait(seconds)

    def _open(self, plan: JobPlan, context: AttemptContext, options: ManagedOptions) -> SimulatedHead:
        assert context.checkpoints is not None
        repository = context.checkpoints.repository
        setup = ManagerSetup(b"", b"", options.host, Storage(repository.files, repository.run, context.allowed))
        world = self._world
        cluster = Cluster(world, Job(plan, setup, self._run))
        self._waiter = _ClusterWaiter(world, cluster)
        count = world.dice.between(1, MOST_MANAGERS)

        def make_pool(wake: Callable[[], None]) -> ManagerPool[Side]:
            return cluster.make_pool(count, world.history.event, wake)

        world.history.event(f"run {self._run} begins with {count} task managers")
        parts = HeadParts(plan, setup, context.clock, make_pool, self._waiter, cluster.make_parts, lambda setup: b"")
        return SimulatedHead(parts, world, cluster)
