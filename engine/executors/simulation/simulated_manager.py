"""A simulated process of a task manager: the real `TaskManager`, turned when the scheduler says so."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.worker import Outcome, Ran, Waiting
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.manager_growth import crossings_of
from penstock.engine.executors.managers.manager_parts import ManagerParts
from penstock.engine.executors.managers.manager_shell import ManagerShell
from penstock.engine.executors.managers.plan_reader import PlanReader
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.executors.managers.task_manager import TaskManager
from penstock.engine.executors.managers.visible_files import visible_files
from penstock.engine.executors.simulation.background import SimulatedBackground
from penstock.engine.executors.simulation.memory_links import MeetingBoard
from penstock.engine.executors.simulation.random_admissions import RandomAdmissions
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.transport.link import Link
from penstock.engine.transport.link_set import LinkSet
from penstock.engine.transport.meeting import MEET_TIMEOUT_S

ALONE_NS = 60_000_000_000
"""How long a process lives without a head."""


class NoScratch:
    """The scratch of a process whose state lies in memory, or in pages below a path."""

    def __init__(self, path: Path = Path("simulated")) -> None:
        """Make nothing."""
        self.path = path

    def claim(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class BoardMeeting:
    """The meeting place of one task manager; ``wait`` returns once all peers have come, or it is given up."""

    address = "simulated"

    def __init__(
        self, name: str, board: MeetingBoard, wait: Callable[[int, Mapping[str, str], Callable[[], bool]], None]
    ) -> None:
        """Begin without a meeting."""
        self._name, self._board, self._wait = name, board, wait

    def meet(self, attempt: int, peers: Mapping[str, str], is_given_up: Callable[[], bool]) -> Mapping[str, Link]:
        """Return the links to the peers.

        Raises:
            WorkerLostError: it is given up, or one does not come.
        """
        self._board.come(attempt, self._name)
        self._wait(attempt, peers, is_given_up)
        return self._board.links(attempt, self._name, list(peers), "given up")

    def close(self) -> None:
        """Do nothing: links are closed by who has them."""


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """What a simulated process is made of; ``parts`` makes those of its task manager."""

    clock: Clock
    plan: JobPlan
    setup: ManagerSetup
    board: MeetingBoard
    parts: Callable[[BoardMeeting, SimulatedBackground], ManagerParts]
    background: SimulatedBackground
    plans: PlanReader
    admissions: RandomAdmissions | None = None


class SimulatedManager:
    """One process. Nothing runs in it before ``begins_ns``, nor while it is frozen."""

    def __init__(self, name: str, parts: ProcessParts, say: Callable[[ms.ToHead], None], begins_ns: int) -> None:
        """Begin with nothing but a name."""
        self.name = name
        self.background = parts.background
        self.ended: str | None = None
        """How it has ended, in words."""
        self.sleeps_until_ns = begins_ns
        self.cpu_ns = 0
        self._parts, self._say, self._plan = parts, say, parts.plan
        self._links: LinkSet[int] = LinkSet()
        self._manager: TaskManager | None = None
        self._inbox: deque[ms.ToManager] = deque()
        # Until when it lives without a head, None: it has one; whether its task manager does not know it yet.
        self._alone_until_ns: int | None = None
        self._is_newly_alone = False
        self._awaits: tuple[int, frozenset[str], int] | None = None
        # Until when there is nothing to do; None: until something comes.
        self._rests = True
        self._until_ns: int | None = None

    def is_awake(self) -> bool:
        """Return whether anything may happen in it."""
        return self.ended is None and self._parts.clock.monotonic_ns() >= self.sleeps_until_ns

    def receive(self, data: bytes) -> None:
        """Take a message of the head."""
        self.cpu_ns += 1
        self._inbox.append(ms.decode_for_manager(data))

    def wake(self) -> None:
        """Let its loop look again."""
        self._rests = False

    def lose_head(self) -> None:
        """Its head is gone."""
        self._alone_until_ns = self._parts.clock.monotonic_ns() + ALONE_NS
        self._is_newly_alone = True
        self._rests = False

    def find_head(self) -> bool:
        """Return whether it goes on under another head, of which it hears next."""
        if self.ended is not None or self._manager is None:
            return False
        self._alone_until_ns = None
        return True

    def is_ready(self) -> bool:
        """Return whether its loop has something to do now."""
        now_ns = self._parts.clock.monotonic_ns()
        if not self.is_awake():
            return False
        if self._alone_until_ns is not None and (self._is_newly_alone or self._alone_until_ns <= now_ns):
            return True
        if self._inbox and isinstance(self._inbox[0], ms.Deploy | ms.Grow):
            return self._has_met(self._inbox[0], now_ns)
        if self._inbox:
            return True
        return self._manager is not None and (
            not self._rests or self._manager.is_touched() or (self._until_ns is not None and self._until_ns <= now_ns)
        )

    def next_ns(self) -> int | None:
        """Return when its loop has something to do at the latest; it has nothing now."""
        if self.ended is not None:
            return None
        now_ns = self._parts.clock.monotonic_ns()
        if now_ns < self.sleeps_until_ns:
            return self.sleeps_until_ns
        if self._awaits is not None:
            return self._awaits[2]
        times = [self._until_ns, self.background.due_ns(), self._alone_until_ns]
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    def turn(self) -> str:
        """Let its loop do one thing; return what."""
        self.cpu_ns += 1
        self._rests = False
        if self._alone_until_ns is not None and self._alone_until_ns <= self._parts.clock.monotonic_ns():
            self._leave()
            return f"{self.name} has no head and ends"
        if self._inbox:
            message = self._inbox.popleft()
            self._awaits = None
            self._obey(message)
            return f"{self.name} does {type(message).__name__}"
        if self._is_newly_alone:
            self._is_newly_alone = False
            if self._manager is None:
                self._leave()
            else:
                self._manager.lose_head()
            return f"{self.name} has no head"
        assert self._manager is not None
        if self._parts.admissions is not None:
            self._parts.admissions.look(self._manager.instances())
        outcome = self._manager.turn()
        if isinstance(outcome, Ran):
            return f"{self.name} steps {outcome.instance}"
        self._rest(self._manager, outcome)
        return f"{self.name} rests"

    def end(self, reason: str) -> None:
        """End the process at once: nothing of it is closed in order."""
        if self.ended is None:
            self.ended = reason
            self._links.close()

    def _leave(self) -> None:
        if self._manager is not None:
            self._manager.close()
        self.ended = "it has ended in order"
        self._links.close()

    def _rest(self, manager: TaskManager, outcome: Outcome) -> None:
        until_ns = outcome.until_ns if isinstance(outcome, Waiting) else None
        times = [until_ns, manager.due_ns()]
        self._until_ns = min(time_ns for time_ns in times if time_ns is not None)
        self._rests = True

    def _obey(self, message: ms.ToManager) -> None:
        if isinstance(message, ms.Setup):
            self._set_up()
        elif self._manager is not None:
            if isinstance(message, ms.ChangePlan):
                self._plan = self._parts.plans.read(message.plan)
            self._manager.handle(message)
            if self._manager.has_left:
                self.ended = "it has ended in order"
                self._links.close()
        elif isinstance(message, ms.Leave):
            self._leave()

    def _set_up(self) -> None:
        parts = self._parts
        meeting = BoardMeeting(self.name, parts.board, lambda attempt, peers, is_given_up: None)
        shell = ManagerShell(
            parts.clock,
            self._say,
            self.wake,
            self._links,
            self._is_interrupted,
            parts.parts(meeting, self.background),
        )
        self._manager = TaskManager(self.name, self._plan, parts.setup, shell, parts.plans)
        # Every second one is as on another host: it is asked what it sees.
        number = int(self.name.rpartition("-")[2])
        self._say(ms.Joined(0, meeting.address, "elsewhere" if number % 2 else visible_files()))

    def _is_interrupted(self) -> bool:
        return self._is_newly_alone or any(
            isinstance(message, ms.TakeDown | ms.Leave | ms.ReadHolding) for message in self._inbox
        )

    def _has_met(self, order: ms.Deploy | ms.Grow, now_ns: int) -> bool:
        """Come to the meeting of a deployment; return whether it need not be waited for any more."""
        if self._awaits is None or self._awaits[0] != order.deployment:
            peers = frozenset(crossings_of(order, self._plan.graph, self.name).peers)
            self._awaits = order.deployment, peers, now_ns + MEET_TIMEOUT_S * 1_000_000_000
            self._parts.board.come(order.deployment, self.name)
        deployment, peers, until_ns = self._awaits
        board = self._parts.board
        return board.is_decided(deployment, peers) or self._is_interrupted() or now_ns >= until_ns
