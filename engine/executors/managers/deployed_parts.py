"""The parts of deployments that one task manager has built, and what a head must know that follows a lost one."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.control.local_guard import GUARD_NS, LocalGuard
from penstock.engine.control.local_sic import LocalSic
from penstock.engine.dataflow.build import Build
from penstock.engine.dataflow.checkpoint_port import CutTaken
from penstock.engine.executors.managers.adoption_messages import (
    EpochCommitted,
    HeldDeployment,
    Holding,
    KeptCut,
    SetKeep,
)
from penstock.engine.executors.managers.held_moves import HeldMoves
from penstock.engine.executors.managers.host_probe import Probe
from penstock.engine.executors.managers.move_messages import SetRoutes
from penstock.engine.executors.managers.plan_messages import SetCores, SetMemory
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.plan.free_edges import Routes
from penstock.model.ids import TaskId
from penstock.model.job_graph import SinkSpec
from penstock.shedding.kept_log import Stretch


@dataclass(slots=True)
class DeployedPart:
    """What was built of one region, from the checkpoint ``begun_from``; ``plan`` has the sinks that it writes to.

    It ``stands still`` as something of it failed; ``fault`` is why another head must not go on with it. ``beside`` are
    parts of the same region that were there when it came: these send by its links. ``first`` is the number of the
    region's first deployment, 0: it is that.
    """

    attempt: int
    tasks: frozenset[TaskId]
    part: Build
    plan: JobPlan
    begun_from: int
    runs: bool = False
    stands_still: bool = False
    ended: bool = False
    fault: str | None = None
    beside: tuple["DeployedPart", ...] = ()
    first: int = 0
    moves: HeldMoves = field(init=False)

    def __post_init__(self) -> None:
        """Nothing has moved yet of a region that is new."""
        self.moves = self.beside[0].moves if self.beside else HeldMoves(self.part.graph, self.part.owners)

    @property
    def is_done(self) -> bool:
        """Whether nothing will be sent by its links."""
        members = (self, *self.beside)
        return all(instance.done for member in members for instance in member.part.instances)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its instances."""
        return tuple(instance.name for instance in self.part.instances)

    def held(self, number: int) -> HeldDeployment:
        """Return it as a head is told, under its number."""
        fault = self.fault or self.moves.fault if self.runs else "its instances were built and do not run"
        tasks, moves = tuple(sorted(self.tasks)), self.moves
        moved = moves.last, moves.said()
        return HeldDeployment(number, self.attempt, tasks, self.names, self.begun_from, fault, *moved, self.first)


