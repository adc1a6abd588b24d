"""The instances of a job that run in this process: built, stepped, cut, taken down and closed, by one thread.

`EmbeddedAttempt` hosts all of a job, a task manager those that the head gives to it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.engine.checkpoint.local_cuts import LocalCuts
from penstock.engine.checkpoint.run_scratch import RunScratch, Scratch
from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.connectors.dead_letter import DeadLetterWriter, OnBadRecord
from penstock.engine.connectors.letter_routes import LetterRoutes
from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.builder import build
from penstock.engine.dataflow.checkpoint_port import InstanceReport, Report
from penstock.engine.dataflow.cut import InstanceCut
from penstock.engine.dataflow.growth import Growth, Standing, grow
from penstock.engine.dataflow.handovers import TellMove, nobody_moves
from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.instance_services import (
    Hosts,
    InstanceServices,
    MakeChannel,
    StateFactory,
    Wake,
    everything_here,
    local_channel,
)
from penstock.engine.dataflow.local_instances import LocalInstances
from penstock.engine.dataflow.worker import Worker
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.metrics import JobMetrics, read_metrics
from penstock.engine.paging.bucket_store import PagingOptions
from penstock.engine.paging.paging import Paging
from penstock.model.config import LoopOptions
from penstock.model.dead_letters import LetterTarget
from penstock.model.ids import TaskId
from penstock.state.store import StateStore
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.stores.rocksdb_store import RocksDbStores
from penstock.state.tables.image import StoreImage


@dataclass(frozen=True, slots=True)
class HostOptions:
    """Options of a job that whoever hosts its instances needs.

    ``letters`` is where dead letters go that have no target of their source's; None: into a file, as all do that are
    not ``routed``. With ``keeps`` sources leave their streams open at their ends. ``async_calls`` makes what runs
    coroutines.
    """

    letters: LetterTarget | None = None
    routed: bool = True
    keeps: bool = False
    async_calls: MakeCalls = IoThread


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of hosted instances.

    ``wake`` makes whoever turns the loop look again, from any thread; ``met`` takes the first bad record of each
    operator, ``begun`` returns the last checkpoint that was begun. Without ``report``, which takes what instances of an
    attempt say of barriers, there are no checkpoints; ``cut_writer`` uploads what they contribute. Without ``scratch``
    they have a folder of their own for what nobody keeps. ``state`` makes stores; None: they are of this machine, and
    what lies by keys is in pages, as it is with ``paging``. ``budgets`` returns the
    memory of operators that differs from that of the plan. ``moves`` takes what instances say of moves.
    ``thread_cpu_ns`` returns the time that the calling thread has used on a core; None: that is not measured.
    """

    clock: Clock
    wake: Wake
    met: OnBadRecord
    begun: Callable[[], int] = lambda: 0
    report: Callable[[int, Report], None] | None = None
    cut_writer: CutWriter | None = None
    scratch: Scratch | None = None
    state: StateFactory | None = None
    thread_cpu_ns: Callable[[], int] | None = None
    moves: TellMove = nobody_moves
    paging: Paging | None = None
    budgets: Callable[[], Mapping[str, int | None]] = dict


