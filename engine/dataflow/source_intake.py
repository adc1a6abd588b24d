"""The intake of a reader's records: all counted, good rows separated from bad ones, the partition's progress."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.normalise import HiddenColumns
from penstock.engine.core.contract import Clock, DeadLetters, RawRecord, RowCounters
from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.core.event_time import event_times_us
from penstock.engine.dataflow.partition_sample import PartitionSample
from penstock.engine.dataflow.source_options import SourceStream
from penstock.engine.dataflow.source_partition import Partition
from penstock.engine.restore.source_positions import closed_before
from penstock.model.columns import Bools
from penstock.model.connectors import Read
from penstock.model.errors import BugError, UserError
from penstock.model.sampling import DRAW_FIELD, STEP, Sampled
from penstock.model.schema import TimeColumn


class SourceIntake:
    """Takes in the reads of one source instance."""

    def __init__(
        self, stream: SourceStream, clock: Clock, counters: RowCounters, dead_letters: DeadLetters, *, closed: bool
    ) -> None:
        """``closed``: no row may come."""
        self._stream = stream
        self._clock = clock
        self._counters = counters
        self._dead_letters = dead_letters
        self.is_closed = closed
        """Whether no row may come, as a run before closed what is behind the source."""

    def take(self, partition: Partition, read: Read) -> pa.RecordBatch | None:
        """Return the rows that are good, None if none are.

        Raises:
            UserError: a run before closed what is behind this source.
            BadRecordError: the source's policy for bad records is ``fail``.
        """
        good = None
        rows, chosen, sampled = read.rows, None, read.sampled
        partition.taken += read.skipped + len(read.rejected) + (0 if rows is None else rows.num_rows)
        if sampled is not None:
            partition.taken += sampled.shed
        elif partition.sample is not None and rows is not None and rows.num_rows:
            rows, chosen, sampled = self._sample(partition, partition.sample, rows)
        if rows is not None and (rows.num_rows or chosen is not None):
            good = self._normalised(partition, rows, chosen, self._hidden(partition, rows, sampled))
        if sampled is not None:
            self._take_shed(partition, sampled, alone=good is None)
        if read.rejected:
            self._counters.rows_in += len(read.rejected)
            self._reject(read.rejected)
        if read.skipped:
            self._counters.rows_in += read.skipped
            self._counters.filtered += read.skipped
            if read.skipped_time_us is not None:
                latest_us = self._latest_us()
                skipped_us = read.skipped_time_us if latest_us is None else min(read.skipped_time_us, latest_us)
                partition.latest_us = max(partition.latest_us, skipped_us)
        if read.watermark_us is not None:
            partition.latest_us = max(partition.latest_us, read.watermark_us + self._stream.delay_us)
        return good

    def _sample(
        self, partition: Partition, sample: PartitionSample, rows: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, Bools | None, Sampled]:
        """Drop rows by their numbers in the partition; return the others, and which these are unless they are all."""
        start = partition.normaliser.rows
        stop = start + rows.num_rows
        if sample.keeps_all():
            # Nobody asks which offset a row is of.
            return rows, None, Sampled(sample.keep, start, stop)
        numbers = np.arange(start, stop)
        chosen, branches = sample.chosen(numbers), sample.branches
        if chosen is None:
            return rows, None, Sampled(sample.keep, start, stop, branches=branches, offsets=numbers, drawn=sample.drawn)
        dropped, dated = np.flatnonzero(~chosen), None
        if dropped.size and self._stream.time is not None and sample.wants_time():
            dated = rows.slice(int(dropped[-1]), 1)
        drawn = None if sample.drawn is None else sample.drawn.where(chosen)
        sampled = Sampled(sample.keep, start, stop, int(dropped.size), dated, branches, numbers[chosen], drawn)
        return rows.filter(pa.array(chosen)), chosen, sampled

    def _hidden(self, partition: Partition, rows: pa.RecordBatch, sampled: Sampled | None) -> HiddenColumns:
        """Return the columns behind the rows of a read: what records drew, of a source with strata, and their steps.

        No steps are told if no branch needs to know.
        """
        hidden: list[tuple[pa.Field, pa.Array]] = []
        drawn = None if sampled is None else sampled.drawn
        if self._stream.strata is not None:
            steps = np.zeros(rows.num_rows, np.uint8) if drawn is None else drawn.steps
            hidden.append((DRAW_FIELD, pa.array(steps)))
        sample = partition.sample
        if sampled is None or sample is None or not any(name in sampled.branches for name in self._stream.branches):
            return hidden
        if drawn is not None:
            return [*hidden, (STEP, pa.array(drawn.steps))]
        if sampled.offsets is None or self._stream.strata is not None:
            raise BugError(
                f"the reader of {partition.name!r} knows rates of branches, but not which offset a row is of"
            )
        return [*hidden, (STEP, pa.array(sample.steps(sampled.offsets)))]

    def _take_shed(self, partition: Partition, sampled: Sampled, *, alone: bool) -> None:
        """Count what was dropped, log what held, and let the watermark come past it; ``alone``: no row came with it."""
        if partition.sample is not None:
            by_sic = partition.admissions is not None
            since = None if sampled.drawn is None else sampled.drawn.since
            partition.sample.log.add(
                sampled.start, sampled.stop, sampled.keep, sampled.branches, sic=by_sic, since=since
            )
        self._counters.rows_in += sampled.shed
        self._counters.shed += sampled.shed
        time = self._stream.time
        if sampled.dated is None or time is None:
            return
        times = partition.normaliser.usable_time(sampled.dated, self._latest_us())
        if times is not None and times.num_rows:
            began_us = partition.began_us
            partition.is_live = True
            _advance(partition, times, time)
            if not alone:
                partition.began_us = began_us

    def _normalised(
        self, partition: Partition, rows: pa.RecordBatch, chosen: Bools | None, hidden: HiddenColumns
    ) -> pa.RecordBatch | None:
        if self.is_closed:
            raise UserError(closed_before(self._stream.name))
        partition.is_live = True
        self._counters.rows_in += rows.num_rows
        good, rejected = partition.normaliser.normalise(rows, self._latest_us(), chosen, hidden)
        if rejected:
            self._reject(rejected)
        if not good.num_rows:
            return None
        self._counters.passed += good.num_rows
        if self._stream.time is not None:
            _advance(partition, good, self._stream.time)
        return good

    def _reject(self, records: Sequence[RawRecord]) -> None:
        self._counters.dead_lettered += len(records)
        self._dead_letters.reject_raw(self._stream.name, records)

    def _latest_us(self) -> int | None:
        """Return the greatest event time that a row may have now, None if any."""
        ahead_us = self._stream.max_ahead_us
        return None if ahead_us is None else self._clock.wall_us() + ahead_us


def _advance(partition: Partition, rows: pa.RecordBatch, time: TimeColumn) -> None:
    times_us = event_times_us(rows, time)
    first = partition.latest_us == START_OF_TIME_US
    partition.began_us = int(times_us.min()) if first else partition.latest_us
    partition.latest_us = max(partition.latest_us, int(times_us.max()))
