"""Moves that were asked for, from any thread, and what became of them; whoever runs the attempt carries them out."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal

from penstock.engine.moves.held_state import HeldState
from penstock.model.errors import OptionError, PenstockError

MOST_WAITING = 16
"""So many moves may wait for their turn."""

KEPT = 100
"""Of so many moves it is known what became of them."""

NO_TASK_MANAGERS = (
    "instances move between task managers, and this job has none: run it with executor='processes' "
    "(--executor processes)"
)


MoveCause = Literal["move", "groups", "rescale", "scale", "drain"]
"""Why key groups move: an instance's were to, a scaler hands some out, instances come or go, a task manager does."""


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """All key groups of an instance, by its name, or all partitions that it reads, are to go to a task manager.

    There instances of its task take them over.
    """

    instance: str
    manager: str

    @property
    def cause(self) -> MoveCause:
        """Why it moves."""
        return "move"


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

    @property
    def cause(self) -> MoveCause:
        """Why they move."""
        return "groups"


@dataclass(frozen=True, slots=True)
class ChangeOrder:
    """Key groups of a task, by its name, go to other instances of it, as a change of the job wants it."""

    task: str
    cause: MoveCause

    @property
    def instance(self) -> str:
        """What moves, for people."""
        return f"key groups of {self.task!r}"

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

    ``pause_p99_ms`` and ``marker_p99_ms`` are those of the last one that moved key groups; null: none did.
    """

    done: int = 0
    failed: int = 0
    key_groups: int = 0
    state_bytes: int = 0
    took_ms: float = 0.0
    pause_p99_ms: float | None = None
    marker_p99_ms: float | None = None


@dataclass(slots=True)
class AskedMove:
    """An order, what its result is told to, and how many of its key groups have moved, of how many (0: not known).

    It waits until it has ``begun``.
    """

    number: int
    order: MoveOrder | GroupsOrder | ChangeOrder
    answer: "Future[MoveSummary]" = field(default_factory=Future)
    progress: tuple[int, int] = (0, 0)
    begun: bool = False


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move that was asked for, or that a change of the job, its ``cause``, is made of.

    ``failure`` says why it was not done, ``summary`` what it took; null: not known.
    """

    number: int
    instance: str
    task_manager: str
    state: Literal["waiting", "moving", "done", "failed"]
    moved_key_groups: int
    key_groups: int
    failure: str | None
    summary: MoveSummary | None
    cause: MoveCause = "move"


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
        self.held: Callable[[], HeldState | None] = _nothing
        """Returns what instances have now, None: what they have does not move. From any thread."""

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
            asked = self._noted(order)
            self._waiting.append(asked)
            return asked

    def note(self, order: ChangeOrder, key_groups: int) -> AskedMove:
        """Note a move that a change of the job is made of: so many key groups. Whoever changes it carries it out."""
        with self._lock:
            asked = self._noted(order)
            asked.progress = 0, key_groups
            return asked

    def take(self) -> AskedMove | None:
        """Take the oldest, None: there is none."""
        with self._lock:
            if not self._waiting:
                return None
            asked = self._waiting.popleft()
            asked.begun = True
            return asked

    def records(self) -> tuple[MoveRecord, ...]:
        """Return what became of the last `KEPT` moves, the oldest first."""
        with self._lock:
            return tuple(map(_record, self._all))

    def totals(self) -> MoveTotals | None:
        """Return what all moves took that have ended, None: none has."""
        return self._totals

    def close(self, error: PenstockError) -> None:
        """Take in that nothing moves any more: ``error`` is for all that are not done, and for those that come."""
        with self._lock:
            self._closed = error
            self._waiting.clear()
            self.held = _nothing
            left = [asked for asked in self._all if not asked.answer.done()]
        for asked in left:
            asked.answer.set_exception(error)

    def _noted(self, order: MoveOrder | GroupsOrder | ChangeOrder) -> AskedMove:
        self._asked += 1
        asked = AskedMove(self._asked, order)
        asked.answer.add_done_callback(self._count)
        self._all.append(asked)
        return asked

    def _count(self, answer: "Future[MoveSummary]") -> None:
        totals = self._totals or MoveTotals()
        if answer.exception() is not None:
            self._totals = replace(totals, failed=totals.failed + 1)
            return
        summary = answer.result()
        last = (summary.pause_ms[1], summary.marker_ms[1])
        self._totals = MoveTotals(
            totals.done + 1,
            totals.failed,
            totals.key_groups + summary.key_groups,
            totals.state_bytes + summary.state_bytes,
            totals.took_ms + summary.took_ms,
            *(last if summary.key_groups else (totals.pause_p99_ms, totals.marker_p99_ms)),
        )


def _nothing() -> None:
    """Nothing moves."""


def _record(asked: AskedMove) -> MoveRecord:
    order, (moved, of) = asked.order, asked.progress
    state: Literal["waiting", "moving", "done", "failed"] = "moving" if asked.begun else "waiting"
    failure, summary = None, None
    if asked.answer.done():
        error = asked.answer.exception()
        state, failure = ("done", None) if error is None else ("failed", str(error))
        summary = asked.answer.result() if error is None else None
    return MoveRecord(asked.number, order.instance, order.manager, state, moved, of, failure, summary, order.cause)
