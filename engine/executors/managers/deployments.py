"""The deployments of a job: regions on their task managers, which build them, close them and let them go."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from penstock.engine.control.job_control import KeepOrder
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import CutTaken
from penstock.engine.dataflow.worker import Outcome
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.adoption import adopt_order, cuts_of, start_behind
from penstock.engine.executors.managers.deployment import Deployment, caller_last
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.observed_time import ObservedTime
from penstock.engine.executors.managers.places import CALLER, Places, at_caller, deal_out, names_at, place_phrase
from penstock.engine.executors.managers.plan_parcel import pack_sinks
from penstock.engine.executors.managers.pool_news import News, Said
from penstock.engine.jobs.adoption import Adopt
from penstock.engine.jobs.attempt import AttemptContext
from penstock.engine.jobs.job_rates import check_rates
from penstock.engine.plan.regions import regions
from penstock.model.errors import WorkerLostError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId
from penstock.model.keep_rates import KeepRates
from penstock.state.checkpoints.repository import CheckpointRepository

TAKE_DOWN_NS = 10_000_000_000
"""How long a task manager may take to let go of its instances before it is ended."""

Answer = ms.Deployed | ms.Refused | ms.TakenDown | ms.Finished | ms.Adopted
"""What a task manager says once it has done an order that the head waits for, or could not."""


_OF_BARRIERS = ms.CutTaken | ms.BarrierMissed


class Deployments:
    """The deployments that are up; each order waits until all that must have answered."""

    def __init__(
        self, graph: ExecutionGraph, head: Head, context: AttemptContext, take: Callable[[News], None]
    ) -> None:
        """Begin with none; ``take`` is handed all news that come while an answer is awaited."""
        self.graph, self._head, self._clock, self._take = graph, head, context.clock, take
        self._shed, self._memory = context.shed, context.memory
        self._told_memory: Mapping[str, int | None] = {}
        self._up: dict[int, Deployment] = {}
        # Of regions that were taken down, the names of their instances.
        self._names: dict[frozenset[TaskId], set[str]] = {}
        # Those that are being built.
        self._coming: dict[int, Deployment] = {}
        # Of which deployment (0: of all) who is to answer yet.
        self._awaited: set[tuple[int, str]] = set()
        self._failures: list[BaseException] = []
        # Whether nothing of those that are up is needed any more, and who was lost since without a last word.
        self._is_committed = False
        self._missing: set[str] = set()
        self._notes: list[str] = []
        # What each held when it was adopted.
        self._adopted: dict[str, ms.Holding] = {}
        # What is said of barriers while some are still to be adopted; None: none are.
        self._early: list[News] | None = None

    def __len__(self) -> int:
        """Return how many are up."""
        return len(self._up)

    def __iter__(self) -> Iterator[Deployment]:
        """Yield those that are up, the oldest first."""
        return iter(list(self._up.values()))

    def get(self, number: int) -> Deployment | None:
        """Return the one of this number, None if it is neither up nor being built."""
        return self._up.get(number) or self._coming.get(number)

    @property
    def managers(self) -> set[str]:
        """The task managers that host an instance."""
        return {manager for deployment in self._up.values() for manager in deployment.managers}

    @property
    def have_ended(self) -> bool:
        """Whether all instances have."""
        return all(deployment.ended.issuperset(deployment.managers) for deployment in self._up.values())

    def names_by_manager(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return which of these instances each task manager hosts, of all that host any instance."""
        hosted: dict[str, list[str]] = {}
        for deployment in self._up.values():
            for manager in deployment.managers:
                mine = hosted.setdefault(manager, [])
                mine += sorted(names_at(deployment.places, manager).intersection(names))
        return {manager: tuple(mine) for manager, mine in hosted.items()}

    def deploy(
        self, tasks: frozenset[TaskId], managers: Sequence[str], start: AttemptStart, restore: ms.Restore | None
    ) -> Sequence[Deployment]:
        """Let task managers build the regions of some tasks; return these, which do not run yet.

        Raises:
            PenstockError: a task manager could not build its part, or is lost; nothing is left of any.
        """
        chosen = self._choose(tasks)
        new = [
            Deployment(self._head.next_deployment(), region, deal_out(self.graph, region, managers, chosen))
            for region in regions(self.graph)
            if region <= tasks
        ]
        self._await((deployment.number, manager) for deployment in new for manager in deployment.managers)
        self._coming = {deployment.number: deployment for deployment in new}
        try:
            self._told_memory = self._memory.wanted
            if self._told_memory:
                self._send_memory([*self._up.values(), *new])
            self._order(new, start, restore)
            self._collect_answers()
        except BaseException:
            self._coming.clear()
            self.release(tasks, new)
            raise
        self._coming.clear()
        self._up |= {deployment.number: deployment for deployment in new}
        return new

    def adopt(
        self,
        adoption: Adopt,
        start: AttemptStart,
        repository: CheckpointRepository,
        begin: Callable[[AttemptStart, Sequence[CutTaken]], None],
    ) -> None:
        """Take over deployments that live; ``begin`` takes the start that they have then, and the cuts they kept.

        What the first of them say of barriers before the last is adopted is heard behind that.

        Raises:
            PenstockError: one of them is lost, or something has gone wrong with what it hosts.
        """
        self._up = {item.number: Deployment(item.number, item.tasks, item.places) for item in adoption.deployments}
        self._await((0, manager) for manager in adoption.managers)
        self._adopted.clear()
        order = adopt_order(start, repository)
        for manager in adoption.managers:
            self._head.send(manager, order)
        self._early = []
        try:
            self._collect_answers()
        finally:
            early, self._early = self._early, None
        for manager, each in sorted(self._adopted.items()):
            for item in each.deployments:
                if item.fault is not None:
                    raise WorkerLostError(f"{place_phrase(manager)}: {item.fault}")
        held = [self._adopted[manager] for manager in sorted(self._adopted)]
        rates = next((each.keep.rates() for each in held if each.keep is not None), None)
        if rates is not None:
            # The last order of the head before may not have come to all.
            self.set_keep(rates)
        begin(start_behind(start, held), cuts_of(held))
        for news in early:
            self._take(news)

    def set_keep(
        self, rates: KeepRates, deployed: Iterable[Deployment] | None = None, decision: KeepOrder | None = None
    ) -> None:
        """Let the task managers of deployments (None: of all that are up) shed; those that come begin with that.

        They guard rates that are of a ``decision``.

        Raises:
            BugError: a rate is of nothing that may be shed, or out of its range, or of a branch.
        """
        check_rates(self.graph, rates)
        self._shed.rates, order = rates, ms.SetKeep.of(rates, decision)
        up = self._up.values() if deployed is None else deployed
        for manager in sorted({manager for deployment in up for manager in deployment.managers}):
            self._head.send(manager, order)

    def tell_memory(self) -> None:
        """Let task managers know of the budgets of operators, if these have changed."""
        if self._told_memory is not self._memory.wanted:
            self._told_memory = self._memory.wanted
            self._send_memory(self._up.values())

    def _send_memory(self, deployed: Iterable[Deployment]) -> None:
        order = ms.SetMemory(dict(self._told_memory))
        for manager in sorted({manager for deployment in deployed for manager in deployment.managers}):
            self._head.send(manager, order)

    def committed(self, epoch: int) -> None:
        """Let task managers know that all sinks have committed an epoch."""
        self._head.send_to(self.managers, ms.EpochCommitted(epoch))

    def places(self) -> Places:
        """Return the places of all instances that are up; from any thread."""
        return {
            name: place
            for deployment in list(self._up.values())
            for name, place in deployment.places.items()
            if name not in deployment.left
        }

    def region(self, tasks: frozenset[TaskId]) -> Places:
        """Return the places of all instances that are up of a region."""
        up = [deployment for deployment in self._up.values() if deployment.tasks == tasks]
        return {name: place for item in up for name, place in item.places.items() if name not in item.left}

    def hosts_nothing(self, manager: str) -> bool:
        """Return whether all that a task manager hosts has left, and it has said its last of it."""
        up = [deployment for deployment in self._up.values() if manager in deployment.managers]
        return all(manager in item.ended and item.left.issuperset(names_at(item.places, manager)) for item in up)

    def retire(self, manager: str) -> None:
        """Let a task manager go that hosts nothing: nothing is awaited of it, and its loss strikes nobody."""
        for deployment in self._up.values():
            deployment.retired.add(manager)
        self._head.send_to(self.managers, ms.PeerGone(manager))

    def at(self, task: TaskId) -> tuple[Places, dict[str, int]]:
        """Return the places of all instances of a task's region, and of each task manager the number it knows it by."""
        up = [deployment for deployment in self._up.values() if task in deployment.tasks]
        numbers = {manager: item.number for item in reversed(up) for manager in item.managers}
        return self.region(up[0].tasks), {manager: numbers[manager] for manager in caller_last(numbers)}

    def grow(
        self, tasks: frozenset[TaskId], new: Collection[str], managers: Sequence[str], targets: Places
    ) -> Deployment:
        """Count new instances of a region as up, at their ``targets`` or others of these; return them."""
        there = {name: place for name, place in targets.items() if place in managers}
        chosen, region = {**self._choose(tasks), **there}, self.region(tasks)
        places = {name: place for name, place in deal_out(self.graph, tasks, managers, chosen).items() if name in new}
        deployment = Deployment(self._head.next_deployment(), tasks, places, joined=frozenset(region.values()))
        self._up[deployment.number] = deployment
        if self._told_memory:
            self._send_memory([deployment])
        return deployment

    def sinks(self) -> bytes:
        """Return the sinks as they are now, packed."""
        return pack_sinks(self.graph)

    def start(self, new: Iterable[Deployment]) -> None:
        """Let the instances of deployments run, at the keep rates that were set last."""
        new = tuple(new)
        if self._shed.rates is not None:
            self.set_keep(self._shed.rates, new)
        for deployment in new:
            for manager in deployment.managers:
                self._head.send(manager, ms.Start(deployment.number))

    def remove(self, tasks: frozenset[TaskId] | None) -> Sequence[Deployment]:
        """Count those of some tasks (None: all) as down, whatever is still said of them; return them."""
        down = [deployment for deployment in self._up.values() if tasks is None or deployment.tasks <= tasks]
        for deployment in down:
            del self._up[deployment.number]
            self._names.setdefault(deployment.tasks, set()).update(deployment.places)
        return down

    def no_more(self, tasks: frozenset[TaskId]) -> frozenset[str]:
        """Return the instances of some tasks that were taken down and do not come back, as the plan has fewer; once."""
        regions = [region for region in self._names if region <= tasks]
        before = {name for region in regions for name in self._names.pop(region)}
        now = {name for task in self.graph.tasks if task.id in tasks for name in self.graph.instances(task)}
        return frozenset(before - now)

    def release(self, tasks: frozenset[TaskId] | None, down: Iterable[Deployment]) -> Sequence[str]:
        """Let task managers abort the instances of some tasks (None: all); return what went wrong with that.

        One that does not let go in time is ended; of one that is lost nothing is left.
        """
        managers = {name for deployment in down for name in deployment.managers if self._head.is_there(name)}
        self._notes.clear()
        self._await((0, manager) for manager in managers)
        order = ms.TakeDown(None if tasks is None else tuple(sorted(tasks)))
        for manager in caller_last(managers):
            self._head.send(manager, order)
        observed = ObservedTime(self._clock.monotonic_ns())
        while self._awaited and observed.now_ns < TAKE_DOWN_NS:
            outcome = self._turn()
            if self._awaited:
                self._head.wait(outcome, self._clock.monotonic_ns() + TAKE_DOWN_NS - observed.now_ns)
            observed.look(self._clock.monotonic_ns())
        for _, manager in sorted(self._awaited):
            for news in self._head.pool.kill(manager, "it did not let go of its instances in time"):
                self._take(news)
        return list(self._notes)

    def finish(self, *, drained: bool, committed: bool) -> Sequence[str]:
        """Let all task managers close everything; return those that were lost before they had.

        If all that they have brought forth is ``committed``, one that is lost takes nothing along but its last figures.

        Raises:
            PenstockError: one could not, or is lost with what was not committed.
        """
        managers = self.managers
        self._is_committed = committed
        self._missing = {manager for manager in managers if not self._head.is_there(manager)}
        if self._missing and not committed:
            lost = ", ".join(map(place_phrase, sorted(self._missing)))
            raise WorkerLostError(f"{lost} is lost, and what was there is not committed")
        self._await((0, manager) for manager in managers - self._missing)
        for manager in caller_last(managers - self._missing):
            self._head.send(manager, ms.Finish(drained))
        self._collect_answers()
        return sorted(self._missing)

    def hear(self, manager: str, answer: Answer) -> None:
        """Take in what a task manager answers."""
        match answer:
            case ms.Deployed():
                self._awaited.discard((answer.deployment, manager))
            case ms.Refused():
                self._awaited.discard((answer.deployment, manager))
                self._failures.append(self._head.error(manager, answer.failure))
            case ms.TakenDown():
                self._awaited.discard((0, manager))
                self._notes += answer.notes
            case ms.Adopted():
                self._awaited.discard((0, manager))
                self._adopted[manager] = answer.holding
            case ms.Finished():
                self._awaited.discard((0, manager))
                if answer.failure is not None:
                    self._failures.append(self._head.error(manager, answer.failure))

    def lose(self, manager: str, error: BaseException) -> None:
        """A task manager is gone: it answers nothing more, and what it has built lately is gone, too."""
        answers = {answer for answer in self._awaited if answer[1] == manager}
        self._awaited -= answers
        if self._is_committed:
            self._missing.update(manager for _, manager in answers)
            return
        if answers or any(manager in deployment.managers for deployment in self._coming.values()):
            self._failures.append(error)

    def _choose(self, tasks: frozenset[TaskId]) -> Places:
        """Return the places of instances of some tasks that are not free, or that were chosen by what was measured."""
        fixed = {**at_caller(self.graph, tasks), **self._head.at_ranks(tasks)}
        job = self._head.places({**self.places(), **fixed})
        return {**fixed, **self._head.control.place(job, self._clock.monotonic_ns())}

    def _await(self, answers: Iterable[tuple[int, str]]) -> None:
        self._failures.clear()
        self._awaited = set(answers)

    def _order(self, new: Sequence[Deployment], start: AttemptStart, restore: ms.Restore | None) -> None:
        """Let task managers build their parts, the caller's process last: it then waits for the others."""
        sinks = pack_sinks(self.graph)
        late = []
        for deployment in new:
            order = ms.Deploy(
                deployment.number,
                start.attempt,
                tuple(sorted(deployment.tasks)),
                dict(deployment.places),
                {manager: self._head.address(manager) for manager in deployment.managers},
                sinks,
                restore,
                start.last_epoch,
            )
            for manager in deployment.managers:
                if manager == CALLER:
                    late.append(order)
                else:
                    self._head.send(manager, order)
        for order in late:
            self._head.send(CALLER, order)

    def _collect_answers(self) -> None:
        """Take news until all that were asked have answered; raise what the first that could not says."""
        while self._awaited:
            outcome = self._turn()
            if self._failures:
                raise self._failures.pop(0)
            if self._awaited:
                self._head.wait(outcome, None)

    def _turn(self) -> Outcome:
        """Take news, and let what is up in the caller's process run on meanwhile."""
        outcome = self._head.turn()
        for news in self._head.news():
            if self._early is not None and isinstance(news, Said) and isinstance(news.message, _OF_BARRIERS):
                self._early.append(news)
            else:
                self._take(news)
        return outcome