class DeployedParts:
    """Parts by the numbers of their deployments, and the cuts of their instances whose output may not be committed."""

    def __init__(self, probe: Probe | None = None) -> None:
        """Begin with none; without a probe nobody asks for the CPU of what is done here."""
        self._parts: dict[int, DeployedPart] = {}
        self._passed: dict[str, int] = {}
        self._renumbered: dict[str, int] = {}
        self._cuts: list[KeptCut] = []
        self._keep: SetKeep | None = None
        self._routes: Routes = {}
        self.budgets: Mapping[str, int | None] = {}
        """The memory of operators that differs from that of the plan, by name."""
        self._guard = LocalGuard()
        self.sic = LocalSic((lambda: 0) if probe is None else probe.thread_cpu_ns)
        """What sheds by SIC here."""
        self.guard_ns: int | None = None
        """When `look` is due; None: nobody has decided yet."""

    def __iter__(self) -> Iterator[tuple[int, DeployedPart]]:
        """Yield numbers and parts; these may go meanwhile."""
        return iter(list(self._parts.items()))

    def get(self, number: int) -> DeployedPart | None:
        """Return the part of a deployment, None: it is not here."""
        return self._parts.get(number)

    def add(self, number: int, part: DeployedPart) -> None:
        """Take a part in; it sheds as the others do."""
        self._parts[number] = part
        if self._keep is not None:
            part.part.set_keep(self._guard.rates)
        part.part.set_routes(self._routes)
        self.sic.begin(part.part)

    def hear(self, order: EpochCommitted | SetKeep | SetMemory | SetRoutes | SetCores) -> None:
        """Let go of what is committed, shed, have other memory, or send by other shares from the next batch on.

        Cores are those of the process, and who turns its loop heeds them.
        """
        if isinstance(order, SetCores):
            return
        if isinstance(order, SetMemory):
            self.budgets = order.budgets
            for part in self._parts.values():
                part.part.set_memory(order.budgets)
            return
        if isinstance(order, EpochCommitted):
            self.committed(order.epoch)
            return
        if isinstance(order, SetRoutes):
            self._routes = order.shares
            for part in self._parts.values():
                part.part.set_routes(order.shares)
            return
        self._keep, decision = order, order.order()
        if decision is None:
            self._guard.set_rates(order.rates())
        else:
            self._guard.decided(decision)
            if decision.sic is not None:
                self.sic.hear(decision.sic, [part.part for part in self._parts.values()])
            self.guard_ns = self.guard_ns or 0
        self._shed()

    def look(self, now_ns: int) -> None:
        """Let the guard look at what runs here, if it is time."""
        if self.sic.due_ns is not None:
            self.sic.look([part.part for part in self._parts.values()], now_ns)
        if self.guard_ns is None or now_ns < self.guard_ns:
            return
        self.guard_ns, before = now_ns + GUARD_NS, self._guard.rates
        self._guard.look([part.part for part in self._parts.values()], now_ns)
        if self._guard.rates != before:
            self._shed()

    def keep_now(self) -> SetKeep | None:
        """Return the rates in force here, None: none were set."""
        return None if self._keep is None else SetKeep.of(self._guard.rates)

    def _shed(self) -> None:
        for part in self._parts.values():
            part.part.set_keep(self._guard.rates)

    def take_stretches(self) -> tuple[Stretch, ...]:
        """Return what sources have read since the last call, with its keep rates."""
        return tuple(stretch for part in self._parts.values() for stretch in part.part.take_stretches())

    def remove(self, number: int) -> DeployedPart:
        """Leave a part out, with its cuts: whoever takes it down settles its output."""
        part = self._parts.pop(number)
        self._cuts = [cut for cut in self._cuts if cut.instance not in part.names]
        for name in part.names:
            self._passed.pop(name, None)
            self._renumbered.pop(name, None)
        return part

    def attempt_of(self, instance: str, built_in: int) -> int:
        """Return the number of an instance's attempt; one that was adopted may have been ``built_in`` another."""
        return self._renumbered.get(instance, built_in)

    def renumber(self, attempt: int) -> None:
        """Let all be of this attempt."""
        for part in self._parts.values():
            part.attempt = attempt
            self._renumbered |= dict.fromkeys(part.names, attempt)

    def keep(self, cut: CutTaken) -> None:
        """Keep what an instance has contributed to a checkpoint, until that is committed."""
        self._cuts.append(KeptCut(cut.instance, cut.epoch, cut.ended, dict(cut.receipts), cut.stretches))
        if not cut.ended:
            self._passed[cut.instance] = max(self._passed.get(cut.instance, 0), cut.epoch)

    def committed(self, epoch: int) -> None:
        """Let go of receipts that all sinks have committed; who has ended stays so."""
        ended = [KeptCut(cut.instance, cut.epoch, True, {}) for cut in self._cuts if cut.ended and cut.epoch <= epoch]
        self._cuts = ended + [cut for cut in self._cuts if cut.epoch > epoch]

    def note_end(self, sources: Collection[str]) -> None:
        """Note which parts come to their end by an order of the head: another one may not know of it."""
        for part in self._parts.values():
            if not set(part.names).isdisjoint(sources):
                part.fault = "its sources were told to end"

    def holding(self, run: int, digest: str, address: str, begun: int) -> Holding:
        """Return all that is here; the arguments are those of `Holding`."""
        parts = tuple(part.held(number) for number, part in sorted(self._parts.items()) if part.names)
        passed, cuts = dict(self._passed), tuple(self._cuts)
        return Holding(run, digest, address, parts, begun, passed, cuts, self._claims(), self._keep)

    def _claims(self) -> dict[str, Any]:
        claims: dict[str, Any] = {}
        for part in self._parts.values():
            names = {node.name for instance in part.part.instances for node in instance.nodes}
            for node in part.plan.graph.graph.operators.values():
                if node.name in names and isinstance(node.spec, SinkSpec):
                    claims[node.name] = node.spec.sink.claim()
        return claims
