"""The contract of an operator: what the worker loop calls and what it may rely on."""

from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.async_calls import CallCounts, IoThread, MakeCalls
from penstock.engine.core.elements import START_OF_TIME_US, Batch, Reroute
from penstock.model.connectors import RawRecord
from penstock.model.job_graph import LATE, MAIN
from penstock.model.key_groups import moved
from penstock.model.outstanding import Outstanding
from penstock.state.store import Locate, StateStore

Emission = tuple[str, Batch]
"""An output's name (`MAIN`, `LATE` or a user's) and the rows that leave through it."""

SLICE_NS = 10_000_000
"""After how long an operator lets the worker loop go on, where it can: links, messages and other instances wait."""

__all__ = [
    "LATE",
    "MAIN",
    "SLICE_NS",
    "Clock",
    "DeadLetters",
    "Emission",
    "Operator",
    "OperatorContext",
    "RawRecord",
    "RowCounters",
    "chunks",
]


class Clock(Protocol):
    """The source of time; the simulator hands in another."""

    def monotonic_ns(self) -> int:
        """Return a time that never goes back, for durations."""

    def wall_us(self) -> int:
        """Return processing time: microseconds since the epoch."""


@dataclass(slots=True)
class RowCounters:
    """Counters of an operator's rows, each counted where it happens (rows, not batches).

    At every moment between two batches: rows_in = passed + folded + filtered + late + dead_lettered + shed.
    ``passed`` counts input rows that left (once, however many rows they became), ``folded`` those kept in state,
    ``shed`` those that a keep rate has dropped.
    """

    rows_in: int = 0
    passed: int = 0
    folded: int = 0
    filtered: int = 0
    late: int = 0
    dead_lettered: int = 0
    rows_out: int = 0
    shed: int = 0

    def balanced(self) -> bool:
        """Return whether every row is accounted for."""
        fates = self.passed + self.folded + self.filtered + self.late + self.dead_lettered + self.shed
        return self.rows_in == fates

    def add(self, other: "RowCounters") -> None:
        """Add what another one has counted."""
        self.rows_in += other.rows_in
        self.passed += other.passed
        self.folded += other.folded
        self.filtered += other.filtered
        self.late += other.late
        self.dead_lettered += other.dead_lettered
        self.rows_out += other.rows_out
        self.shed += other.shed

    @classmethod
    def total(cls, counters: Iterable["RowCounters"]) -> "RowCounters":
        """Return the counters of all instances of an operator together."""
        total = cls()
        for item in counters:
            total.add(item)
        return total

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return asdict(self)


class DeadLetters(Protocol):
    """Takes the records that could not be processed."""

    def reject(self, operator: str, rows: pa.RecordBatch, errors: Sequence[str]) -> None:
        """Take rows an operator could not process, one error text per row.

        Raises:
            BadRecordError: the operator's policy is ``fail``.
        """

    def reject_raw(self, operator: str, records: Sequence[RawRecord]) -> None:
        """Take records a source could not decode."""

    def close(self) -> None:
        """Finish writing."""


Notes = Mapping[str, int | float | str | bytes | None]
"""Small values by name that a checkpoint keeps beside an operator's state."""


def asleep() -> None:
    """Wake nobody: for loops that nothing comes to from other threads."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The context of an operator instance, handed to it when it opens.

    ``key_groups`` maps every key group to the instance that owns it (empty for operators without key).
    ``seed`` makes the instance's random choices repeatable, ``sampling_seed`` says which keys of the job stay. ``wake``
    makes the loop ask `Operator.timer_ns` again; it alone may be called from any thread. ``async_calls`` makes what
    runs coroutines.

    After a restart the state holds what was kept, and ``restored`` the notes of every instance (or bucket of one) that
    it came from: one in most cases, more or fewer after a change of parallelism. ``locate[port]`` returns where the
    keys of an input's rows lie (none: the operator has no key); it is given to logs of input rows.
    ``placed_by`` numbers the keys by which rows and state lie, if these are not all of the operator's.
    ``emit_interval_us``: changes of an updating result leave at most this long after the first of them.
    """

    name: str
    instance: int
    parallelism: int
    clock: Clock
    state: StateStore
    counters: RowCounters
    dead_letters: DeadLetters
    key_groups: NDArray[np.int32]
    batch_rows: int
    seed: int
    wake: Callable[[], None] = asleep
    async_calls: MakeCalls = IoThread
    restored: Sequence[Notes] = ()
    locate: Sequence[Locate] = ()
    placed_by: tuple[int, ...] | None = None
    emit_interval_us: int = 100_000
    sampling_seed: int = 0

    def interval_ns(self, interval_us: int | None) -> int:
        """Return how long an updating result that has an interval of its own (None: the job's) is held at most."""
        return 1_000 * (self.emit_interval_us if interval_us is None else interval_us)

    def placed(self, leading: int = 0) -> tuple[int, ...] | None:
        """Return `TableSpec.placed_by` of a table whose key is the operator's, behind so many leading columns."""
        return None if self.placed_by is None else tuple(leading + place for place in self.placed_by)

    def locate_port(self, port: int) -> Locate | None:
        """Return ``locate[port]``, None for an operator without key."""
        return self.locate[port] if self.locate else None

    def earliest(self, note: str, default: int) -> int:
        """Return the least value that a note of this name had, ``default`` at a first start."""
        return min((int(notes[note] or 0) for notes in self.restored), default=default)


