"""A head and its task managers in one thread: the real ones, in a world where everything between them may go wrong.

The head's own code runs as the job calls it; whenever it waits, the others go on, one thing at a time.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from penstock.engine.core.background import Background
from penstock.engine.core.contract import Clock
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.control_plane import OnClosed, OnMessage
from penstock.engine.executors.managers.delivery import HEAD, Ends
from penstock.engine.executors.managers.manager_parts import ManagerParts
from penstock.engine.executors.managers.places import CALLER
from penstock.engine.executors.managers.plan_parcel import with_sinks
from penstock.engine.executors.managers.plan_reader import PlanReader
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.executors.simulation.background import SimulatedBackground
from penstock.engine.executors.simulation.control_faults import ControlFaults
from penstock.engine.executors.simulation.control_network import Side, SimulatedPlane
from penstock.engine.executors.simulation.faults import ProcessKilledError
from penstock.engine.executors.simulation.memory_links import MeetingBoard
from penstock.engine.executors.simulation.simulated_manager import (
    BoardMeeting,
    NoScratch,
    ProcessParts,
    SimulatedManager,
)
from penstock.engine.executors.simulation.staged_sink import StagedSink
from penstock.engine.executors.simulation.world import World
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.job_graph import SinkSpec
from penstock.state.stores.rocksdb_store import RocksDbStores

LONGEST_START_NS = 3_000_000_000
"""How long the start of a process takes at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is run: the head's plan and setup, by the number of this run."""

    plan: JobPlan
    setup: ManagerSetup
    run: int


