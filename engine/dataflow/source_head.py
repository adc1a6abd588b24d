"""The head of a source task: asks readers for rows, makes watermarks, notices idleness and the end.

Source partitions are read side by side in event time, and `SourceAlignment` keeps the instances of all sources that
are joined by channels within one batch of each other.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from penstock.engine.connectors.normalise import Normaliser
from penstock.engine.core.contract import Clock, DeadLetters, RowCounters, asleep
from penstock.engine.core.elements import END_OF_TIME_US, NO_ROWS, Batch, Element, EndOfStream, Left, Sic
from penstock.engine.dataflow.gathered_rows import GatheredRows
from penstock.engine.dataflow.partition_handover import GivenPartition, HeldSource, PartitionHandover
from penstock.engine.dataflow.partition_progress import behind_of, logs_of, waiting_of
from penstock.engine.dataflow.partition_sample import PartitionSample, partition_log, rates_of
from penstock.engine.dataflow.source_discovery import SourceDiscovery
from penstock.engine.dataflow.source_intake import SourceIntake
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.dataflow.source_partition import Partition
from penstock.engine.dataflow.source_sic import SourceSic
from penstock.engine.dataflow.source_watermark import SourceWatermark
from penstock.engine.restore.source_positions import EndedReader, PartitionPosition, merged_us, read_positions
from penstock.model.errors import RetryableError
from penstock.model.sic import Admission, SicTerms
from penstock.shedding.kept_log import Stretch

MOST_DROPPED = 1 << 15
"""How many records are dropped at once."""


class SourceHead:
    """Polls the partitions of one source instance."""

    def __init__(
        self,
        stream: SourceStream,
        start: SourceStart,
        pace: ReadPace,
        *,
        clock: Clock,
        counters: RowCounters,
        dead_letters: DeadLetters,
        wake: Callable[[], None] = asleep,
    ) -> None:
        """Open a reader per partition; ``wake`` makes the loop ask `wake_ns` again, from any thread."""
        self.name = stream.name
        self.counters = counters
        self._stream = stream
        self._source = stream.source
        self._pace = pace
        self._clock = clock
        self._discovery = start.discovery
        self._wake = wake
        # What is bounded is never idle.
        self._silence_ns = None if stream.source.bounded else pace.idle_timeout_ns
        positions = read_positions(stream.name, start.partitions, start.positions)
        self._partitions: list[Partition] = []
        # None: nothing has been armed.
        self._keep: float | None = None
        self._branches: Mapping[str, float] = {}
        self.sic: SourceSic | None = None
        """What its records stand for; None: nobody has said."""
        self._closed = False
        try:
            for item in start.partitions:
                self._partitions.append(self._open(item, positions.get(item)))
        except BaseException:
            self.close()
            raise
        self._intake = SourceIntake(stream, clock, counters, dead_letters, closed=start.closed)
        self._watermark = SourceWatermark(
            stream, self._partitions, merged_us(positions.values()), self._silence_ns, keeps=pace.keeps
        )
        self._gathered = GatheredRows(pace.batch_rows, pace.linger_ns)
        self.handover = PartitionHandover(
            self._partitions, self._watermark, self._open, self._position, is_held=start.joins
        )
        """What it gives to other instances of the source, and takes."""
        self._stopping: EndOfStream | Left | None = None
        self.ended = False
        self.exhausted = False
        """Whether a source that keeps its watermark has read all there is for this run."""

    @property
    def progress_us(self) -> int:
        """Start of the last read of the partition furthest behind; the end of time if all are ended or idle."""
        reading = [item.began_us for item in self._partitions if not (item.ended or item.idle or item.stopped)]
        return min(reading, default=END_OF_TIME_US)

    @property
    def watermark_us(self) -> int:
        """The merged watermark of the partitions."""
        return self._watermark.time_us

    def behind(self) -> dict[str, int]:
        """Return how many records wait in each partition whose reader knows it; from any thread."""
        return behind_of(tuple(self._partitions))

    def logs(self) -> list[tuple[str, int, int | None, int | None]]:
        """Return of each partition its name and how far it is, as `logs_of` says; from any thread."""
        return logs_of(tuple(self._partitions))

    @property
    def ordered(self) -> bool:
        """True if the source is aligned with others by its event time."""
        return self._stream.time is not None and self._source.aligned

    def wake(self) -> None:
        """Ask every reader again at once: something may be there now."""
        for item in self._partitions:
            item.retry_ns, item.stirred = 0, True

    def stop(self, drain: bool) -> None:
        """Read nothing more; the next poll ends the stream (``drain``: as if the input had ended)."""
        self._stopping = EndOfStream(drained=drain)

    def hold_partitions(self, instance: str) -> HeldSource:
        """Begin to change partitions with others, of which this is the ``instance``: return those that are here.

        Until `go_on` the watermark stays, and the stream does not end.
        """
        self.exhausted = self.exhausted and self.ended
        return self.handover.hold(instance, has_ended=self.ended)

    def has_stopped(self) -> bool:
        """Return whether nothing is read any more of what is to go: what was leaves before the next barrier."""
        return self.handover.has_stopped(reads=self._stopping is None)

    def give_partitions(self) -> dict[str, GivenPartition]:
        """Let go of what has stopped, behind a barrier."""
        return self.handover.give(is_closed=self._intake.is_closed)

    def go_on(
        self, given: Mapping[str, GivenPartition], index: int | None, parallelism: int, known: Sequence[str]
    ) -> None:
        """Go on with these partitions, too, as one of other instances, which together have those ``known``.

        ``index`` None: it is about to be dismissed.

        Raises:
            UserError: what was read of one is no longer there, or no longer the same.
            RetryableError: nobody answers.
        """
        self.handover.take(given)
        self._intake.is_closed |= any(each.is_closed for each in given.values())
        self.handover.resume(each.position.watermark_us for each in given.values())
        if self._discovery is not None and index is not None:
            self._discovery.redeal(index, parallelism, known)

    def dismiss(self) -> None:
        """Leave at the next poll; others read what was here."""
        self._stopping = Left()

    def wake_ns(self) -> int | None:
        """Return when polling makes sense again: 0 for now, None when ended, or when readers will say when."""
        is_held = self.handover.is_held
        if self.ended:
            return None
        if self._stopping is not None:
            return None if is_held else 0
        if self.exhausted:
            return None
        reading = [item for item in self._partitions if not item.ended]
        times = [due_ns for item in reading if (due_ns := item.due_ns(self._silence_ns)) is not None]
        if self._discovery is not None and not is_held:
            times.append(self._discovery.due_ns)
        return min(times, default=None if reading or is_held else 0)

    def linger_ns(self) -> int | None:
        """Return when rows that wait for more of them have waited long enough, None when there are none."""
        return self._gathered.due_ns()

    def cut(self) -> Iterator[Element]:
        """Let everything that was read leave, and its watermark; `positions` afterwards is just behind it."""
        yield from self._leave(self._clock.monotonic_ns(), force=True)

    def set_keep(self, keep: float, branches: Mapping[str, float] | None = None) -> None:
        """Arm it: this share of the records stays from the next read on, a multiple of 1/64 in [0, 1].

        Of ``branches``, by their names, those behind it, and samplers of keys, let so many of these go on. What was
        read before leaves with the rates that held then. From now on all that is read is logged.
        """
        names = (*self._stream.branches, *self._stream.keys)
        known = {} if branches is None else {name: branches[name] for name in names if name in branches}
        self._keep, self._branches = keep, {name: rate for name, rate in known.items() if rate < keep}
        for item in self._partitions:
            self._arm(item)

    def set_sic(self, terms: SicTerms) -> None:
        """Let what is read from now on have the SIC of these terms; without a shedder all is read as it comes."""
        if self.sic is None:
            self.sic = SourceSic(self.name, terms)
        self.sic.set_terms(terms)
        if not terms.sheds:
            self.admit({})

    def admit(self, admissions: Mapping[str, Sequence[Admission]]) -> None:
        """Let only these records be read of each partition that is named, before more are admitted; of others all.

        Arms it, as `set_keep` does.
        """
        if admissions and self._keep is None:
            self.set_keep(1.0)
        for item in self._partitions:
            admitted = admissions.get(item.name)
            item.admissions = None if admitted is None else deque(admitted)

    def waiting(self, *, old: bool) -> dict[str, int]:
        """Return how many records wait in each partition that has not ended, as `waiting_of` says."""
        return waiting_of(self._partitions, old=old)

    def unread(self) -> dict[str, bool]:
        """Return the partitions of which something admitted is not read yet, and whether some of it is to be kept."""
        return {item.name: item.has_kept() for item in self._partitions if item.admissions}

    def take_stretches(self) -> tuple[Stretch, ...]:
        """Return what was read since the last call, with its keep rates; nothing as long as it is not armed.

        Rows that were gathered and have not left are in it: ask after `cut`.
        """
        return tuple(
            stretch for item in self._partitions if item.sample is not None for stretch in item.sample.log.take()
        )

    def positions(self) -> dict[str, Any]:
        """Return where every partition continues, in bytes and in event time, as JSON-able data.

        Rows that were gathered and have not left are behind it: ask after `cut`.
        """
        return {item.name: msgspec.to_builtins(self._position(item)) for item in self._partitions}

    def poll(self) -> Iterator[Element]:
        """Read from the partition that is furthest behind, and from others while all is little; yield what follows."""
        if self._stopping is not None:
            yield from self._finish(self._stopping)
            return
        now_ns = self._clock.monotonic_ns()
        is_held = self.handover.is_held
        if self._discovery is not None and not is_held:
            self._discover(self._discovery, now_ns)
            if not self._partitions:
                yield from self._watermark.advance(self._partitions, now_ns)
        yield from self._read_due(now_ns)
        if self._discovery is None and not is_held and all(item.ended for item in self._partitions):
            if not self._pace.keeps:
                yield from self._finish(EndOfStream())
            elif not self.exhausted:
                self.exhausted = True
                yield from self._leave(now_ns, force=True)

    def leave(self) -> Iterator[Element]:
        """Let the rows that have waited long enough go, without reading."""
        yield from self._leave(self._clock.monotonic_ns(), force=False)

    def close(self) -> None:
        """Close every reader; a second call does nothing."""
        partitions = [] if self._closed else self._partitions
        self._closed = True
        for item in partitions:
            item.reader.close()

    def _is_due(self, partition: Partition, now_ns: int) -> bool:
        due_ns = partition.due_ns(self._silence_ns)
        return due_ns is not None and due_ns <= now_ns

    def _open(self, name: str, position: PartitionPosition | None) -> Partition:
        partition = self._opened(name, position)
        if not partition.ended:
            partition.watch(self._wake)
            self._arm(partition)
        return partition

    def _arm(self, partition: Partition, admission: Admission | None = None) -> None:
        """Let a partition be read at the keep rate that was set, if one was, or as its next records were admitted."""
        if self._keep is None:
            return
        if partition.sample is None:
            strata = self._stream.strata
            log = partition_log(self.name, self._source, partition.name, strata)
            partition.sample = PartitionSample(self._stream.seed, partition.name, log, self._clock, strata)
            partition.reader.sample_by(partition.sample)
        sample = partition.sample
        sample.keep, sample.branches = self._keep, self._branches
        if admission is None:
            return
        if not admission.is_kept:
            sample.keep, sample.branches = 0.0, {}
        elif admission.dropped_at:
            dropped = {name: 0.0 for name in admission.dropped_at if name in self._stream.branches}
            sample.branches = {**self._branches, **dropped}

    def _opened(self, name: str, position: PartitionPosition | None) -> Partition:
        time = self._stream.time.name if self._stream.time else None
        if position is None:
            return Partition(name, self._source.open(name, None), Normaliser(self._source.schema, time))
        normaliser = Normaliser(self._source.schema, time, position.rows)
        if position.ended and not self._source.partitions_grow:
            return Partition(name, EndedReader(position.at), normaliser, position.latest_us, ended=True)
        return Partition(name, self._source.open(name, position.at), normaliser, position.latest_us)

    def _discover(self, discovery: SourceDiscovery, now_ns: int) -> None:
        """Begin to read partitions that came since; they hold no watermark back before they have rows."""
        try:
            for name in discovery.find(now_ns):
                partition = self._open(name, None)
                partition.idle = True
                self._partitions.append(partition)
                self._watermark.add_partition()
                discovery.opened(name)
        except RetryableError:
            # They are found again the next time.
            return

    def _position(self, item: Partition) -> PartitionPosition:
        at = item.reader.position()
        return PartitionPosition(at, item.latest_us, self._watermark.time_us, item.ended, item.normaliser.rows)

    def _read_due(self, now_ns: int) -> Iterator[Element]:
        """Read each partition that is due once at most, until something has left.

        A step costs the same whatever it brings, so little that many partitions have is read in one, and leaves as one.
        """
        due = [item for item in self._partitions if not item.ended and self._is_due(item, now_ns)]
        due.sort(key=lambda item: item.latest_us)
        for item in due:
            taken = item.taken
            yield from self._read(item, now_ns, is_last=item is due[-1])
            if item.taken > taken and not self._gathered.rows:
                return

    def _read(self, partition: Partition, now_ns: int, *, is_last: bool) -> Iterator[Element]:
        most, taken = self._pace.batch_rows - self._gathered.rows, partition.taken
        if partition.admissions:
            admitted = partition.admissions[0]
            # What is dropped makes no batch, however many records that are.
            most = min(most if admitted.is_kept else MOST_DROPPED, admitted.records)
            self._arm(partition, admitted)
        elif partition.sample is not None:
            self._arm(partition)
        read = partition.ask(most, now_ns)
        good = self._intake.take(partition, read)
        partition.settle(read, now_ns)
        is_dropped = good is None and read.sampled is not None and read.sampled.shed > 0
        if is_dropped and partition.admissions is None and partition.taken - taken < most:
            partition.rest_after_drop(now_ns)
        if partition.admissions:
            partition.admit(partition.taken - taken)
        sic: Sic = ()
        if self.sic is not None:
            self.sic.read(partition.taken - taken, read.sampled or partition.sample)
            sic = self.sic.take() if good is not None else ()
        if good is not None:
            rates = rates_of(partition.sample, read.sampled, self._stream.branches, self._stream.keys)
            if rates != (self._gathered.keep, self._gathered.branches, self._gathered.keys):
                yield from self._flush(now_ns, force=True)
            self._gathered.add(good, now_ns, *rates, sic)
        elif is_dropped and not read.ended and partition.admissions and partition.admissions[0].is_kept:
            # What was dropped was no work yet: what stays of it is read in the same turn.
            yield from self._read(partition, now_ns, is_last=is_last)
            return
        quiet = is_last and all(item.ended or item.failures or item.emptied for item in self._partitions)
        yield from self._leave(now_ns, force=quiet)

    def _leave(self, now_ns: int, *, force: bool) -> Iterator[Element]:
        """Let gathered rows go, if it is time, and behind them the watermark."""
        yield from self._flush(now_ns, force=force)
        if not self._gathered.rows:
            for element in self._watermark.advance(self._partitions, now_ns):
                yield from self._lost()
                yield element

    def _flush(self, now_ns: int, *, force: bool) -> Iterator[Element]:
        batches = self._gathered.leave(now_ns, force=force)
        if batches:
            self._watermark.end_idleness()
        yield from batches

    def _finish(self, end: EndOfStream | Left) -> Iterator[Element]:
        yield from self._flush(0, force=True)
        yield from self._lost()
        self.ended, self.exhausted = True, isinstance(end, Left)
        yield end

    def _lost(self) -> Iterator[Element]:
        """Let what was dropped be known behind, if no row has taken it along."""
        if self.sic is not None and self.sic.has_lost():
            yield Batch(NO_ROWS, sic=self.sic.take())
