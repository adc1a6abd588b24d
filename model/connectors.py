"""The contracts of sources and sinks: subclass these to bring data in or out.

The classes do no I/O themselves; readers and writers are opened by the worker that runs them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.model.errors import RetryableError
from penstock.model.outstanding import Outstanding
from penstock.model.sampling import Sampled, Sampler
from penstock.model.sink_context import OutputRun, SinkContext

if TYPE_CHECKING:
    from penstock.model.expressions import Expr


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record that could not be decoded: its bytes, where it stood (``file:line``), and why.

    What follows is known of messages of Kafka, whose position is ``topic/partition@offset``. ``tombstone``: there was
    no value, which ``raw`` cannot tell from an empty one.
    """

    raw: bytes
    position: str
    error: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    tombstone: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """What one call of `Reader.read` brought.

    ``rows`` may be None together with ``ended`` False: nothing is there now, ask again later. ``rejected`` are
    records that could not be decoded. ``skipped`` counts rows that the source left out because the pushed-down
    predicate excludes them, and ``skipped_time_us`` is their greatest event time, if known (`Source.with_time`).
    ``watermark_us`` says that no row with an earlier event time will follow, for a source that knows better than the
    greatest time seen less the declared delay. ``out_of_reach``: nothing came, but something may be there, so the
    partition is not idle. ``again_us``: nothing more will be there before so many microseconds have passed; with rows
    or without, so that a source with a rate of its own is neither asked in vain nor waited for to fill a batch.
    ``sampled`` says what a reader that samples (`Reader.sample_by`) has dropped.
    """

    rows: pa.RecordBatch | None = None
    ended: bool = False
    rejected: Sequence[RawRecord] = ()
    skipped: int = 0
    skipped_time_us: int | None = None
    watermark_us: int | None = None
    out_of_reach: bool = False
    again_us: int | None = None
    sampled: Sampled | None = None


NOTHING = Read()
"""There is nothing to read now."""

ENDED = Read(ended=True)
"""The partition has ended; `read` is not called again."""


class Reader(ABC):
    """Reads one partition. Called by one worker thread; never blocks for long: return `NOTHING` instead of waiting.

    When a reader that had nothing is asked again: once it wakes the job, if it can (`watch`); once the time has passed
    that it named (`Read.again_us`); else after 1 ms, then 2, 4 and so on up to 32 ms as long as it has nothing.
    """

    @abstractmethod
    def read(self, max_rows: int) -> Read:
        """Return up to ``max_rows`` next rows in the source's schema, restricted to the wanted columns.

        An exception ends the job, unless it is a `RetryableError`.
        """

    def watch(self, wake: Callable[[], None]) -> bool:
        """Return whether ``wake`` will be called when there is something after a `read` that had nothing.

        Called once, before the first `read`. ``wake`` returns at once and may be called from any thread, also when
        there is nothing, and at the end or a failure of the partition, which `read` is to tell. A reader that promises
        to call it is not asked meanwhile. The default promises nothing.
        """
        return False

    def sample_by(self, sampler: Sampler) -> bool:
        """Drop the records that are not chosen from the next `read` on, undecoded; return whether it does.

        Each `read` that took records says so in `Read.sampled`. The default does not; its rows are sampled by number.
        """
        return False

    @abstractmethod
    def position(self) -> Any:
        """Return where the next `read` starts, as JSON-able data; `Source.open` takes it back."""

    def behind(self) -> int | None:
        """Return how many messages are known to be there from the position on; None: not known.

        For metrics: called by any thread at any time, and asks nobody.
        """
        return None

    def appended(self) -> int | None:
        """Return how many messages the partition has had so far, read or not, as an offset; None: not known.

        Its growth is what the source is offered, by which load shedding judges whether a job keeps up. A reader that
        makes rows at a rate of its own counts those that are due, one that makes as many as it is asked for those that
        it has made. What is bounded is offered at no rate, and returns None. Called as `behind` is.
        """
        return None

    def close(self) -> None:
        """Release what was opened; called once, also after a failure."""


