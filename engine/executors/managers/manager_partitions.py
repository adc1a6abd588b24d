"""A task manager's part in handovers of partitions between the instances of a source."""

from collections.abc import Callable

from penstock.engine.dataflow.instance import Instance
from penstock.engine.dataflow.partition_handover import GivenPartition
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployed_parts import DeployedPart, DeployedParts
from penstock.model.errors import BugError
from penstock.model.failpoints import failpoint


class ManagerPartitions:
    """One handover at a time. It belongs to the thread of the loop."""

    def __init__(self, deployed: DeployedParts, tell: Callable[[ms.ToHead], None]) -> None:
        """Begin without one; the sources are in what is ``deployed``."""
        self._deployed, self._tell = deployed, tell
        self._handover = 0
        self._held: dict[str, tuple[DeployedPart, Instance, SourceHead]] = {}
        self._awaits_stop = False

    def hear(self, order: ms.ToSources, fail: Callable[[Exception, str], None]) -> None:
        """Do what the head says; ``fail`` takes the instance that cannot, and why.

        Of a handover whose instances were taken down nothing is known.
        """
        if isinstance(order, ms.HoldPartitions):
            self._hold(order)
            return
        self._look_what_is_up()
        if order.handover != self._handover:
            return
        match order:
            case ms.StopPartitions():
                self._stop(order)
            case ms.GivePartitions():
                given: dict[str, GivenPartition] = {}
                for _, instance, head in self._held.values():
                    given |= head.give_partitions()
                    instance.on_change()
                failpoint("partitions.given")
                self._tell(ms.PartitionsGiven(order.handover, given))
            case ms.TakePartitions():
                self._take(order, fail)
            case _:
                raise BugError(f"{order} is nothing that sources are told")

    def look(self) -> None:
        """Say that what is to go has stopped, once it has."""
        if self._awaits_stop and all(head.has_stopped() for _, _, head in self._held.values()):
            self._awaits_stop = False
            self._tell(ms.PartitionsStopped(self._handover))

    def _hold(self, order: ms.HoldPartitions) -> None:
        self._handover, self._awaits_stop = order.handover, False
        self._held = {
            instance.name: (part, instance, instance.head)
            for _, part in self._deployed
            for instance in part.part.instances
            if instance.head is not None and instance.name in order.instances
        }
        for part, _, _ in self._held.values():
            part.moves.hands_over = True
        sources = tuple(head.hold_partitions(name) for name, (_, _, head) in self._held.items())
        self._tell(ms.PartitionsHeld(order.handover, sources))

    def _stop(self, order: ms.StopPartitions) -> None:
        for name, (_, instance, head) in self._held.items():
            least_us = order.least_us if name in order.takers else None
            head.handover.stop(order.leaving.get(name, ()), order.above_us, least_us)
            instance.on_change()
        self._awaits_stop = True
        self.look()

    def _take(self, order: ms.TakePartitions, fail: Callable[[Exception, str], None]) -> None:
        failpoint("partitions.taken")
        for name, (part, instance, head) in self._held.items():
            try:
                head.go_on(order.given.get(name, {}), order.places.get(name), len(order.places), order.known)
            except Exception as error:
                fail(error, name)
                return
            part.moves.hands_over = False
            instance.on_change()
        self._held.clear()
        self._tell(ms.PartitionsTaken(order.handover))

    def _look_what_is_up(self) -> None:
        up = {id(part) for _, part in self._deployed}
        if not all(id(part) in up for part, _, _ in self._held.values()):
            self._held.clear()
            self._handover, self._awaits_stop = 0, False