class Operator(ABC):
    """One operator's logic in one instance. All calls come from the worker's thread, one at a time.

    Order of calls: `open`; then `process`, `on_watermark`, `on_timer` in stream order; `on_end` once every input has
    ended, after a watermark at the end of time; `close`. The returned iterables are drained lazily, one emission at a
    time, and the loop may do other work between two emissions: nothing else is called on this operator until the
    iterable is exhausted. Emitted batches hold at most ``batch_rows`` rows where an input row can become many.

    An operator that waits for something outside (`map_async`) returns at once from every call and keeps the rows in
    its state. It says with `has_room`, `unanswered` and `released_watermark` what must wait for it, with `timer_ns`
    that it can go on, and calls the context's ``wake`` when that has changed in another thread.
    """

    context: OperatorContext

    minds_watermarks: bool = True
    """Whether it matters between which watermarks a row comes; where it does not, rows may be joined across them."""

    gives_state: bool = False
    """Whether it hands state over at the marker of a move, and awaits some."""

    def open(self, context: OperatorContext) -> None:
        """Take the context; create state tables here."""
        self.context = context

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Take one batch from input ``port`` and count every row of it in the context's counters."""
        raise NotImplementedError

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """No more rows with event time < ``time_us`` will come on any port; emit what this settles.

        Called with ever greater times; the watermark is passed on after the last emission.
        """
        return ()

    def output_watermark(self, time_us: int) -> int:
        """Return the watermark to pass on after `on_watermark(time_us)`; lower when rows are held back.

        One that is not greater than the last is not passed on.
        """
        return time_us

    def released_watermark(self) -> int | None:
        """Return a watermark that was held back and is to be passed on now, behind what `on_timer` emitted."""
        return None

    def batches_at_once(self) -> int:
        """Return how many full batches, if they wait, it would rather take as one."""
        return 1

    def has_room(self) -> bool:
        """Return whether `process` may be called. As long as not, the chain waits and calls `on_timer` when due."""
        return True

    def takes_barrier(self) -> bool:
        """Return whether `on_barrier` may be called: a barrier is there. As long as not, it waits as for `has_room`."""
        return True

    def unanswered(self) -> bool:
        """Return whether rows wait for something outside: the end, and idleness, wait behind them.

        `on_timer` is called when due, and before `on_end`, until this is False.
        """
        return False

    def outstanding(self) -> Outstanding | None:
        """Return what a sink has on its way, which barriers and the end wait for; None: nothing, or it is no sink."""
        return None

    def call_counts(self) -> CallCounts | None:
        """Return what calls to the outside came to; None: it makes none. From any thread."""
        return None

    def timer_ns(self) -> int | None:
        """Return the monotonic time at which `on_timer` is due, or None."""
        return None

    def has_pending(self) -> bool:
        """Return whether `on_timer` would emit something if the loop has nothing better to do."""
        return False

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        """Do what is due by processing time, or what `has_pending` announced."""
        return ()

    def on_barrier(self, epoch: int) -> Iterable[Emission]:
        """Everything before checkpoint ``epoch`` has arrived and nothing after it; emit what must precede the cut."""
        return ()

    def takes_reroute(self, reroute: Reroute, *, is_last: bool) -> bool:
        """Return whether `on_reroute` may be called: a marker is there. As long as not, it waits as for `has_room`.

        Who gives or takes has nothing unanswered then, so that givers and takers are at one watermark behind the
        marker. Only where it ``is_last``, as nobody behind it ``gives_state``, may what waits for key groups that stay.
        """
        return not reroute.concerns(self.context.instance) or not self.unanswered()

    def on_reroute(self, reroute: Reroute) -> Iterable[Emission]:
        """Key groups have other owners behind this; emit what must come before rows of theirs do by another way."""
        self.context = replace(self.context, key_groups=moved(self.context.key_groups, reroute.groups))
        return ()

    def notes(self) -> Notes:
        """Return the small values beside the state that a restart must know, asked after what `on_barrier` emitted."""
        return {}

    def due_us(self) -> int | None:
        """Return a watermark below which `on_watermark` does nothing but note the time; None: no row waits for one.

        The default says that every watermark matters.
        """
        return START_OF_TIME_US

    def on_end(self) -> Iterable[Emission]:
        """Every input has ended; emit what is left."""
        return ()

    def abort(self) -> None:
        """The job failed: release what was opened and leave nothing half-written behind. `close` is not called then."""
        self.close()

    def close(self) -> None:
        """Give back what `open` took, and make final what was written; called once, when the job ends well."""


def chunks(rows: pa.RecordBatch, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Cut rows into batches of at most ``batch_rows``, without copying; nothing for no rows."""
    for start in range(0, rows.num_rows, batch_rows):
        yield rows.slice(start, batch_rows)
