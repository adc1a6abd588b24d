"""The head of a run: its task managers, one in this process among them, what they say, and the wait for it.

It outlives attempts: task managers that live are given instances again. One thread calls it, but for `wake`.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Protocol, TypeVar

from penstock.engine.control.cluster_snapshot import NO_OWNERS
from penstock.engine.control.job_control import JobControl, JobPlaces
from penstock.engine.control.levers import NO_LEVERS, Levers
from penstock.engine.control.start_control import start_control
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.worker import Outcome, Ran, Waiting
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.failures import Failure, error_of
from penstock.engine.executors.managers.manager_parts import MakeParts, parts_here
from penstock.engine.executors.managers.manager_ranks import ManagerRanks
from penstock.engine.executors.managers.manager_shell import ManagerShell
from penstock.engine.executors.managers.observed_time import ObservedTime
from penstock.engine.executors.managers.places import CALLER, Places, place_phrase
from penstock.engine.executors.managers.plan_parcel import pack_plan, pack_setup
from penstock.engine.executors.managers.plan_reader import PlanReader
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.executors.managers.pool_news import Lost, News, Said
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.executors.managers.task_manager import TaskManager
from penstock.engine.jobs.attempt import LONGEST_WAIT_S, JobPlan
from penstock.engine.transport.link_set import LinkSet
from penstock.engine.transport.waiting import Waiter
from penstock.model.control import NO_CONTROL, ControlOptions
from penstock.model.errors import WorkerLostError
from penstock.model.ids import TaskId
from penstock.model.key_groups import Owners

ANSWER_S = 15.0
"""How long task managers that have outlived a head are awaited."""

JOIN_S = 60.0
"""How long the first task managers are waited for."""

REJOIN_S = 2.0
"""How long others are waited for, once one is there, when all of a job that ran were lost."""

MakePool = Callable[[Callable[[], None]], ManagerPool[Any]]
"""Makes the pool of a run, which calls what it is handed when there is news."""

Value = TypeVar("Value")


class HeadWaiter(Protocol):
    """What a head waits on; see `Waiter`."""

    def add(self, descriptor: int) -> None:
        """Wait for this descriptor, too."""

    def wait(self, timeout_s: float | None) -> object:
        """Wait for a wake-up or a descriptor, or until so many seconds have passed."""

    def wake(self) -> None:
        """End the wait, or the next one; from any thread."""

    def close(self) -> None:
        """Let go of everything."""


@dataclass(frozen=True, slots=True)
class HeadParts:
    """The parts of a head; ``plan`` has the connectors that live in this process.

    ``pack`` makes of the setup what task managers are sent, ``pack_plan`` of another plan, ``make_parts`` the parts of
    the one in this process. ``control`` is that of load, which acts through ``levers``; ``warn`` takes what the
    user is told. ``ranks`` says which task managers have what instances
    need, if any needs something. With ``waits`` no task manager is started before `Head.begin`.
    """

    plan: JobPlan
    setup: ManagerSetup
    clock: Clock
    make_pool: MakePool
    waiter: HeadWaiter = field(default_factory=Waiter)
    make_parts: MakeParts = parts_here
    pack: Callable[[ManagerSetup], bytes] = pack_setup
    pack_plan: Callable[[JobPlan], bytes] = pack_plan
    control: ControlOptions = NO_CONTROL
    levers: Levers = NO_LEVERS
    warn: Callable[[str], None] = print
    waits: bool = False
    ranks: ManagerRanks | None = None


class Head(AbstractContextManager["Head"]):
    """The task managers of a run, and the one in this process."""

    def __init__(self, parts: HeadParts) -> None:
        """Start task managers; they are usable once they have joined."""
        self.plan = parts.plan
        self._clock = parts.clock
        self._waiter = parts.waiter
        self._ranks = parts.ranks
        self._links: LinkSet[int] = LinkSet()
        self._deployments = 0
        self._from_caller: deque[ms.ToHead] = deque()
        with ExitStack() as opened:
            opened.callback(self._waiter.close)
            opened.callback(self._links.close)
            self._waiter.add(self._links.fileno())
            wake = self._waiter.wake
            shell = ManagerShell(
                parts.clock,
                self._from_caller.append,
                wake,
                self._links,
                lambda: self.pool.has_bad_news(),
                parts.make_parts(CALLER, parts.plan.directory, parts.setup, parts.clock, wake),
                keeps_errors=True,
            )
            plans = PlanReader(lambda packed: self.plan, lambda plan, sinks: self.plan)
            self._local = TaskManager(CALLER, parts.plan, parts.setup, shell, plans)
            opened.callback(self._local.close)
            self._parts = parts
            self.control = self._start_control()
            opened.callback(lambda: self.control.close())
            self.pool = parts.make_pool(wake)
            opened.callback(self.pool.close)
            self._setup = parts.setup
            if not parts.waits:
                self.begin()
            self._opened = opened.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def begin(self) -> None:
        """Start the task managers that are missing; they are usable once they have joined."""
        self.pool.open(self._parts.pack(self._setup))

    def come_to(self, plan: JobPlan) -> None:
        """Let all instances be built by a plan from now on, as none is up; if it is another, control begins anew.

        Raises:
            PlanError: it cannot go to other processes; the one of before holds.
        """
        if plan.graph is self.plan.graph:
            return
        packed = self._parts.pack_plan(plan)
        self.plan, self._setup = plan, replace(self._setup, plan=packed)
        order = ms.ChangePlan(packed)
        self._local.handle(order)
        self.pool.change_setup(self._parts.pack(self._setup), order)
        before = self.control
        before.close()
        self.control = self._start_control(before)

    def _start_control(self, before: JobControl | None = None) -> JobControl:
        parts, now_ns = self._parts, self._clock.monotonic_ns()
        return start_control(self.plan, now_ns, parts.control, parts.warn, parts.levers, before)

    def await_survivors(self) -> Mapping[str, ms.Holding]:
        """Return what task managers hold that have outlived the head before, of all that say it within `ANSWER_S`."""
        awaited = set(self.pool.meet_survivors())
        answers: dict[str, ms.Holding] = {}
        observed = ObservedTime(self._clock.monotonic_ns())
        while not awaited <= answers.keys() and observed.now_ns < ANSWER_S * 1e9:
            for news in self.news():
                match news:
                    case Lost(manager):
                        awaited.discard(manager)
                        answers.pop(manager, None)
                    case Said(manager, ms.Holding() as held):
                        answers[manager] = held
                    case _:
                        pass
            observed.look(self._clock.monotonic_ns())
            if not awaited <= answers.keys():
                self._waiter.wait(LONGEST_WAIT_S)
        return answers

    def adopt(self, addresses: Mapping[str, str], last_deployment: int) -> None:
        """Count survivors as its own, which others meet at these addresses, and let the rest go; see `begin`.

        Its own deployments have greater numbers than the last one that there was.
        """
        self.pool.adopt(addresses)
        self._deployments = max(self._deployments, last_deployment)

    @property
    def local(self) -> TaskManager:
        """The task manager in this process."""
        return self._local

    def await_managers(self, take: Callable[[News], None]) -> Sequence[str]:
        """Return the names of the task managers that live, at a first start all that come up within `JOIN_S`.

        Those that have what instances need are among them. Where none is left of a job that ran, those are taken that
        come up within `REJOIN_S` of the first: some may have no place to come up in. ``take`` hears the news meanwhile.

        Raises:
            PenstockError: they could not make anything of the job.
            WorkerLostError: none has come up.
        """
        self.pool.reopen()
        observed = ObservedTime(self._clock.monotonic_ns())
        all_are_new, has_run = not self.pool.live(), self._deployments > 0
        first_up_ns: int | None = None
        lost: list[str] = []
        while not self._are_enough() or (all_are_new and self.pool.awaited()):
            for news in self.news():
                if isinstance(news, Lost):
                    lost.append(news.reason)
                take(news)
            failure = self.pool.take_failure()
            if failure is not None:
                raise error_of(failure, "a task manager")
            if not self.pool.awaited() and not self._are_enough():
                raise WorkerLostError(f"{self._lack()} came up: {'; '.join(lost) or 'none was started'}")
            observed.look(self._clock.monotonic_ns())
            if self._are_enough() and has_run:
                first_up_ns = observed.now_ns if first_up_ns is None else first_up_ns
                if observed.now_ns - first_up_ns >= REJOIN_S * 1e9:
                    break
            if observed.now_ns > JOIN_S * 1e9:
                if self._are_enough():
                    break
                raise WorkerLostError(f"{self._lack()} came up in {JOIN_S:.0f} s")
            self._waiter.wait(LONGEST_WAIT_S)
        return self.pool.live()

    def at_ranks(self, tasks: Collection[TaskId]) -> Places:
        """Return the places of the instances of some tasks that need what only certain task managers have."""
        return {} if self._ranks is None else self._ranks.places(self.plan.graph, tasks, self.pool.live())

    def _are_enough(self) -> bool:
        """Return whether instances can be given to task managers, those among them that need something."""
        live = self.pool.live()
        return bool(live) and (self._ranks is None or not self._ranks.lack(self.plan.graph, live))

    def _lack(self) -> str:
        return "no task manager" if not self.pool.live() else "no task manager that has what instances need"

    def places(self, places: Places, owners: Mapping[TaskId, Owners] = NO_OWNERS) -> JobPlaces:
        """Return where the job is, with these places of its instances, and owners of key groups."""
        return JobPlaces(self.pool.live(), CALLER, places, self.pool.silent_s(), owners)

    def next_deployment(self) -> int:
        """Return a number that no deployment had before."""
        self._deployments += 1
        return self._deployments

    def address(self, name: str) -> str:
        """Return where others meet a task manager."""
        return self._local.address if name == CALLER else self.pool.address(name)

    def is_there(self, name: str) -> bool:
        """Return whether a task manager is not lost, as far as its loss was told by `news`."""
        return name == CALLER or self.pool.has(name)

    def error(self, name: str, failure: Failure) -> BaseException:
        """Return the error that a task manager speaks of, that of one in this process as it was raised."""
        raised = self._local.errors.take(failure) if name == CALLER else None
        return error_of(failure, place_phrase(name)) if raised is None else raised

    def send(self, name: str, message: ms.ToManager) -> None:
        """Say something to a task manager; the one in this process does it at once."""
        if name == CALLER:
            self._local.handle(message)
        else:
            self.pool.send(name, message)

    def send_to(self, names: Collection[str], message: ms.ToManager) -> None:
        """Say something to several task managers, to the one in this process last: it does at once what it is told."""
        for name in sorted(names, key=lambda name: (name == CALLER, name)):
            self.send(name, message)

    def send_each(self, messages: Mapping[str, ms.ToManager]) -> None:
        """Say something else to each of some task managers."""
        for name, message in messages.items():
            self.send(name, message)

    def news(self) -> Iterator[News]:
        """Yield what task managers have said, and which are lost."""
        # Where one gives up as another could not do its part, the other's reason comes first.
        yield from self.pool.turn()
        while self._from_caller:
            yield Said(CALLER, self._from_caller.popleft())

    def turn(self) -> Outcome:
        """Let one instance in this process do one piece of work."""
        return self._local.turn()

    def wait(self, outcome: Outcome, until_ns: int | None) -> None:
        """Wait until something comes or is due, ``until_ns`` at the latest."""
        if isinstance(outcome, Ran) or self._from_caller or self._local.is_touched():
            return
        own_ns = outcome.until_ns if isinstance(outcome, Waiting) else None
        due_ns = (until_ns, own_ns, self.pool.due_ns(), self._local.due_ns())
        times = [time_ns for time_ns in due_ns if time_ns is not None]
        seconds = max(0.0, (min(times) - self._clock.monotonic_ns()) / 1e9)
        self._waiter.wait(min(seconds, LONGEST_WAIT_S))

    def wake(self) -> None:
        """Let whoever waits look again; from any thread or signal handler."""
        self._waiter.wake()

    def result_of(self, future: Future[Value]) -> Value:
        """Wait for what task managers bring, in a thread of the background; return it, or raise what went wrong."""
        return future.result()

    def close(self) -> None:
        """End all task managers."""
        self._opened.close()
