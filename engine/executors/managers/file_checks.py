"""The head's question to task managers that may see other files: whether those of the job's local paths are the same.

Those in the same machine and mount namespace need not be asked.
"""

from collections.abc import Callable, Sequence

from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.head import Head
from penstock.engine.executors.managers.observed_time import ObservedTime
from penstock.engine.executors.managers.pool_news import News
from penstock.engine.executors.managers.shared_files import refusal, what_to_look_at
from penstock.engine.executors.managers.visible_files import visible_files
from penstock.engine.jobs.attempt import AttemptContext
from penstock.model.errors import WorkerLostError
from penstock.model.execution_graph import ExecutionGraph

LOOK_NS = 60_000_000_000
"""How long a task manager may look; a share that hangs may hold it for ever."""


class FileChecks:
    """What the task managers of one attempt see of the job's local files."""

    def __init__(
        self,
        graph: ExecutionGraph,
        head: Head,
        context: AttemptContext,
        take: Callable[[News], None],
    ) -> None:
        """Ask nobody yet."""
        self.graph, self._head, self._take = graph, head, take
        self._clock, self._checkpoints = context.clock, context.checkpoints
        self._order: ms.LookAtFiles | None = None
        self._awaited: set[str] = set()
        self._passed: set[str] = set()

    def check(self, managers: Sequence[str]) -> Sequence[str]:
        """Return those that see what the head sees: all but those that are lost meanwhile.

        ``take``, as it was handed in, takes all news, and passes answers on to `hear`.

        Raises:
            UserError: one sees other files.
            WorkerLostError: none is left.
        """
        here = visible_files()
        self._awaited = {name for name in managers if name not in self._passed and self._head.pool.files(name) != here}
        if not self._awaited:
            return managers
        self._order = self._look()
        for name in sorted(self._awaited):
            self._head.send(name, self._order)
        observed = ObservedTime(self._clock.monotonic_ns())
        while self._turn() and observed.now_ns < LOOK_NS:
            self._head.wait(self._head.turn(), self._clock.monotonic_ns() + LOOK_NS - observed.now_ns)
            observed.look(self._clock.monotonic_ns())
        for name in sorted(self._awaited):
            for news in self._head.pool.kill(name, "it did not say in time which files it sees"):
                self._take(news)
        left = [name for name in managers if self._head.is_there(name)]
        if not left:
            raise WorkerLostError("all task managers were lost before anything was deployed")
        return left

    def hear(self, manager: str, answer: ms.FilesSeen) -> None:
        """Take in what one sees.

        Raises:
            UserError: it is something else than the head sees.
        """
        if manager not in self._awaited or self._order is None:
            return
        error = refusal(manager, self._order, answer, self._look())
        if error is not None:
            raise error
        self._awaited.discard(manager)
        self._passed.add(manager)

    def lose(self, manager: str) -> None:
        """One is gone, and answers nothing."""
        self._awaited.discard(manager)

    def _look(self) -> ms.LookAtFiles:
        kept = None if self._checkpoints is None else self._checkpoints.repository.files
        return what_to_look_at(self.graph, kept)

    def _turn(self) -> bool:
        """Take news; return whether an answer is still awaited."""
        for news in self._head.news():
            self._take(news)
        return bool(self._awaited)
