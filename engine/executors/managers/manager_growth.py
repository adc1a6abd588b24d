"""A task manager's part in the growth of a deployed region: what is built beside what runs, and joined to it."""

from collections.abc import Callable
from dataclasses import replace

from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.growth import Growth
from penstock.engine.executors.hosted_instances import HostedInstances
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployed_parts import DeployedPart, DeployedParts
from penstock.engine.executors.managers.manager_moves import ManagerMoves
from penstock.engine.executors.managers.places import Crossings
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.transport.linked import LinkedChannels
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.failpoints import failpoint
from penstock.model.ids import TaskId


def crossings_of(order: ms.Deploy | ms.Grow, graph: ExecutionGraph, here: str) -> Crossings:
    """Return the channels that an order makes, as a task manager sees them."""
    tasks = frozenset(TaskId(task) for task in order.tasks)
    begun = order.standing().begun if isinstance(order, ms.Grow) else None
    return Crossings(graph, tasks, order.places, here, begun)


class ManagerGrowth:
    """The deployments that have grown others. It belongs to the thread of the loop."""

    def __init__(
        self,
        deployed: DeployedParts,
        moves: ManagerMoves,
        tell: Callable[[ms.ToHead], None],
        remove_peer: Callable[[str], None],
    ) -> None:
        """Begin without one; what is built is part of these. ``remove_peer`` closes the links to a task manager."""
        self._deployed, self._moves, self._tell, self._remove_peer = deployed, moves, tell, remove_peer
        self._grown: dict[int, tuple[HostedInstances, Growth]] = {}

    def grow(
        self,
        order: ms.Grow,
        plan: JobPlan,
        crossings: Crossings,
        links: dict[str, LinkedChannels],
        hosted: HostedInstances,
    ) -> None:
        """Build what an order says is here, and let gates listen."""
        tasks, begun = frozenset(TaskId(task) for task in order.tasks), order.last_epoch
        start = AttemptStart(order.attempt, None, begun)
        channel = crossings.channel(links)
        growth = hosted.grow(plan, start, tasks, order.standing(), channel, crossings.hosts)
        beside = tuple(item for _, item in self._deployed if item.tasks == tasks)
        for item in beside:
            item.plan = replace(item.plan, graph=plan.graph)
        part = DeployedPart(order.attempt, tasks, growth.part, plan, begun, beside=beside, first=order.first)
        part.moves.last = max(part.moves.last, order.last_move)
        self._deployed.add(order.deployment, part)
        self._moves.add(order.deployment, part.moves, order.places, hosted.members(tasks), links)
        self._grown[order.deployment] = hosted, growth
        failpoint("growth.built")

    def hear(self, order: ms.JoinGrown | ms.Dismiss | ms.PeerGone, hosted: HostedInstances | None) -> None:
        """Let producers that are here send to new instances, or no more to others; these hear of it, and end.

        One that is taken down has no producers.
        """
        if isinstance(order, ms.PeerGone):
            self._remove_peer(order.manager)
            for _, part in self._deployed:
                part.fault = part.fault or f"only the head before has what {order.manager!r} has contributed and left"
        elif isinstance(order, ms.Dismiss):
            if hosted is not None:
                hosted.build.dismiss({TaskId(task): numbers for task, numbers in order.gone.items()})
        elif order.deployment in self._grown:
            grower, growth = self._grown.pop(order.deployment)
            grower.join(growth)
            self._tell(ms.ChannelsJoined(order.deployment))

    def forget(self, deployment: int) -> None:
        """Let go of a deployment that is taken down."""
        self._grown.pop(deployment, None)
