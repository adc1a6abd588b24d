"""Changes of parallelism that were asked for, from any thread, and what became of them; the job carries them out."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from penstock.engine.moves.move_orders import MoveSummary
from penstock.engine.restore.key_group_owners import Noted
from penstock.model.errors import OptionError, PenstockError

KEPT = 100
"""Of so many orders it is known what became of them."""

NO_CHECKPOINTS = "a job without checkpoints cannot change its parallelism: run it with checkpoint_dir=..."

RescaleState = Literal["waiting", "moving", "checkpointing", "restarting", "done", "failed"]


@dataclass(frozen=True, slots=True)
class RescaleSummary:
    """A change that is done: the instances of each operator that has others now, before and after.

    The job went on from checkpoint ``epoch``, after ``key_groups_moved`` of ``key_groups`` (of all stateful tasks) had
    changed their instances. It waited ``waited_ms`` for that checkpoint, as it ran, and stood still for ``stopped_ms``.
    One that was made ``live``, while the job ran, has epoch 0, took ``waited_ms`` and stood still for 0; so many
    ``partitions_moved`` of sources changed their instances then, and of ``moves`` each says of a task, by its name,
    what the move of its key groups took, and what was expected of it.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    epoch: int
    key_groups_moved: int
    key_groups: int
    waited_ms: float
    stopped_ms: float
    live: bool = False
    partitions_moved: int = 0
    moves: Mapping[str, MoveSummary] = field(default_factory=dict)


@dataclass(slots=True)
class AskedRescale:
    """An order, the instances that it wants by the names of operators, and what its result is told to.

    ``loads``: those of the key groups of operators, as far as they are known. ``keeps``: of none others are to come.
    """

    number: int
    parallelism: Mapping[str, int]
    loads: Mapping[str, Sequence[float]] = field(default_factory=dict)
    keeps: bool = False
    state: RescaleState = "waiting"
    answer: "Future[RescaleSummary]" = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class RescaleRecord:
    """A change that was asked for: ``failure`` says why it was not done, ``summary`` what it took; null: not known."""

    number: int
    parallelism: Mapping[str, int]
    state: RescaleState
    failure: str | None
    summary: RescaleSummary | None


class RescaleOrders:
    """Orders on their way, one at a time. Every method may be called from any thread."""

    def __init__(self) -> None:
        """Begin with none, and refuse them all until `open`."""
        self._lock = Lock()
        self._waiting: AskedRescale | None = None
        self._all: deque[AskedRescale] = deque(maxlen=KEPT)
        self._asked = 0
        self._closed: PenstockError | None = OptionError(NO_CHECKPOINTS)
        self._wake: Callable[[], None] = _nobody
        self.keep: Callable[[Mapping[str, int]], None] = _keep_nothing
        """Takes the instances that an order has led to; in the thread of the job, once they run. To be set before."""
        self.noted: Mapping[str, Noted] = {}
        """The owners of key groups that all instances have begun with, of operators that a checkpoint told of."""

    def open(self, wake: Callable[[], None]) -> None:
        """Let orders come: there is somebody who carries them out, and whom ``wake`` lets look at once."""
        with self._lock:
            self._closed, self._wake = None, wake

    def check(self) -> None:
        """Do nothing if the job can change its parallelism.

        Raises:
            PenstockError: it takes no checkpoints, or is over.
        """
        if self._closed is not None:
            raise self._closed

    def ask(
        self,
        parallelism: Mapping[str, int],
        loads: Mapping[str, Sequence[float]] | None = None,
        *,
        keeps: bool = False,
    ) -> AskedRescale:
        """Ask for so many instances of some operators; the answer is the summary, once they run.

        None named: all are placed anew, where task managers have come, and others may come there while the job runs;
        but none do if it ``keeps`` those that it has. Where operators change while they run, their key groups are
        dealt out by their ``loads``, as far as these are given, otherwise as many to each instance.

        Raises:
            OptionError: one is under way, or the job takes no checkpoints.
            PenstockError: the job is over.
        """
        with self._lock:
            if self._closed is not None:
                raise self._closed
            if self._all and not self._all[-1].answer.done():
                raise OptionError("the job changes its parallelism already: ask again once that is done")
            self._asked += 1
            asked = AskedRescale(self._asked, dict(parallelism), dict(loads or {}), keeps)
            asked.answer.add_done_callback(lambda answer: self._done(asked))
            self._waiting = asked
            self._all.append(asked)
        self._wake()
        return asked

    def _done(self, asked: AskedRescale) -> None:
        if asked.answer.exception() is None:
            # Where none was named, instances may have come all the same.
            self.keep(asked.parallelism or asked.answer.result().after)

    def take(self) -> AskedRescale | None:
        """Take the one that waits, None: there is none."""
        with self._lock:
            asked, self._waiting = self._waiting, None
            return asked

    def is_waiting(self) -> bool:
        """Return whether one waits to be taken."""
        return self._waiting is not None

    def records(self) -> tuple[RescaleRecord, ...]:
        """Return what became of the last `KEPT` orders, the oldest first."""
        with self._lock:
            return tuple(_record(asked) for asked in self._all)

    def last_stop_ms(self) -> float | None:
        """Return for how long the job stood still for the last order that it began anew for, None: for none."""
        summaries = (record.summary for record in reversed(self.records()))
        return next((done.stopped_ms for done in summaries if done is not None and not done.live), None)

    def close(self, error: PenstockError) -> None:
        """Take in that nothing changes any more: ``error`` is for what is not done, and for what comes."""
        with self._lock:
            self._closed, self._waiting = error, None
            left = [asked for asked in self._all if not asked.answer.done()]
        for asked in left:
            asked.answer.set_exception(error)


def _nobody() -> None:
    """Wake nobody."""


def _keep_nothing(parallelism: Mapping[str, int]) -> None:
    """Let it go: what comes behind this run begins as its program says."""


def _record(asked: AskedRescale) -> RescaleRecord:
    failure, summary, state = None, None, asked.state
    if asked.answer.done():
        error = asked.answer.exception()
        state, failure = ("done", None) if error is None else ("failed", str(error))
        summary = asked.answer.result() if error is None else None
    return RescaleRecord(asked.number, asked.parallelism, state, failure, summary)
