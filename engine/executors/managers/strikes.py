"""What strikes an attempt on task managers, in the order in which it is known: errors, lost links, lost processes."""

from collections import deque
from collections.abc import Iterator

from penstock.engine.core.contract import Clock
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.places import place_phrase, tasks_at, tasks_of
from penstock.engine.jobs.attempt import Struck
from penstock.model.errors import WorkerLostError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.ids import TaskId

LINK_NS = 500_000_000
"""How long it is awaited, when a link is lost, whether one of its ends is: that says more."""


class Strikes:
    """Those of one attempt that nobody has dealt with."""

    def __init__(self, graph: ExecutionGraph, deployments: Deployments, clock: Clock) -> None:
        """Begin without one."""
        self.graph, self._deployments, self._clock = graph, deployments, clock
        self._waiting: deque[Struck] = deque()

    def at(self, manager: str, error: BaseException) -> None:
        """Let an error strike whatever a task manager hosts."""
        for deployment in self._deployments:
            if manager in deployment.managers:
                deployment.lost_link = None
                # Where nothing but its channels is, it is all of the region that they join.
                tasks = tasks_at(self.graph, deployment.places, manager) or deployment.tasks
                self._waiting.append(Struck(error, tasks))

    def fail(self, message: ms.Failed, error: BaseException) -> None:
        """Let an instance, or all of a deployment, have failed, if it is still up.

        Raises:
            SystemExit, KeyboardInterrupt: the error is one.
        """
        if self._deployments.get(message.deployment) is None:
            return
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise error
        tasks = None if message.instance is None else tasks_of(self.graph, message.instance)
        self._waiting.append(Struck(error, tasks))

    def lose_link(self, manager: str, message: ms.LinkLost) -> None:
        """Let a link strike in `LINK_NS`, if nothing says more by then."""
        deployment = self._deployments.get(message.deployment)
        if deployment is not None and not deployment.retired.isdisjoint((manager, message.peer)):
            return
        if deployment is not None and deployment.lost_link is None:
            ends = f"{place_phrase(manager)} and {place_phrase(message.peer)}"
            reason = f"the link between {ends} is lost: {message.reason}"
            deployment.lost_link = self._clock.monotonic_ns() + LINK_NS, reason

    def let_links_strike(self) -> None:
        """Let those links strike whose time has come."""
        now_ns = self._clock.monotonic_ns()
        for deployment in self._deployments:
            if deployment.lost_link is not None and deployment.lost_link[0] <= now_ns:
                reason, deployment.lost_link = deployment.lost_link[1], None
                self._waiting.append(Struck(WorkerLostError(reason), deployment.tasks))

    def due_ns(self) -> Iterator[int]:
        """Return when links are to strike, by the monotonic clock."""
        return (deployment.lost_link[0] for deployment in self._deployments if deployment.lost_link is not None)

    def next(self) -> Struck | None:
        """Take the one that became known first, None: there is none."""
        return self._waiting.popleft() if self._waiting else None

    def drop(self, tasks: frozenset[TaskId]) -> None:
        """Forget what has struck these tasks alone, or everything: they are taken down."""
        self._waiting = deque(item for item in self._waiting if item.tasks is not None and not item.tasks <= tasks)
