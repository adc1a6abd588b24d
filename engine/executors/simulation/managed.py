"""The executor of a head and several task managers, simulated: the real attempt over the real head of a `Cluster`."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.worker import Outcome
from penstock.engine.executors.hosted_instances import HostOptions
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.attempts import ManagedAttempts
from penstock.engine.executors.managers.head import Head, HeadParts
from penstock.engine.executors.managers.managed_attempt import ManagedAttempt
from penstock.engine.executors.managers.managed_options import ManagedOptions
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.setup import ManagerSetup, Storage
from penstock.engine.executors.simulation.background import NotThereYetError
from penstock.engine.executors.simulation.calls import CallsAtOnce
from penstock.engine.executors.simulation.cluster import Cluster, Job
from penstock.engine.executors.simulation.control_network import Side
from penstock.engine.executors.simulation.moving import AskedMoves
from penstock.engine.executors.simulation.world import World
from penstock.engine.jobs.adoption import Adopt, RestoreAnew
from penstock.engine.jobs.attempt import AttemptContext, JobPlan
from penstock.engine.jobs.bad_records import BadRecords
from penstock.state.checkpoints.results import PublishedCheckpoint

MOST_MANAGERS = 3
_LONGEST_WAIT_NS = 500_000_000

Value = TypeVar("Value")

LookAtMoves = Callable[[], None]
"""Asks for a move, if it is time for one."""


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

    def __init__(self, parts: HeadParts, world: World, cluster: Cluster, moves: LookAtMoves) -> None:
        """Start task managers."""
        self._world, self._cluster = world, cluster
        self._look_at_moves = moves
        super().__init__(parts)

    def send(self, name: str, message: ms.ToManager) -> None:
        """Say something, if this process lives."""
        self._world.fate.check_alive()
        super().send(name, message)

    def turn(self) -> Outcome:
        """Let others go on a little before an instance here does one piece of work."""
        now_ns, rates = self._world.clock.monotonic_ns(), self._world.rates
        if rates is not None and not self._world.fate.is_over:
            rates.look(rates.attempt)
        if not self._world.fate.is_over:
            self._look_at_moves()
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
            if self._world.fate.is_over and self._world.fate.has_power:
                self._cluster.lose_head()
            else:
                self._cluster.let_go()


class ManagedProcess:
    """One process of a job: what makes its attempts, and lets time pass between them."""

    def __init__(self, world: World, run: int, cluster: Cluster | None = None) -> None:
        """Begin without a head; the first attempt opens it. ``cluster`` has task managers that outlived another."""
        self._world, self._run = world, run
        self.cluster = cluster
        """The task managers; None: there were none yet."""
        self._waiter: _ClusterWaiter | None = None
        options = ManagedOptions(HostOptions(routed=False, async_calls=CallsAtOnce), BadRecords())
        self._attempts = ManagedAttempts(options, partial(self._open, options), adopts=cluster is not None)
        self.last: ManagedAttempt | None = None

    def __call__(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, /) -> ManagedAttempt:
        """Make an attempt."""
        restored = start.restored
        where = "nothing" if restored is None else f"epoch {restored.epoch}"
        self._world.history.event(f"attempt {start.attempt} begins from {where}")
        return self._made(self._attempts(plan, context, start))

    def survivors(
        self, plan: JobPlan, context: AttemptContext, last: PublishedCheckpoint
    ) -> Adopt | RestoreAnew | None:
        """Return what becomes of task managers that outlived the head before."""
        return self._attempts.survivors(plan, context, last)

    def adopt(self, plan: JobPlan, context: AttemptContext, start: AttemptStart, found: Adopt) -> ManagedAttempt:
        """Return the attempt that goes on."""
        return self._made(self._attempts.adopt(plan, context, start, found))

    def _made(self, attempt: ManagedAttempt) -> ManagedAttempt:
        self.last = attempt
        if self._world.rates is not None:
            self._world.rates.attempt = attempt
        return attempt

    def pause(self, seconds: float) -> None:
        """Let time pass between two attempts."""
        if self._waiter is None:
            self._world.pause(seconds)
        else:
            self._waiter.wait(seconds)

    def _open(self, options: ManagedOptions, plan: JobPlan, context: AttemptContext) -> Head:
        assert context.checkpoints is not None
        files = context.checkpoints.repository.files
        setup = ManagerSetup(b"", b"", options.host, Storage(files, self._run, context.allowed))
        world, job = self._world, Job(plan, setup, self._run)
        if self.cluster is None:
            self.cluster = Cluster(world, job)
        else:
            self.cluster.go_on(job)
        cluster = self.cluster
        self._waiter = _ClusterWaiter(world, cluster)
        count = world.dice.between(1, MOST_MANAGERS)

        def make_pool(wake: Callable[[], None]) -> ManagerPool[Side]:
            return cluster.make_pool(count, world.history.event, wake)

        moves = None if world.moves is None else AskedMoves(world.moves, context.moves)

        def look() -> None:
            if moves is not None and self.last is not None:
                moves.look(self.last.graph, self.last.places())
            if world.rescales is not None and self.last is not None:
                world.rescales.look(self.last.graph, context.rescales)
            if world.drains is not None:
                world.drains.look(context.managers)
            if world.routes is not None and self.last is not None:
                world.routes.look(self.last.graph, context.routes)

        world.history.event(f"run {self._run} begins with {count} task managers")
        waiter, make_parts = self._waiter, cluster.make_parts
        parts = HeadParts(
            plan,
            setup,
            context.clock,
            make_pool,
            waiter,
            make_parts,
            lambda setup: b"",
            cluster.pack_plan,
            waits=True,
        )
        return context.resources.enter_context(SimulatedHead(parts, world, cluster, look))
