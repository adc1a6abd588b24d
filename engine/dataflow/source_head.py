"""The head of a source task: asks readers for rows, makes watermarks, notices idleness and the end.

Source partitions are read side by side in event time, and `SourceAlignment` keeps the instances of all sources that
are joined by channels within one batch of each other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from penstock.engine.connectors.normalise import Normaliser
from penstock.engine.core.contract import Clock, DeadLetters, RowCounters, asleep, chunks
from penstock.engine.core.elements import (
    END_OF_TIME_US,
    START_OF_TIME_US,
    Batch,
    Element,
    EndOfStream,
    Idle,
    Watermark,
)
from penstock.engine.core.event_time import event_times_us
from penstock.engine.core.watermark import WatermarkMerge
from penstock.engine.dataflow.source_discovery import SourceDiscovery
from penstock.engine.dataflow.source_partition import RETRY_NS, Partition
from penstock.engine.restore.source_positions import (
    EndedReader,
    PartitionPosition,
    closed_before,
    merged_us,
    read_positions,
)
from penstock.model.connectors import NOTHING, Read, Source
from penstock.model.errors import RetryableError, UserError
from penstock.model.schema import TimeColumn

SMALL_FRACTION = 8
"""Reads below 1/8 of a batch are gathered, larger ones leave at once (joining them would copy more than it saves)."""

RETRIES = 10
"""How often in a row a reader may raise a `RetryableError` before it ends the job."""


@dataclass(slots=True)
class Gathered:
    """Small reads waiting to become one batch."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    since_ns: int = 0


