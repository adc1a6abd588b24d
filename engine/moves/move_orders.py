"""Moves that were asked for, from any thread, and what became of them; whoever runs the attempt carries them out."""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from penstock.model.errors import OptionError, PenstockError

MOST_WAITING = 16
"""So many moves may wait for their turn."""

KEPT = 100
"""Of so many moves it is known what became of them."""

NO_TASK_MANAGERS = (
    "instances move between task managers, and this job has none: run it with executor='processes' "
    "(--executor processes)"
)


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """All key groups of an instance, by its name, are to go to instances of its task at a task manager."""

    instance: str
    manager: str


@dataclass(frozen=True, slots=True)
class MoveSummary:
    """A move that is done: how many key groups, in how many rounds, and the bytes of their state.

    ``round_p50_ms`` and ``round_p99_ms`` are quantiles of how long rounds took, from the order that switches owners to
    the word that all state goes on: an upper bound of the pause of their key groups.
    """

    key_groups: int
    rounds: int
    state_bytes: int
    took_ms: float
    round_p50_ms: float
    round_p99_ms: float


@dataclass(slots=True)
class AskedMove:
    """An order, what its result is told to, and how many of its key groups have moved, of how many (0: not known)."""

    number: int
    order: MoveOrder
    answer: "Future[MoveSummary]" = field(default_factory=Future)
    progress: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move that was asked for: ``failure`` says why it was not done, ``summary`` what it took; null: not known."""

    number: int
    instance: str
    task_manager: str
    state: Literal["waiting", "moving", "done", "failed"]
    moved_key_groups: int
    key_groups: int
    failure: str | None
    summary: MoveSummary | None


class MoveOrders:
    """Orders on their way, the oldest first. Every method may be called from any thread."""

    def __init__(self) -> None:
        """Begin with none, and refuse them all until `open`."""
        self._lock = Lock()
        self._waiting: deque[AskedMove] = deque()
        self._all: deque[AskedMove] = deque(maxlen=KEPT)
        self._asked = 0
        self._closed: PenstockError | None = OptionError(NO_TASK_MANAGERS)

    def open(self) -> None:
        """Let orders come: there is somebody who carries them out."""
        with self._lock:
            self._closed = None

    def ask(self, order: MoveOrder) -> AskedMove:
        """Ask for a move; its answer is the summary, once it is done.

        Raises:
            OptionError: too many wait, or nothing moves in this job.
            PenstockError: the job is over.
        """
        with self._lock:
            if self._closed is not None:
                raise self._closed
            if len(self._waiting) >= MOST_WAITING:
                raise OptionError(f"{MOST_WAITING} moves wait already: ask again when one is done")
            self._asked += 1
            asked = AskedMove(self._asked, order)
            self._waiting.append(asked)
            self._all.append(asked)
            return asked

    def take(self) -> AskedMove | None:
        """Take the oldest, None: there is none."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def records(self) -> tuple[MoveRecord, ...]:
        """Return what became of the last `KEPT` moves, the oldest first."""
        with self._lock:
            waiting = {asked.number for asked in self._waiting}
            return tuple(_record(asked, is_waiting=asked.number in waiting) for asked in self._all)

    def close(self, error: PenstockError) -> None:
        """Take in that nothing moves any more: ``error`` is for all that are not done, and for those that come."""
        with self._lock:
            self._closed = error
            self._waiting.clear()
            left = [asked for asked in self._all if not asked.answer.done()]
        for asked in left:
            asked.answer.set_exception(error)


def _record(asked: AskedMove, *, is_waiting: bool) -> MoveRecord:
    order, (moved, of) = asked.order, asked.progress
    state: Literal["waiting", "moving", "done", "failed"] = "waiting" if is_waiting else "moving"
    failure, summary = None, None
    if asked.answer.done():
        error = asked.answer.exception()
        state, failure = ("done", None) if error is None else ("failed", str(error))
        summary = asked.answer.result() if error is None else None
    return MoveRecord(asked.number, order.instance, order.manager, state, moved, of, failure, summary)
