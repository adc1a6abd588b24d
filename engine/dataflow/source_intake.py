"""The intake of a reader's records: all counted, good rows separated from bad ones, the partition's progress."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.engine.core.contract import Clock, DeadLetters, RawRecord, RowCounters
from penstock.engine.core.elements import START_OF_TIME_US
from penstock.engine.core.event_time import event_times_us
from penstock.engine.dataflow.source_options import SourceStream
from penstock.engine.dataflow.source_partition import Partition
from penstock.engine.restore.source_positions import closed_before
from penstock.model.connectors import Read
from penstock.model.errors import UserError
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
        self._closed = closed

    def take(self, partition: Partition, read: Read) -> pa.RecordBatch | None:
        """Return the rows that are good, None if none are.

        Raises:
            UserError: a run before closed what is behind this source.
            BadRecordError: the source's policy for bad records is ``fail``.
        """
        good = None
        partition.taken += read.skipped + len(read.rejected) + (0 if read.rows is None else read.rows.num_rows)
        if read.rows is not None and read.rows.num_rows:
            good = self._normalised(partition, read.rows)
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

    def _normalised(self, partition: Partition, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        if self._closed:
            raise UserError(closed_before(self._stream.name))
        partition.is_live = True
        self._counters.rows_in += rows.num_rows
        good, rejected = partition.normaliser.normalise(rows, self._latest_us())
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