class Source(ABC):
    """Where rows come from. Immutable once built; the plan may ask it for a restricted copy."""

    bounded: bool = True
    """Whether the source ends by itself."""

    grows: bool = False
    """Whether a bounded source may have more for a later run, so that its end is only that of the run."""

    partitions_grow: bool = False
    """Whether a partition that ended may have more for a later run; otherwise it is not opened again."""

    aligned: bool = True
    """Whether reading waits for the job's other sources that are behind in event time."""

    in_caller: bool = False
    """Whether its instances run in the process that started the job, whose objects it holds."""

    has_message_keys: bool = False
    """Whether its readers tell the sampler the keys of messages before these are decoded (`Sampler.chosen`)."""

    discovery_us: int | None = None
    """How often a job asks `partitions_since`, in microseconds; None: never. It is not bounded, and outlasts them."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The fields of the rows that readers return."""

    @abstractmethod
    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the partitions to read, in a stable order; the planner deals them out to ``parallelism`` instances.

        A source that can be cut anywhere returns ``parallelism`` of them. Rows of one partition come in order of
        event time up to the watermark delay. Where instances run in several processes, each asks a copy of its own and
        must get the same: what may change meanwhile is looked up in `fix_bounds`.
        """

    @abstractmethod
    def open(self, partition: str, position: Any | None) -> Reader:
        """Start reading a partition at a position that `Reader.position` returned (None: at its beginning).

        Raises:
            UserError: what was read until the position is no longer there, or no longer the same.
        """

    def topic_partition(self, partition: str) -> tuple[str, int] | None:
        """Return the topic of a partition and its number there, if others know its records by offsets.

        The default has none: records are known by their number among the rows of their partition, from 0.
        """
        return None

    def partitions_since(self, known: Sequence[str]) -> Sequence[str]:
        """Name the partitions that came after a job began with the partitions ``known``, which it reads for life.

        Asked after a restore, whatever the parallelism is now, and every `discovery_us`, then without waiting for an
        answer from outside; these begin at their beginning. The default has none.
        """
        return ()

    def partitions_after(self, positions: Mapping[str, Any]) -> Sequence[str]:
        """Name the partitions that came since a run stopped at ``positions``, by partition.

        Raises:
            UserError: what was read is no longer as it was, or cannot be told from what is new.
        """
        return self.partitions_since(list(positions))

    def up_to(self, positions: Mapping[str, Any]) -> "Source":
        """Return a source of the partitions that a run which stopped at ``positions`` knew. The default is itself."""
        return self

    def begin_run(self) -> None:
        """A run of a job begins: bounds that are looked up, as files or the ends of topics, are looked up anew.

        They hold until the next call, whatever is restarted in between. The default has none.
        """

    def fix_bounds(self) -> None:
        """Look up what this run reads as far as `begin_run` left that for later, and unless it is done.

        Called before copies go to other processes, which must see the same partitions and bounds: what is looked up
        travels in the copies. The default has nothing.

        Raises:
            RetryableError: nobody answers; the same call may work later.
        """

    def local_files(self) -> Sequence[Path]:
        """Return the files that its readers open, wherever they run; the default opens none."""
        return ()

    def first_run_only(self) -> str | None:
        """Return what of it only a run without a checkpoint follows, in the user's words; None: nothing."""
        return None

    def committed(self, job: str, positions: Mapping[str, Any]) -> None:
        """A checkpoint of ``job`` with these positions, by partition, is complete: others may be told.

        Called on the worker's thread: it must neither wait nor raise. The default does nothing.
        """

    def release(self) -> None:
        """Let go of what `fix_bounds` and `committed` hold open: the job is over, well or not. Must not raise.

        Readers let go of what they opened themselves. The default holds nothing.
        """

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> "Source":
        """Return a source that reads only these columns and may leave out rows for which the predicate is not true.

        The predicate is a hint: rows that do not fulfil it may still come. A source that left rows out reports them
        in `Read.skipped`. The default reads everything.
        """
        return self

    def with_time(self, column: str) -> "Source":
        """Return a source that knows its event time, to report that of rows which it leaves out; the default none."""
        return self

    def describe(self) -> str:
        """Say in a few words what is read, for plans and messages."""
        return type(self).__name__


class Writer(ABC):
    """Writes what one sink instance receives, in order. Called by one worker thread."""

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows in the sink's schema; in changelog mode with the weight as the last field ``weight``."""

    def has_room(self) -> bool:
        """Return whether `write` may be called. As long as not, the job goes on with other things and asks again.

        A writer that would have to wait says so here. The default has always room.
        """
        return True

    def outstanding(self) -> Outstanding | None:
        """Return what is on its way, without waiting; None: `flush`, `prepare` and `close` need not wait, either.

        Before, a job calls none of them: it goes on with other things and asks again. The default has always None.
        """
        return None

    def flush(self) -> None:
        """Make everything written so far visible, as far as the sink can."""

    def prepare(self, epoch: int) -> Any:
        """Bring what was written since the last barrier to where a crash does not lose it, but nobody sees it yet.

        Called at the barrier of checkpoint ``epoch``, with ever greater epochs, in jobs that take checkpoints. Returns
        a receipt, JSON-able data that the checkpoint keeps and `Sink.commit` gets. The default flushes: its rows come
        again after a restart.
        """
        self.flush()

    def close(self) -> None:
        """Finish: the input has ended or the job was stopped. Everything written must be there afterwards."""

    def abort(self) -> None:
        """The job failed: release what was opened, leave no half-written file under a final name."""


