"""The task managers of one run as its head has them: started, watched, replaced and ended.

A thin shell around the table of their lives: it owns processes (by a `Launcher`) and control links. One thread calls
it; what comes from other threads waits until that one asks.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic

from penstock.engine.core.contract import Clock
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.control_plane import OnClosed, OnMessage
from penstock.engine.executors.managers.delivery import HEAD, Ends
from penstock.engine.executors.managers.failures import Failure
from penstock.engine.executors.managers.life import ManagerEvent, ManagerState, after, may_follow
from penstock.engine.executors.managers.pool_member import PoolMember
from penstock.engine.executors.managers.pool_news import LEFT, Lost, News, Said
from penstock.engine.executors.managers.pool_ports import End, Launcher, Plane
from penstock.engine.executors.managers.watch import Dead, ManagerSigns, ManagerWatch, Stuck, WellAgain
from penstock.model.errors import RetryableError

LOOK_NS = 1_000_000_000
"""How often processes are looked at."""

MOST_STILLBORN = 3
"""So many processes in a row may end before they have joined; then no more are started for now."""

START_AGAIN_NS = 60_000_000_000
"""After how long some are started again all the same."""

ENDED_WITHIN_S = 0.5
"""How long the end of a process is awaited whose link is closed."""

LEAVE_NS = 5_000_000_000
"""How long a task manager stays that was told to end, since its head may have been told so, too, and ends in order."""

LEAVE_BEHIND_CHECKPOINT_NS = 60_000_000_000
"""How long one stays at most for a checkpoint, behind which what it hosts begins elsewhere."""

GRACE_S = 2.0
"""How long the end waits for processes that were told to leave."""


class ManagerPool(Generic[End]):
    """A number of task managers; one that is lost is replaced by another, of another name."""

    def __init__(
        self,
        launcher: Launcher[End],
        make_plane: Callable[[Clock, OnMessage, OnClosed], Plane[End]],
        clock: Clock,
        job: str,
        run: int,
        count: int,
        wake: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """Start none yet. ``wake`` is called from another thread when there is news."""
        self._launcher, self._clock, self._job, self._run = launcher, clock, job, run
        self._count, self._warn, self._wake = count, warn, wake
        self._members: dict[str, PoolMember] = {}
        self._started = 0
        self._stillborn = 0
        self._start_again_ns: int | None = None
        """When those are started that are missing; None: none are, or they are as soon as they are lost."""
        self._lacks_room = False
        """Those that are missing had no room: they are started earlier if there is some."""
        self._setup = b""
        self._watch = ManagerWatch()
        self._inbox: deque[tuple[str, ms.ToHead | str]] = deque()
        self._lost: deque[Lost] = deque()
        self._findings: deque[Stuck | WellAgain] = deque()
        self._is_stopping = False
        self._look_ns = 0
        self._failure: Failure | None = None
        self._plane = make_plane(clock, self._receive, self._lose_link)

    def open(self, setup: bytes) -> None:
        """Start all; they are usable once they have joined.

        Raises:
            RetryableError: the system has no room for a process.
        """
        self._setup = setup
        self._start_missing()

    def change_setup(self, setup: bytes, order: ms.ChangePlan) -> None:
        """Let all that are started from now on have another setup; ``order`` is for those that have the one before."""
        self._setup = setup
        for name in self._members:
            self.send(name, order)

    def meet_survivors(self) -> Sequence[str]:
        """Ask those that have outlived the head before what they hold; return their names. Before `open`."""
        for name, end in self._launcher.survivors().items():
            self._started = max(self._started, int(name.removeprefix("tm-")) + 1)
            self._admit(name, end, ManagerState.OUTLIVING, ms.ReadHolding())
        return list(self._members)

    def adopt(self, addresses: Mapping[str, str]) -> None:
        """Count survivors as members, which others meet at these addresses; the rest are let go."""
        for name, member in list(self._members.items()):
            if name not in addresses:
                self._drop(name)
            elif member.state is ManagerState.OUTLIVING:
                member.state, member.address = after(member.state, ManagerEvent.ADOPTED), addresses[name]

    def reopen(self) -> None:
        """Start those that are missing, as an attempt is to begin.

        Raises:
            RetryableError: the system has no room for a process, and none is there.
        """
        try:
            self._start_missing()
        except RetryableError as error:
            if not self._members:
                raise
            self._miss(str(error), lacks_room=True)

    def live(self) -> Sequence[str]:
        """Return those that instances can be given to, oldest first."""
        return [name for name, member in self._members.items() if member.is_usable and not self._leaves(member)]

    def warm(self) -> Sequence[str]:
        """Return those of the `live` that have loaded their kernels, or have instances."""
        members = ((name, self._members[name]) for name in self.live())
        return [name for name, member in members if member.is_warm or member.state is not ManagerState.IDLE]

    def awaited(self) -> int:
        """Return how many may yet join: those that have been started, and who follow those that leave."""
        members = list(self._members.values())
        staying = sum(not self._leaves(member) for member in members)
        followed = max(0, min(len(members) - staying, self._count - staying))
        return sum(member.state is ManagerState.STARTED for member in members) + followed

    def leaving(self) -> Mapping[str, int]:
        """Return when those were told to end that were not released yet; none while the job ends itself."""
        return {
            name: member.order_ns
            for name, member in self._members.items()
            if member.order_ns is not None and not member.is_released and not self._is_stopping
        }

    def keep_for_checkpoint(self, name: str, *, on_its_way: bool = False) -> None:
        """Let one stay that was told to end, for what it hosts begins elsewhere behind a checkpoint.

        As long as that is ``on_its_way`` while the job runs, who calls this again and again lets it stay.
        """
        member = self._members.get(name)
        if member is not None and member.order_ns is not None:
            since_ns = self._clock.monotonic_ns() if on_its_way else member.order_ns
            member.leave_ns = since_ns + LEAVE_BEHIND_CHECKPOINT_NS

    @property
    def wanted(self) -> int:
        """How many there are to be."""
        return self._count

    def resize(self, count: int, drained: Iterable[str] = ()) -> None:
        """Want so many from now on, and let some go for good; what these host begins elsewhere behind a checkpoint."""
        self._count, now_ns = count, self._clock.monotonic_ns()
        for name in drained:
            if (member := self._members.get(name)) is not None:
                member.let_go(now_ns, LEAVE_BEHIND_CHECKPOINT_NS)
        staying = [item for item in self._members.items() if not self._leaves(item[1])]
        # Who is about to join was nobody's choice as it was said who leaves: there would be one too many for good.
        for name, member in sorted(staying, key=lambda item: not item[1].is_usable)[count:]:
            if member.is_usable:
                member.let_go(now_ns, LEAVE_BEHIND_CHECKPOINT_NS)
            else:
                self._drop(name)
        self._look_ns = 0
        try:
            self._start_missing()
        except RetryableError as error:
            self._miss(str(error), lacks_room=True)

    def release(self, name: str) -> None:
        """Let one go that was told to end, and hosts nothing."""
        member = self._members.get(name)
        if member is not None and not member.is_released:
            member.is_released, member.leave_ns = True, self._clock.monotonic_ns() + LEAVE_NS
            self._plane.send(name, ms.encode(ms.Leave()))

    def has(self, name: str) -> bool:
        """Return whether one was started and is not lost."""
        return name in self._members

    def silent_s(self) -> Mapping[str, float]:
        """Return for how long nothing was heard of each that has a link."""
        now_ns = self._clock.monotonic_ns()
        heard = {name: self._plane.heard_ns(name) for name in self._members}
        return {name: (now_ns - heard_ns) / 1e9 for name, heard_ns in heard.items() if heard_ns is not None}

    def address(self, name: str) -> str:
        """Return where others meet one."""
        return self._members[name].address

    def files(self, name: str) -> str:
        """Return a name of the files that one sees."""
        return self._members[name].files

    def take_failure(self) -> Failure | None:
        """Return why one could not make anything of its setup, once; others could not, either."""
        failure, self._failure = self._failure, None
        return failure

    def send(self, name: str, message: ms.ToManager) -> None:
        """Say something to one; to one that is lost it goes nowhere."""
        member = self._members.get(name)
        if member is None:
            return
        event = _ORDERS.get(type(message))
        if event is not None and may_follow(member.state, event):
            member.state = after(member.state, event)
        self._plane.send(name, ms.encode(message))

    def has_bad_news(self) -> bool:
        """Return whether `turn` would bring word of one that is lost, or could not do what it was told.

        Whoever waits without a `turn` asks this; it also looks at the processes now and then.
        """
        self._look()
        return bool(self._lost) or any(
            isinstance(news, str | ms.Refused | ms.SetupFailed) for _, news in list(self._inbox)
        )

    def turn(self) -> Iterator[News]:
        """Yield what has come; look at the processes now and then, and replace those that are lost."""
        while self._inbox:
            name, news = self._inbox.popleft()
            member = self._members.get(name)
            if member is None:
                continue
            if isinstance(news, str):
                # A link is closed a moment before its process has ended, which says more.
                self._lose(name, self._launcher.ended(name, ENDED_WITHIN_S) or news)
            elif isinstance(news, ms.SetupFailed) and self.live():
                # Others could make something of it, and go on.
                self._lose(name, f"it could make nothing of the job: {news.failure.message}")
            else:
                self._hear(name, member, news)
                yield Said(name, news)
            yield from self._take_lost()
        self._look()
        yield from self._take_lost()
        while self._findings:
            yield self._findings.popleft()

    def stop(self) -> None:
        """The job ends in order, however long that takes: those that were told to end do so with it."""
        self._is_stopping = True

    def due_ns(self) -> int:
        """Return when processes are looked at next."""
        return self._look_ns

    def kill(self, name: str, reason: str) -> Iterator[News]:
        """End one that does not do what it was told."""
        if name in self._members:
            self._lose(name, reason)
        yield from self._take_lost()

    def close(self) -> None:
        """End all."""
        for name, member in self._members.items():
            if member.state is ManagerState.STARTED:
                # It has nothing to end in order, and may still import for long.
                self._launcher.forget(name)
            else:
                self._plane.send(name, ms.encode(ms.Leave()))
        self._launcher.close(GRACE_S)
        self._plane.close()
        self._members.clear()

    def _hear(self, name: str, member: PoolMember, message: ms.ToHead) -> None:
        match message:
            case ms.Joined():
                if may_follow(member.state, ManagerEvent.JOINED):
                    member.state = after(member.state, ManagerEvent.JOINED)
                    member.address, member.files = message.address, message.files
                    self._stillborn = 0
            case ms.WarmedUp():
                member.is_warm = True
            case ms.SetupFailed():
                self._failure = message.failure
            case ms.LeaveAsked():
                member.order_ns = self._clock.monotonic_ns()
                member.leave_ns = member.order_ns + LEAVE_NS
            case ms.StuckInStep() | ms.OutOfStep():
                self._watch.hear(name, message, self._clock.monotonic_ns())
            case ms.TakenDown(tasks=None) if may_follow(member.state, ManagerEvent.TAKEN_DOWN):
                member.state = after(member.state, ManagerEvent.TAKEN_DOWN)
            case _:
                pass

    def _leaves(self, member: PoolMember) -> bool:
        return member.order_ns is not None and not self._is_stopping

    def _take_lost(self) -> Iterator[Lost]:
        while self._lost:
            yield self._lost.popleft()

    def _look(self) -> None:
        """Look at the processes if it is time."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._look_ns:
            return
        self._look_ns = now_ns + LOOK_NS
        signs: dict[str, ManagerSigns] = {}
        for name, member in list(self._members.items()):
            ended = self._launcher.ended(name)
            if ended is not None:
                self._lose(name, ended)
            elif not self._is_stopping and member.leave_ns is not None and member.leave_ns <= now_ns:
                self._lose(name, "it was told to end (SIGTERM)")
            elif (heard_ns := self._plane.heard_ns(name)) is not None:
                signs[name] = ManagerSigns(heard_ns, self._launcher.cpu_ns(name))
        for finding in self._watch.look(now_ns, signs):
            match finding:
                case Dead():
                    self._lose(finding.name, "it said nothing and used no core for too long")
                case Stuck():
                    self._findings.append(finding)
                    self._warn(f"STUCK: {finding.text}")
                case WellAgain():
                    self._findings.append(finding)
                    self._warn(f"WELL AGAIN: {finding.text}")
        if self._start_again_ns is not None and (
            self._start_again_ns <= now_ns or (self._lacks_room and self._launcher.has_room())
        ):
            self.reopen()

    def _drop(self, name: str) -> PoolMember:
        member = self._members.pop(name)
        self._plane.remove(name)
        # It may only be out of reach: nothing of it may go on.
        self._launcher.forget(name)
        return member

    def _lose(self, name: str, reason: str) -> None:
        member = self._drop(name)
        self._lost.append(Lost(name, LEFT if member.is_released else reason, member.is_released))
        if member.state is ManagerState.OUTLIVING:
            return
        if member.state is ManagerState.STARTED and not member.is_released:
            self._stillborn += 1
        if self._start_again_ns is not None or len(self._members) >= self._count:
            return
        if self._stillborn >= MOST_STILLBORN:
            self._miss(f"{MOST_STILLBORN} in a row ended before they were up, the last as {reason}")
            return
        try:
            self._start()
        except RetryableError as error:
            self._miss(str(error), lacks_room=True)

    def _miss(self, reason: str, *, lacks_room: bool = False) -> None:
        """Go on without those that are missing, for a while."""
        self._start_again_ns, self._lacks_room = self._clock.monotonic_ns() + START_AGAIN_NS, lacks_room
        self._warn(
            f"TASK MANAGERS MISSING: {reason}; the job goes on with {len(self._members)} of {self._count}, and the "
            f"others are started in {START_AGAIN_NS // 1_000_000_000} s, when there is room, or when it restarts."
        )

    def _start_missing(self) -> None:
        self._stillborn, self._start_again_ns = 0, None
        while len(self._members) < self._count:
            self._start()

    def _start(self) -> None:
        name = f"tm-{self._started}"
        self._started += 1
        self._admit(name, self._launcher.start(name), ManagerState.STARTED, ms.Setup(self._setup))

    def _admit(self, name: str, end: End, state: ManagerState, word: ms.ToManager) -> None:
        self._members[name] = PoolMember(state)
        self._plane.add(end, Ends(self._job, self._run, HEAD, name))
        self._plane.send(name, ms.encode(word))

    def _receive(self, name: str, data: bytes) -> None:
        try:
            news: ms.ToHead | str = ms.decode_for_head(data)
        except ms.UnreadableMessageError as error:
            news = f"it said what is no message: {error}"
        self._inbox.append((name, news))
        self._wake()

    def _lose_link(self, name: str, reason: str) -> None:
        self._inbox.append((name, reason))
        self._wake()


_ORDERS = {
    ms.Deploy: ManagerEvent.DEPLOY_ORDERED,
    ms.Grow: ManagerEvent.DEPLOY_ORDERED,
    ms.Start: ManagerEvent.START_ORDERED,
}
