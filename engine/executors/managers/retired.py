"""The task managers that have left one attempt while it runs: what checkpoints and figures need of them is kept."""

from collections.abc import Callable

from penstock.engine.executors.managers.awaited_uploads import AwaitedUploads
from penstock.engine.executors.managers.deployments import Deployments
from penstock.model.ids import TaskId


class Retired:
    """Those of one attempt. It belongs to the thread that runs it."""

    def __init__(self, deployments: Deployments, uploads: AwaitedUploads, forget: Callable[[], None]) -> None:
        """Begin with none; ``forget`` lets what was said for the judgement on the job be said anew."""
        self._deployments, self._uploads, self._forget = deployments, uploads, forget
        self._tasks: frozenset[TaskId] = frozenset()

    def add(self, manager: str) -> None:
        """Ask nothing more of a task manager of which a checkpoint has all that it will ever contribute."""
        for deployment in self._deployments:
            if manager in deployment.managers:
                self._tasks |= deployment.tasks
        self._uploads.retire(manager)
        self._deployments.retire(manager)
        self._forget()

    def gone(self, tasks: frozenset[TaskId]) -> bool:
        """Tasks are taken down; return whether others must begin anew, too, as what is kept is of both."""
        if self._tasks <= tasks:
            self._uploads.forget_retired()
            self._tasks = frozenset()
        return bool(self._tasks)