class HostedInstances:
    """Instances, and what they share: a worker loop, dead letters, cuts and scratch."""

    def __init__(self, plan: JobPlan, options: HostOptions, around: Surroundings) -> None:
        """Open where dead letters go; nothing is built yet.

        Raises:
            UserError: dead letters cannot be written.
        """
        self._plan, self._around = plan, around
        self._routes = LetterRoutes(plan.name, plan.graph.graph, options.letters, around.begun)
        routes = self._routes if options.routed else None
        self.dead_letters = DeadLetterWriter.for_graph(plan.graph.graph, plan.directory, routes, around.met)
        self.cuts: LocalCuts | None = None
        if around.cut_writer is not None:
            self.cuts = LocalCuts(around.cut_writer, self.dead_letters.flush)
        self.worker = Worker(
            (), around.clock, quiet_ns=plan.loop.linger_ms * 1_000_000, thread_cpu_ns=around.thread_cpu_ns
        )
        self.instances = LocalInstances()
        self.build = Build(plan.graph)
        self._own_scratch = RunScratch(plan.directory) if around.scratch is None else None
        scratch = around.scratch or self._own_scratch
        try:
            self._services = InstanceServices(
                around.clock,
                around.state or partial(_state_in_memory, plan.loop.state_bytes),
                self.dead_letters,
                wake=around.wake,
                async_calls=options.async_calls,
                paging=around.paging or (None if around.state else _paging(plan.loop, scratch, around)),
                report=None if around.report is None else partial(_report, around.report, self.cuts),
                moves=around.moves,
                keeps=options.keeps,
                sampling_seed=plan.sampling_seed,
            )
            if options.routed:
                self._routes.open()
        except BaseException:
            self.abandon()
            raise

    def add(
        self,
        plan: JobPlan,
        start: AttemptStart,
        tasks: Collection[TaskId] | None = None,
        channel: MakeChannel = local_channel,
        hosts: Hosts = everything_here,
    ) -> Build:
        """Build instances of some tasks (None: all), those that this process ``hosts``; they do not run yet.

        ``plan`` is that of before, with its sinks as they are now. Returns what was built, which is part of `build`
        from now on.

        Raises:
            PlanError: an operator does not fit its inputs.
        """
        services = replace(self._services, channel=channel, hosts=hosts)
        part = build(plan.graph, plan.loop, services, start, tasks)
        self.build.replace(part)
        self.instances.add(part.instances)
        return part

    def grow(
        self,
        plan: JobPlan,
        start: AttemptStart,
        tasks: Collection[TaskId],
        standing: Standing,
        channel: MakeChannel,
        hosts: Hosts,
    ) -> Growth:
        """Build the instances that some tasks have in a plan beside those that run; they do not run yet.

        Raises:
            PlanError: an operator does not fit its inputs.
        """
        services = replace(self._services, channel=channel, hosts=hosts)
        growth = grow(self.build, plan.graph, plan.loop, services, start, tasks, standing)
        self.instances.add(growth.part.instances)
        return growth

    def join(self, growth: Growth) -> None:
        """Let producers that are here send to new instances, too."""
        self.worker.rewire(growth.join())

    def begin(self, part: Build, attempt: int) -> None:
        """Let instances that were built run from the next step on."""
        self._routes.begin(attempt)
        self.worker.add(part.instances)
        now_ns = self._around.clock.monotonic_ns()
        for instance in part.instances:
            instance.accounting.begin(now_ns)

    def members(self, tasks: frozenset[TaskId] | None) -> Sequence[Instance]:
        """Return the instances of some tasks (None: all)."""
        return [item for item in self.instances if tasks is None or not tasks.isdisjoint(self.build.tasks_of((item,)))]

    def take_down(self, failed: Sequence[Instance]) -> Sequence[str]:
        """Abort instances and release what they hold; return what went wrong with that."""
        self.worker.remove(failed)
        self.instances.remove(failed)
        if self.cuts is not None:
            self.cuts.forget([item.name for item in failed])
        releases = [item.head.close for item in failed if item.head is not None]
        releases += [node.operator.abort for item in failed for node in item.nodes]
        return _release(releases)

    def release(self, tasks: frozenset[TaskId]) -> Sequence[str]:
        """Take down whole regions, which may come back elsewhere; return what went wrong with that."""
        notes = self.take_down(self.members(tasks))
        self.build.remove(tasks)
        return notes

    def abandon(self) -> Sequence[str]:
        """Let go of what instances share, after a failure; return what went wrong with that."""
        notes = _release([self.dead_letters.abort])
        self.close_scratch()
        return notes

    def close(self, *, drained: bool) -> None:
        """Close everything in order; what came behind the last checkpoint of a job not ``drained`` comes again.

        Raises:
            PenstockError: something could not be written.
        """
        for head in self.build.heads():
            head.close()
        for operator in self.build.operators():
            if self._around.report is not None and not drained:
                operator.abort()
            else:
                operator.close()
        self.dead_letters.close()
        self.worker.remove(self.worker.instances)

    def close_scratch(self) -> None:
        """Remove what nobody keeps, unless it is in the folder of whoever hosts them."""
        if self._own_scratch is not None:
            self._own_scratch.close()

    def read_metrics(self, started_ns: int, now_ns: int, wall_us: int, stepped_ns: int | None) -> JobMetrics:
        """Read all counters; see `read_metrics`."""
        return read_metrics(self._plan.name, self.build, started_ns, now_ns, wall_us, stepped_ns)


def _report(report: Callable[[int, Report], None], cuts: LocalCuts | None, attempt: int, said: InstanceReport) -> None:
    """Pass on what an instance says of a barrier; a cut is kept, and what it is of goes on."""
    assert cuts is not None
    report(attempt, cuts.take(said) if isinstance(said, InstanceCut) else said)


def _release(releases: Sequence[Callable[[], object]]) -> list[str]:
    notes = []
    for release in releases:
        try:
            release()
        except Exception as error:
            notes.append(f"{type(error).__name__}: {error}")
    return notes


def _state_in_memory(most_bytes: int | None, operator: str, instance: int, image: StoreImage) -> StateStore:
    return MemoryStore(operator, most_bytes, image)


def _paging(options: LoopOptions, scratch: Scratch | None, around: Surroundings) -> Paging | None:
    """Page the state of jobs that bound it or take checkpoints; without either it stays in memory as it is."""
    if options.state_bytes is None and around.report is None:
        return None
    assert scratch is not None
    scratch.claim()
    directory = scratch.path / "state"
    return Paging(PagingOptions(options.state_bytes), RocksDbStores(), directory, budgets=around.budgets)