class Cluster:
    """The task managers of one head, and the scheduler of all that happens; a `Launcher` of the head's pool."""

    def __init__(self, world: World, job: Job) -> None:
        """Begin without task managers."""
        self.woken = False
        """Whether the head's wait is to end."""
        self._world, self._job = world, job
        self._faults = ControlFaults(world.dice, world.faults)
        self._board = MeetingBoard(self._faults, world.clock.monotonic_ns)
        self._managers: dict[str, SimulatedManager] = {}
        self._paged = 0
        self._plans: list[JobPlan] = []
        self._plane: SimulatedPlane | None = None
        self._head_sleeps_until_ns = 0
        self._is_other_run = False
        self._freezes = world.dice.between(0, 3) if world.faults.delay else 0
        self._breaks = world.dice.between(0, 2) if world.faults.cut else 0
        self._departures = world.dice.between(0, 2) if world.faults.crash else 0
        self.local_background = SimulatedBackground(world.clock, world.dice)

    def lose_head(self) -> None:
        """The head's process is gone; the others live on, and its ends of links are closed."""
        self._plane = None
        self._board.kill(CALLER)
        for manager in self._managers.values():
            manager.lose_head()

    def go_on(self, job: Job) -> None:
        """Begin another run, whose head may adopt what is there."""
        self._job, self._head_sleeps_until_ns, self.woken = job, 0, False
        self._is_other_run = True
        self._board.welcome(CALLER)
        self.local_background = SimulatedBackground(self._world.clock, self._world.dice)

    def is_anyone_left(self) -> bool:
        """Return whether a process of a task manager lives."""
        return any(manager.ended is None for manager in self._managers.values())

    def survivors(self) -> Mapping[str, Side]:
        """Return the sides of those that outlived the head before, by name."""
        found = [manager for manager in self._managers.values() if manager.find_head()]
        for name in sorted(self._managers.keys() - {manager.name for manager in found}):
            # It ends before it has anything that another head could adopt.
            self.forget(name)
        return {manager.name: self._side(manager) for manager in found}

    def make_pool(self, count: int, warn: Callable[[str], None], wake: Callable[[], None]) -> ManagerPool[Side]:
        """Return the pool of the head, of so many task managers."""
        job = self._job
        return ManagerPool(self, self._make_plane, self._world.clock, job.plan.name, job.run, count, wake, warn)

    def make_parts(
        self, name: str, directory: Path, setup: ManagerSetup, clock: Clock, wake: Callable[[], None]
    ) -> ManagerParts:
        """Return the parts of the task manager in the head's process."""
        return self._parts_of(BoardMeeting(CALLER, self._board, self._wait_for_meeting), self.local_background)

    def start(self, name: str) -> Side:
        """Start the process of a task manager."""
        world = self._world
        if self._is_other_run and not self.is_anyone_left():
            self._board.begin_anew()
        self._is_other_run = False
        self._board.welcome(name)
        begins_ns = world.clock.monotonic_ns() + world.dice.below(
            LONGEST_START_NS if world.dice.chance(0.1) else LONGEST_START_NS // 100
        )
        process = ProcessParts(
            world.clock,
            self._job.plan,
            self._job.setup,
            self._board,
            self._parts_of,
            SimulatedBackground(world.clock, world.dice),
            PlanReader(self._read_plan, lambda plan, sinks: self._rebind(with_sinks(plan, sinks))),
            world.admissions,
        )
        manager = self._managers[name] = SimulatedManager(name, process, partial(self._say, name), begins_ns)
        return self._side(manager)

    def _side(self, manager: SimulatedManager) -> Side:
        ends = Ends(self._job.plan.name, self._job.run, manager.name, HEAD)
        # A head that lives lets go of one by closing the link to it.
        let_go = partial(self._end, manager.name, "its head has closed the link")
        return Side(ends, manager.receive, let_go, manager.is_awake)

    def has_room(self) -> bool:
        """Return False: there is always room."""
        return False

    def ended(self, name: str, patience_s: float = 0.0) -> str | None:
        """Return how one has ended."""
        manager = self._managers.get(name)
        return None if manager is None else manager.ended

    def cpu_ns(self, name: str) -> int | None:
        """Return a time that grows as one does something."""
        return self._managers[name].cpu_ns

    def forget(self, name: str) -> None:
        """Kill one."""
        self._end(name, "it was killed by its head")
        self._managers.pop(name, None)

    def close(self, grace_s: float) -> None:
        """End all."""
        for name in list(self._managers):
            self._end(name, "it was killed by its head")
        self._managers.clear()

    def let_go(self) -> None:
        """End all, and let go of the links; the head has closed its own."""
        self.close(0.0)
        self._board.close()

    def turn(self, until_ns: int) -> None:
        """Let one thing happen, or time pass up to ``until_ns``.

        Raises:
            StuckError: there were too many turns.
            PowerLossError: the head is gone, and its task managers with it.
        """
        world = self._world
        world.turn(working=False)
        self._go_wrong()
        now_ns = world.clock.monotonic_ns()
        until_ns = max(until_ns, self._head_sleeps_until_ns)
        choices = list(self._choices(now_ns))
        if choices:
            world.dice.choose(choices)()
        elif now_ns < until_ns:
            times = [until_ns, *self._next_times()]
            world.sleep_until(min(time_ns for time_ns in times if time_ns > now_ns))

    def is_head_awake(self) -> bool:
        """Return whether anything may happen in the head's process."""
        return self._world.clock.monotonic_ns() >= self._head_sleeps_until_ns

    def _choices(self, now_ns: int) -> Iterator[Callable[[], None]]:
        world = self._world
        for manager in self._managers.values():
            if manager.is_ready():
                yield partial(self._let, manager, manager.turn)
            due_ns = manager.background.due_ns()
            if due_ns is not None and due_ns <= now_ns and manager.is_awake():
                yield partial(self._let, manager, partial(self._work, manager.background, manager.wake, manager.name))
        for link, name in self._board.choices(now_ns):
            yield partial(self._deliver, link.deliver, name)
        if self._plane is not None:
            for words, action in self._plane.choices(now_ns):
                yield partial(self._note, words, action)
        if self._plane is not None and self.is_head_awake():
            for background in (world.background, self.local_background):
                due_ns = background.due_ns()
                if due_ns is not None and due_ns <= now_ns:
                    yield partial(self._note_done, partial(self._work, background, self.wake, "the head"))

    def _next_times(self) -> Iterator[int]:
        world = self._world
        times = [manager.next_ns() for manager in self._managers.values()]
        times.append(self._board.next_ns())
        if self._plane is not None:
            times.append(self._plane.next_ns())
        if self.is_head_awake():
            times += [world.background.due_ns(), self.local_background.due_ns()]
        else:
            times.append(self._head_sleeps_until_ns)
        yield from (time_ns for time_ns in times if time_ns is not None)

    def wake(self) -> None:
        """Let the head look again."""
        self.woken = True

    def _let(self, manager: SimulatedManager, act: Callable[[], str]) -> None:
        """Let something happen in a process, which may be killed by that."""
        fate = self._world.fate
        fate.process, fate.is_process_killed = manager.name, False
        try:
            with suppress(ProcessKilledError):
                self._world.history.detail(act())
        finally:
            fate.process = None
        # A task manager may take the end of its process for an error of a step.
        fate.check_alive()
        if fate.is_process_killed:
            self._kill(manager.name)
            return
        if manager.ended is not None and self._plane is not None:
            self._plane.end_of(manager.name)

    def _work(self, background: SimulatedBackground, wake: Callable[[], None], name: str) -> str:
        background.proceed()
        wake()
        return f"background work of {name} proceeds"

    def _deliver(self, deliver: Callable[[], str], name: str) -> None:
        self._world.history.detail(deliver())
        if name == CALLER:
            self.wake()
        elif name in self._managers:
            self._managers[name].wake()

    def _note(self, words: str, action: Callable[[], None]) -> None:
        self._world.history.detail(words)
        action()

    def _note_done(self, act: Callable[[], str]) -> None:
        self._world.history.detail(act())

    def _go_wrong(self) -> None:
        """Kill or freeze a process, tell one to end, or break a link, now and then."""
        world, dice = self._world, self._world.dice
        living = [manager for manager in self._managers.values() if manager.ended is None]
        if living and world.fate.strikes(3.0):
            self._kill(dice.choose(living).name)
        if self._plane is not None and world.fate.strikes(0.5):
            world.fate.end_process("between two turns")
        if self._departures and living and dice.chance(2.0 / world.turns):
            self._departures -= 1
            name = dice.choose(living).name
            world.history.event(f"FAULT {name} is told to end")
            self._say(name, ms.LeaveAsked())
        if self._freezes and dice.chance(2.0 / world.turns):
            self._freezes -= 1
            asleep_ns = dice.below(30_000_000_000 if dice.chance(0.3) else 3_000_000_000)
            until_ns = world.clock.monotonic_ns() + asleep_ns
            if living and dice.chance(0.8):
                manager = dice.choose(living)
                manager.sleeps_until_ns = max(manager.sleeps_until_ns, until_ns)
                world.history.event(f"FAULT {manager.name} is frozen for {asleep_ns / 1e9:.1f} s")
            else:
                self._head_sleeps_until_ns = until_ns
                world.history.event(f"FAULT the head is frozen for {asleep_ns / 1e9:.1f} s")
        if self._breaks and dice.chance(1.0 / world.turns):
            self._breaks -= 1
            links = self._board.open_links()
            if links:
                link = dice.choose(links)
                world.history.event(f"FAULT link {link.name} breaks")
                link.break_apart()

    def _kill(self, name: str) -> None:
        self._world.history.event(f"FAULT {name} is killed")
        self._end(name, "it was killed by signal 9")

    def _end(self, name: str, reason: str) -> None:
        manager = self._managers.get(name)
        if manager is None or manager.ended is not None:
            return
        self._board.forget(name, self._world.dice.uniform())
        manager.end(reason)
        self._board.kill(name)
        if self._plane is not None:
            self._plane.end_of(name)

    def _say(self, name: str, message: ms.ToHead) -> None:
        if self._plane is not None and not (self._world.fate.process == name and self._world.fate.is_process_killed):
            self._plane.send_up(name, ms.encode(message))

    def _make_plane(self, clock: Clock, on_message: OnMessage, on_closed: OnClosed) -> SimulatedPlane:
        self._plane = SimulatedPlane(self._faults, self.is_head_awake, clock, on_message, on_closed)
        return self._plane

    def _parts_of(self, meeting: BoardMeeting, background: Background) -> ManagerParts:
        pages = self._world.pages
        if pages is None:
            return ManagerParts(meeting, background, NoScratch(), RocksDbStores(), self._world.state)
        self._paged += 1
        paging = pages.make(f"state-{self._paged}")
        scratch = NoScratch(pages.directory / f"scratch-{self._paged}")
        return ManagerParts(meeting, background, scratch, pages.stores, self._world.state, paging=paging)

    def _wait_for_meeting(self, attempt: int, peers: Mapping[str, str], is_given_up: Callable[[], bool]) -> None:
        """Let the others go on until all have come to the head's own task manager."""
        clock = self._world.clock
        until_ns = clock.monotonic_ns() + 20_000_000_000
        while (
            not self._board.is_decided(attempt, list(peers))
            and not (self.is_head_awake() and is_given_up())
            and clock.monotonic_ns() < until_ns
        ):
            self.turn(until_ns)

    def pack_plan(self, plan: JobPlan) -> bytes:
        """Keep another plan, by which task managers that start from now on begin, and return a name for it."""
        self._job = replace(self._job, plan=plan)
        self._plans.append(plan)
        return str(len(self._plans) - 1).encode()

    def _read_plan(self, packed: bytes) -> JobPlan:
        return self._plans[int(packed)]

    def _rebind(self, plan: JobPlan) -> JobPlan:
        """Return a plan whose sinks, as they came, write to this world's disk."""
        operators = dict(plan.graph.graph.operators)
        for key, node in operators.items():
            if isinstance(node.spec, SinkSpec) and isinstance(node.spec.sink, StagedSink):
                sink = node.spec.sink.on(self._world.files)
                operators[key] = replace(node, spec=replace(node.spec, sink=sink))
        graph = replace(plan.graph, graph=replace(plan.graph.graph, operators=operators))
        return replace(plan, graph=graph)