class Sink(ABC):
    """Where rows go.

    In a job that takes checkpoints the plan asks a ``transactional`` sink for a copy `with_checkpoints`. Of that,
    `recover` (or `join`) is called before any writer is opened, at every start; then writers `Writer.prepare` at
    barriers, and `commit` follows when the checkpoint is complete. They are never called at the same time. Writers in
    another process are those of a pickled copy; `recover`, `join`, `adopt` and `commit` are called of the original
    only. Where the job's head is lost and the writers live, `adopt` comes in the place of `recover`.
    """

    transactional: bool = False
    """Whether rows become visible exactly once in jobs that take checkpoints; otherwise some may come again."""

    in_caller: bool = False
    """Whether its instances run in the process that started the job, whose objects it holds."""

    follows_head: bool = False
    """Of a sink that is ``in_caller``: whether it runs as well in the head's process, where the caller has none."""

    takes_corrections: bool = False
    """Whether a later message can take back or replace a row, as `penstock validate --correct` publishes them."""

    @abstractmethod
    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Open the writer of one instance. ``schema`` is what `Writer.write` will receive."""

    def exclusive(self) -> Path | None:
        """Return the local file or directory that only one run at a time may write; None if several may."""
        return None

    def begin_run(self, run: OutputRun) -> None:
        """The run has the lease of `exclusive`. Called before `recover` or `open`, and again at every restart."""

    def check_transactional(self) -> None:
        """Raise a `UserError`, as the pipeline is built, if it cannot work with checkpoints as it is configured."""

    def with_checkpoints(self, context: SinkContext) -> "Sink":
        """Return a sink whose rows become visible by `commit` only. The default has nothing to hold back."""
        return self

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        """Make visible what the receipts stand for: checkpoint ``epoch`` is complete.

        ``receipts`` are those of all instances, and of checkpoints that were given up since the last commit. Called
        with ever greater epochs, but again with the same after a restore: what is visible already stays as it is.

        Raises:
            FatalError: what was prepared is damaged or gone; nothing of the epoch became visible.
            RetryableError: writing failed; the same call may work later.
        """

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """Before anything opens: the job goes on from checkpoint ``epoch``, or from its beginning (None).

        Finishes the commit of ``epoch`` with its ``receipts`` if it was interrupted, and takes back what came after
        it, be it visible or prepared. At the beginning, output of an earlier job is replaced.

        Raises:
            FatalError: what is there does not go with the checkpoint.
            RetryableError: writing failed; the same call may work later.
        """

    def join(self, epoch: int) -> None:
        """Do what `recover` does in a job that goes on from checkpoint ``epoch``, which does not know this sink.

        It has written nothing up to there; what it wrote later, before the job went back, is taken back. The default
        recovers without receipts.

        Raises:
            FatalError: what is there is output of another sink, or of this one under another name.
            RetryableError: writing failed; the same call may work later.
        """
        self.recover(epoch, ())

    def claim(self) -> Any:
        """Return what `recover` has left for those who write, as JSON-able data for `adopt`; asked of a writer's copy.

        The default has left nothing.
        """
        return None

    def adopt(self, epoch: int, receipts: Sequence[Any], claim: Any) -> None:
        """In the place of `recover`: take over writers that live on, whose committing process is gone.

        Nothing of theirs is touched. Checkpoint ``epoch`` (0: none) is the last complete one, and is committed next,
        again perhaps. ``receipts`` are its own and those of epochs behind it, ``claim`` is that of the writers' sink.
        The default refuses if it is `transactional`, and does nothing if it is not.

        Raises:
            PenstockError: it cannot; then all instances are built anew, after a `recover`.
        """
        if self.transactional:
            raise RetryableError(f"{self.describe()!r} does not take over writers that outlived their job's head")

    def resize(self, parallelism: int, *, running: bool = False) -> None:
        """Have so many writers: `recover` is next, or more follow the ``running`` ones. The default does nothing."""

    def release(self) -> None:
        """Let go of what `commit` and `recover` hold open: the job is over, well or not. Must not raise.

        The default holds nothing.
        """

    def describe(self) -> str:
        """Say in a few words what is written, for plans and messages."""
        return type(self).__name__
