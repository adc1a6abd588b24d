"""Moves that were asked for, from any thread, and what became of them; whoever runs the attempt carries them out."""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
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
    """All key groups of an instance, by its name, or all partitions that it reads, are to go to a task manager.

    There instances of its task take them over.
    """

    instance: str
    manager: str


@dataclass(frozen=True, slots=True)
class GroupsOrder:
    """Key groups of a task, by its name, are to go to certain instances of it: of each its number, and who takes it."""

    task: str
    groups: tuple[tuple[int, int], ...]

    @property
    def instance(self) -> str:
        """What moves, for people."""
        return f"{len(self.groups)} key groups of {self.task!r}"

    @property
    def manager(self) -> str:
        """Where that goes, for people."""
        return "its instances"


@dataclass(frozen=True, slots=True)
class MoveSummary:
    """A move that is done: how many key groups, in how many rounds, and the bytes of their state, in ``buckets``.

    ``round_p50_ms`` and ``round_p99_ms`` are quantiles of how long rounds took, from the order that switches owners to
    the word that all state goes on. The pairs are medians and 99th percentiles: ``pause_ms`` of how long rows of a key
    group had to wait at most, from the first marker at its new owner until that went on; ``marker_ms`` of how long the
    marker took, from the order to the word that a giver has had it on every channel. ``checkpoints`` went in between
    rounds. ``planned_bytes`` and ``planned_ms`` were expected, the latter by the pace of the move before (null: there
    was none). ``source_rows_s`` are rows a second that the job read in the minute before and during the move (null: too
    short to tell). Of a source it is ``partitions`` that have moved, behind a checkpoint, and nothing else.
    """

    key_groups: int
    rounds: int
    state_bytes: int
    took_ms: float
    round_p50_ms: float
    round_p99_ms: float
    buckets: int = 0
    pause_ms: tuple[float, float] = (0.0, 0.0)
    marker_ms: tuple[float, float] = (0.0, 0.0)
    checkpoints: int = 0
    planned_bytes: int = 0
    planned_ms: float | None = None
    source_rows_s: tuple[float | None, float | None] = (None, None)
    partitions: int = 0

    def sentence(self) -> str:
        """Return it in words."""
        if self.partitions:
            return f"{self.partitions} partition{'s' if self.partitions > 1 else ''} in {self.took_ms:,.0f} ms"
        (pause, slow), (before, during) = self.pause_ms, self.source_rows_s
        rates = ""
        if before is not None and during is not None:
            rates = f"; {during:,.0f} rows/s read meanwhile, {before:,.0f} before"
        planned = "" if self.planned_ms is None else f" ({self.planned_ms:,.0f} expected)"
        return (
            f"{self.key_groups} key groups, {self.buckets} buckets, {self.state_bytes:,} bytes ({self.planned_bytes:,} "
            f"expected) in {self.took_ms:,.0f} ms{planned}; paused {pause:.1f} ms (p99 {slow:.1f} ms); the marker took "
            f"{self.marker_ms[0]:.1f} ms (p99 {self.marker_ms[1]:.1f} ms); "
            f"{self.checkpoints} checkpoints let through{rates}"
        )


@dataclass(frozen=True, slots=True)
class MoveTotals:
    """All moves of a job that have ended: those done and failed, and of those done key groups, bytes and time.

    ``pause_p99_ms`` is that of the last one that was done; null: none was.
    """

    done: int = 0
    failed: int = 0
    key_groups: int = 0
    state_bytes: int = 0
    took_ms: float = 0.0
    pause_p99_ms: float | None = None


@dataclass(slots=True)
class AskedMove:
    """An order, what its result is told to, and how many of its key groups have moved, of how many (0: not known)."""

    number: int
    order: MoveOrder | GroupsOrder
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
        self._totals: MoveTotals | None = None
        self._closed: PenstockError | None = OptionError(NO_TASK_MANAGERS)

    def open(self) -> None:
        """Let orders come: there is somebody who carries them out."""
        with self._lock:
            self._closed = None

    def ask(self, order: MoveOrder | GroupsOrder) -> AskedMove:
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
            asked.answer.add_done_callback(self._count)
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

    def totals(self) -> MoveTotals | None:
        """Return what all moves took that have ended, None: none has."""
        return self._totals

    def close(self, error: PenstockError) -> None:
        """Take in that nothing moves any more: ``error`` is for all that are not done, and for those that come."""
        with self._lock:
            self._closed = error
            self._waiting.clear()
            left = [asked for asked in self._all if not asked.answer.done()]
        for asked in left:
            asked.answer.set_exception(error)

    def _count(self, answer: "Future[MoveSummary]") -> None:
        totals = self._totals or MoveTotals()
        if answer.exception() is not None:
            self._totals = replace(totals, failed=totals.failed + 1)
            return
        summary = answer.result()
        self._totals = MoveTotals(
            totals.done + 1,
            totals.failed,
            totals.key_groups + summary.key_groups,
            totals.state_bytes + summary.state_bytes,
            totals.took_ms + summary.took_ms,
            summary.pause_ms[1],
        )


def _record(asked: AskedMove, *, is_waiting: bool) -> MoveRecord:
    order, (moved, of) = asked.order, asked.progress
    state: Literal["waiting", "moving", "done", "failed"] = "waiting" if is_waiting else "moving"
    failure, summary = None, None
    if asked.answer.done():
        error = asked.answer.exception()
        state, failure = ("done", None) if error is None else ("failed", str(error))
        summary = asked.answer.result() if error is None else None
    return MoveRecord(asked.number, order.instance, order.manager, state, moved, of, failure, summary)
