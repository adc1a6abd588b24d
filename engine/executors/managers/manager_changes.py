"""Task managers that come and go while an attempt runs: as somebody asks for, or as one was told to end by itself."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from penstock.engine.control.machine_load import MachineReading
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.departures import Checkpoint, Departures, Release, Restart
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.places import place_phrase
from penstock.engine.executors.managers.pool import ManagerPool
from penstock.engine.jobs.attempt import AttemptContext
from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.model.errors import OptionError, WorkerLeftError


class ManagerChanges:
    """Carries out orders on the pool of a job, and lets those go that are to, behind a checkpoint."""

    def __init__(self, head: Head, context: AttemptContext, vacate: Callable[[Sequence[str]], str | None]) -> None:
        """Take orders from now on, if the job takes checkpoints: without, what leaves could not go on elsewhere.

        ``vacate`` lets task managers go while the job runs; see `ManagedGrowth.vacate`.
        """
        self._vacate = vacate
        # Of those drained that go behind a checkpoint why.
        self._refused: dict[str, str] = {}
        self._pool: ManagerPool[Any] = head.pool
        self._checkpoints, self._orders = context.checkpoints, context.managers
        self._departures = Departures()
        self._send, self._cores = head.send, context.cores
        self._told_cores: dict[str, float | None] = {}
        if context.checkpoints is not None:
            self._orders.open(head.wake)
            over = OptionError(f"job {head.plan.name!r} is over: its task managers have gone")
            context.resources.callback(self._orders.close, over)

    def turn(self, hosting: Collection[str], now_ns: int) -> Iterator[str]:
        """Do what was asked for; yield the task managers whose work is to begin elsewhere now.

        ``hosting`` are all that host an instance. Without checkpoints nothing could go on from anywhere: those that
        host something stay until the pool lets them go.
        """
        while (order := self._orders.take()) is not None:
            self._pool.resize(order.wanted, order.drained)
        leaving = self._pool.leaving()
        live, warm = tuple(self._pool.live()), tuple(self._pool.warm())
        self._orders.tell(TaskManagers(self._pool.wanted, live, tuple(leaving), warm))
        self._tell_cores((*live, *leaving), hosting)
        if leaving:
            yield from self._see_off(leaving, hosting, now_ns)

    def hear(self, manager: str, machine: MachineReading) -> None:
        """Take in what a task manager has used of its cores."""
        self._cores.hear(manager, machine.cpu_ns, machine.throttled_ns, machine.time_ns)

    def _tell_cores(self, known: Collection[str], hosting: Collection[str]) -> None:
        """Let task managers know of the CPU that they may use, where that has changed, and those that have come.

        One that hosts nothing has no bound.
        """
        shares = self._cores.shares(hosting)
        shared = {manager: shares.get(manager) for manager in known}
        for manager, share in shared.items():
            if self._told_cores.get(manager) != share:
                self._send(manager, ms.SetCores(share))
        self._told_cores = shared

    def departure(self, manager: str) -> WorkerLeftError:
        """Return why one goes whose work is to begin elsewhere."""
        drained = self._orders.is_drained(manager)
        how = "was drained, as somebody asked for" if drained else "leaves, as it was told to end"
        why = f"; it begins anew, as {self._refused[manager]}" if manager in self._refused else ""
        return WorkerLeftError(f"{place_phrase(manager)} {how}{why}")

    def _see_off(self, leaving: Mapping[str, int], hosting: Collection[str], now_ns: int) -> Iterator[str]:
        checkpoints = self._checkpoints
        begun, committed = (0, 0) if checkpoints is None else (checkpoints.begun, checkpoints.committed_epoch)
        live = self._vacated(leaving, hosting)
        behind = {name: order_ns for name, order_ns in leaving.items() if name not in live}
        for step in self._departures.look(behind, hosting, begun, committed, now_ns):
            match step:
                case Release():
                    self._pool.release(step.manager)
                case Checkpoint() if checkpoints is not None:
                    self._pool.keep_for_checkpoint(step.manager)
                    checkpoints.request()
                case Restart():
                    yield step.manager

    def _vacated(self, leaving: Collection[str], hosting: Collection[str]) -> Sequence[str]:
        """Return those drained whose work goes elsewhere while the job runs; that is begun with."""
        drained = [name for name in leaving if name in hosting and self._orders.is_drained(name)]
        drained = [name for name in drained if name not in self._refused]
        reason = self._vacate(drained) if drained else None
        if reason is not None:
            self._refused |= dict.fromkeys(drained, reason)
            return ()
        for name in drained:
            self._pool.keep_for_checkpoint(name, on_its_way=True)
        return drained