class SourceHead:
    """Polls the partitions of one source instance."""

    def __init__(
        self,
        name: str,
        source: Source,
        partitions: Sequence[str],
        time: TimeColumn | None,
        delay_us: int,
        *,
        clock: Clock,
        counters: RowCounters,
        dead_letters: DeadLetters,
        batch_rows: int,
        linger_ns: int,
        idle_timeout_ns: int,
        positions: Mapping[str, Any] | None = None,
        discovery: SourceDiscovery | None = None,
        keeps: bool = False,
        closed: bool = False,
        max_ahead_us: int | None = None,
        wake: Callable[[], None] = asleep,
    ) -> None:
        """Open a reader per partition, at its position if `positions` of this or of other instances gave one.

        With ``discovery`` partitions may follow, and their want is no end. One that ``keeps`` does not end its stream
        either: it is `exhausted`, and its watermark stays for a later run. ``closed``: a run before closed what is
        behind this source, so that no row may come. Rows that are more than ``max_ahead_us`` ahead of the clock are
        bad, and say nothing of the watermark. ``wake`` makes the loop ask `wake_ns` again, from any thread.

        The watermark goes on from where it was, and is said again by the first poll, as channels are new.
        """
        self.name = name
        self.counters = counters
        self._source = source
        self._time = time
        self._delay_us = delay_us
        self._max_ahead_us = max_ahead_us
        self._clock = clock
        self._dead_letters = dead_letters
        self._batch_rows = batch_rows
        self._linger_ns = linger_ns
        self._discovery = discovery
        self._keeps = keeps
        self._is_closed = closed
        self._wake = wake
        # What is bounded is never idle.
        self._silence_ns = None if source.bounded else idle_timeout_ns
        known = read_positions(name, partitions, positions)
        self._partitions: list[Partition] = []
        self._closed = False
        try:
            for item in partitions:
                self._partitions.append(self._open(item, known.get(item)))
        except BaseException:
            self.close()
            raise
        self._merge = WatermarkMerge(len(self._partitions))
        self._merge.time_us = merged_us(known.values())
        if self._merge.time_us == END_OF_TIME_US and not all(item.ended for item in self._partitions):
            self._merge.time_us = START_OF_TIME_US
        self._says_again = self._merge.time_us not in (START_OF_TIME_US, END_OF_TIME_US)
        self._gathered = Gathered()
        self._said_idle = False
        self._stopping: EndOfStream | None = None
        self.ended = False
        self.exhausted = False
        """Whether a source that keeps its watermark has read all there is for this run."""

    @property
    def progress_us(self) -> int:
        """Where the last read began of the partition furthest behind; the end of time if all are ended or idle."""
        reading = [item.began_us for item in self._partitions if not (item.ended or item.idle)]
        return min(reading, default=END_OF_TIME_US)

    @property
    def watermark_us(self) -> int:
        """The merged watermark of the partitions."""
        return self._merge.time_us

    def behind(self) -> dict[str, int]:
        """Return how many messages wait in each partition that knows it; from any thread."""
        known = {item.name: item.reader.behind() for item in tuple(self._partitions)}
        return {name: messages for name, messages in known.items() if messages is not None}

    @property
    def ordered(self) -> bool:
        """Whether the source is aligned with others by its event time."""
        return self._time is not None and self._source.aligned

    def wake(self) -> None:
        """Ask every reader again at once: something may be there now."""
        for item in self._partitions:
            item.retry_ns, item.stirred = 0, True

    def stop(self, drain: bool) -> None:
        """Read nothing more; the next poll ends the stream (``drain``: as if the input had ended)."""
        self._stopping = EndOfStream(drained=drain)

    def wake_ns(self) -> int | None:
        """Return when polling makes sense again: 0 for now, None when ended, or when readers will say when."""
        if self.ended:
            return None
        if self._stopping is not None:
            return 0
        if self.exhausted:
            return None
        reading = [item for item in self._partitions if not item.ended]
        times = [due_ns for item in reading if (due_ns := item.due_ns(self._silence_ns)) is not None]
        if self._discovery is not None:
            times.append(self._discovery.due_ns)
        return min(times, default=None if reading else 0)

    def linger_ns(self) -> int | None:
        """Return when rows that wait for more of them have waited long enough, None when there are none."""
        return self._gathered.since_ns + self._linger_ns if self._gathered.rows else None

    def cut(self) -> Iterator[Element]:
        """Let everything that was read leave, and its watermark; `positions` afterwards is just behind it."""
        now_ns = self._clock.monotonic_ns()
        yield from self._flush(now_ns, force=True)
        yield from self._watermark(now_ns)

    def positions(self) -> dict[str, Any]:
        """Return where every partition continues, in bytes and in event time, as JSON-able data.

        Rows that were gathered and have not left are behind it: ask after `cut`.
        """
        return {item.name: msgspec.to_builtins(self._position(item)) for item in self._partitions}

    def poll(self) -> Iterator[Element]:
        """Read once from the partition that is furthest behind and yield what follows from it."""
        if self._stopping is not None:
            yield from self._finish(self._stopping)
            return
        now_ns = self._clock.monotonic_ns()
        if self._discovery is not None:
            self._discover(self._discovery, now_ns)
            if not self._partitions:
                yield from self._watermark(now_ns)
        ready = [item for item in self._partitions if not item.ended and self._is_due(item, now_ns)]
        if ready:
            yield from self._read(min(ready, key=lambda item: item.latest_us), now_ns)
        if self._discovery is None and all(item.ended for item in self._partitions):
            if not self._keeps:
                yield from self._finish(EndOfStream())
            elif not self.exhausted:
                self.exhausted = True
                yield from self._flush(now_ns, force=True)
                yield from self._watermark(now_ns)

    def leave(self) -> Iterator[Element]:
        """Let the rows that have waited long enough go, without reading."""
        now_ns = self._clock.monotonic_ns()
        yield from self._flush(now_ns, force=False)
        if not self._gathered.rows:
            yield from self._watermark(now_ns)

    def close(self) -> None:
        """Close every reader; a second call does nothing."""
        partitions = [] if self._closed else self._partitions
        self._closed = True
        for item in partitions:
            item.reader.close()

    def _is_due(self, partition: Partition, now_ns: int) -> bool:
        due_ns = partition.due_ns(self._silence_ns)
        return due_ns is not None and due_ns <= now_ns

    def _open(self, name: str, known: PartitionPosition | None) -> Partition:
        partition = self._opened(name, known)
        if not partition.ended:
            partition.watch(self._wake)
        return partition

    def _opened(self, name: str, known: PartitionPosition | None) -> Partition:
        time = self._time.name if self._time else None
        if known is None:
            return Partition(name, self._source.open(name, None), Normaliser(self._source.schema, time))
        normaliser = Normaliser(self._source.schema, time, known.rows)
        if known.ended and not self._source.partitions_grow:
            return Partition(name, EndedReader(known.at), normaliser, known.latest_us, ended=True)
        return Partition(name, self._source.open(name, known.at), normaliser, known.latest_us)

    def _discover(self, discovery: SourceDiscovery, now_ns: int) -> None:
        """Begin to read partitions that came since; they hold no watermark back before they have rows."""
        try:
            for name in discovery.find(now_ns):
                partition = self._open(name, None)
                partition.idle = True
                self._partitions.append(partition)
                self._merge.add()
                discovery.opened(name)
        except RetryableError:
            # They are found again the next time.
            return

    def _position(self, item: Partition) -> PartitionPosition:
        at = item.reader.position()
        return PartitionPosition(at, item.latest_us, self._merge.time_us, item.ended, item.normaliser.rows)

    def _ask(self, partition: Partition, now_ns: int) -> Read:
        """Read from a partition; a failure that may pass is as if nothing were there, for a while."""
        # Unset first: what the reader says while it reads is for the next time.
        partition.stirred = False
        try:
            read = partition.reader.read(self._batch_rows - self._gathered.rows)
        except RetryableError:
            partition.failures += 1
            if partition.failures > RETRIES:
                raise
            partition.retry_ns, partition.stirred = now_ns + (RETRY_NS << partition.failures), True
            return NOTHING
        partition.failures = 0
        return read

    def _read(self, partition: Partition, now_ns: int) -> Iterator[Element]:
        read = self._ask(partition, now_ns)
        rows = 0
        if read.rows is not None and read.rows.num_rows:
            rows = read.rows.num_rows
            if self._is_closed:
                raise UserError(closed_before(self.name))
            partition.is_live = True
            self.counters.rows_in += rows
            good, rejected = partition.normaliser.normalise(read.rows, self._latest_us())
            if rejected:
                self.counters.dead_lettered += len(rejected)
                self._dead_letters.reject_raw(self.name, rejected)
            if good.num_rows:
                self.counters.passed += good.num_rows
                self._gather(good, now_ns)
                if self._time is not None:
                    times_us = event_times_us(good, self._time)
                    first = partition.latest_us == START_OF_TIME_US
                    partition.began_us = int(times_us.min()) if first else partition.latest_us
                    partition.latest_us = max(partition.latest_us, int(times_us.max()))
        if read.rejected:
            self.counters.rows_in += len(read.rejected)
            self.counters.dead_lettered += len(read.rejected)
            self._dead_letters.reject_raw(self.name, read.rejected)
        if read.skipped:
            self.counters.rows_in += read.skipped
            self.counters.filtered += read.skipped
            if read.skipped_time_us is not None:
                latest_us = self._latest_us()
                skipped_us = read.skipped_time_us if latest_us is None else min(read.skipped_time_us, latest_us)
                partition.latest_us = max(partition.latest_us, skipped_us)
        if read.watermark_us is not None:
            partition.latest_us = max(partition.latest_us, read.watermark_us + self._delay_us)
        nothing = not (rows or read.rejected or read.skipped or read.ended or read.watermark_us is not None)
        if nothing:
            if not partition.failures:
                partition.rest(now_ns, read.again_us)
            if read.out_of_reach:
                partition.nothing_since_ns = None
            elif partition.nothing_since_ns is None and not partition.failures:
                partition.nothing_since_ns = now_ns
        else:
            partition.vain_reads = 0
            if read.again_us is not None:
                partition.rest(now_ns, read.again_us)
            else:
                # There may be more, which nobody says.
                partition.stirred = True
            partition.nothing_since_ns = None
            partition.idle = False
        partition.ended = read.ended
        partition.emptied = nothing or read.again_us is not None
        quiet = all(item.ended or item.failures or item.emptied for item in self._partitions)
        yield from self._flush(now_ns, force=quiet)
        if not self._gathered.rows:
            yield from self._watermark(now_ns)

    def _latest_us(self) -> int | None:
        """Return the greatest event time that a row may have now, None if any."""
        return None if self._max_ahead_us is None else self._clock.wall_us() + self._max_ahead_us

    def _gather(self, rows: pa.RecordBatch, now_ns: int) -> None:
        if not self._gathered.rows:
            self._gathered.since_ns = now_ns
        self._gathered.batches.append(rows)
        self._gathered.rows += rows.num_rows

    def _flush(self, now_ns: int, force: bool) -> Iterator[Element]:
        waiting = self._gathered
        if not waiting.rows:
            return
        large = waiting.rows * SMALL_FRACTION >= self._batch_rows
        if not (force or large or now_ns - waiting.since_ns >= self._linger_ns):
            return
        batches, ingest_ns = waiting.batches, waiting.since_ns
        self._gathered = Gathered()
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        self._said_idle = False
        for chunk in chunks(rows, self._batch_rows):
            yield Batch(chunk, ingest_ns=ingest_ns)

    def _watermark(self, now_ns: int) -> Iterator[Element]:
        """Advance the merged watermark: every partition's row was gathered and has left before it."""
        if self._time is None:
            return
        advanced, self._says_again = self._says_again, False
        for index, item in enumerate(self._partitions):
            if item.ended and not self._keeps:
                advanced |= self._merge.advance(index, END_OF_TIME_US)
                continue
            if item.latest_us != START_OF_TIME_US:
                advanced |= self._merge.advance(index, item.latest_us - self._delay_us)
            if item.ended:
                # What a partition may go on with in a later run is held for, if it brought rows in this one.
                if not (item.is_live and self._source.partitions_grow):
                    advanced |= self._merge.set_idle(index)
                continue
            silent_ns = 0 if item.nothing_since_ns is None else now_ns - item.nothing_since_ns
            if self._silence_ns is not None and silent_ns >= self._silence_ns:
                item.idle = True
                advanced |= self._merge.set_idle(index)
        if advanced and self._merge.time_us != END_OF_TIME_US:
            yield Watermark(self._merge.time_us)
        if (self._merge.idle or not self._partitions) and not self._said_idle:
            self._said_idle = True
            yield Idle()

    def _finish(self, end: EndOfStream) -> Iterator[Element]:
        yield from self._flush(0, force=True)
        self.ended = True
        yield end
