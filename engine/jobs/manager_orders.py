"""Task managers that are to come or go while a job runs: orders, from any thread, and which ones there are."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from penstock.model.errors import OptionError, PenstockError

NO_TASK_MANAGERS = (
    "the job has no task managers: run it with executor='processes' or 'ray' (--executor processes), and with "
    "checkpoint_dir=..."
)


@dataclass(frozen=True, slots=True)
class TaskManagers:
    """The task managers of a job: how many are wanted, those that instances can be given to, those that leave.

    Those that are ``warm`` have loaded compiled kernels: instances begin there at once.
    """

    wanted: int
    live: tuple[str, ...]
    leaving: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagerOrder:
    """The number that is wanted from now on, and which of those that are there leave for good."""

    wanted: int
    drained: tuple[str, ...] = ()


class ManagerOrders:
    """Orders on their way, the oldest first. Every method may be called from any thread."""

    def __init__(self) -> None:
        """Begin with none, and refuse them all until `open`."""
        self._lock = Lock()
        self._waiting: deque[ManagerOrder] = deque()
        self._known = TaskManagers(0, ())
        self._drained: set[str] = set()
        self._closed: PenstockError | None = OptionError(NO_TASK_MANAGERS)
        self._wake: Callable[[], None] = _nobody

    def open(self, wake: Callable[[], None]) -> None:
        """Let orders come: there is somebody who carries them out, and whom ``wake`` lets look at once."""
        with self._lock:
            self._closed, self._wake = None, wake

    def resize(self, count: int) -> TaskManagers:
        """Want so many from now on: others are started, or those that came last let go. Return those there are.

        Raises:
            OptionError: less than one, or the job has none.
        """
        if count < 1:
            raise OptionError(f"{count} task managers cannot run a job: 1 is the least.")
        known = self._checked()
        drained = known.live[count:]
        self._ask(ManagerOrder(count, drained))
        return known

    def drain(self, name: str) -> TaskManagers:
        """Let one go for good, once what it hosts runs elsewhere. Return those there are.

        Raises:
            OptionError: there is no such one, or no other.
        """
        known = self._checked()
        if name not in known.live:
            raise OptionError(f"there is no task manager {name!r}: there are {', '.join(known.live) or 'none'}.")
        if len(known.live) == 1:
            raise OptionError(f"{name!r} is the only task manager: add another first.")
        self._ask(ManagerOrder(max(1, known.wanted - 1), (name,)))
        return known

    def take(self) -> ManagerOrder | None:
        """Take the oldest, None: there is none."""
        with self._lock:
            order = self._waiting.popleft() if self._waiting else None
            self._drained.update(() if order is None else order.drained)
            return order

    def is_drained(self, name: str) -> bool:
        """Return whether a task manager leaves, or has left, because somebody asked for it."""
        return name in self._drained

    def tell(self, known: TaskManagers) -> None:
        """Say which ones there are."""
        self._known = known

    def known(self) -> TaskManagers:
        """Return those that there are.

        Raises:
            OptionError: the job has none.
        """
        return self._checked()

    def close(self, error: PenstockError) -> None:
        """Take in that nobody carries orders out any more."""
        with self._lock:
            self._closed = error
            self._waiting.clear()

    def _ask(self, order: ManagerOrder) -> None:
        with self._lock:
            self._waiting.append(order)
            wake = self._wake
        wake()

    def _checked(self) -> TaskManagers:
        if self._closed is not None:
            raise self._closed
        return self._known


def _nobody() -> None:
    """Wake nobody."""
