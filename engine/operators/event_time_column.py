"""Another column as event time: its own late rows, and a watermark that stays behind by a delay."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.time_range import time_error, unusable_times
from penstock.engine.core.contract import LATE, MAIN, Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.operators.ordered_rows import split_late
from penstock.model.job_graph import TimeSpec
from penstock.model.schema import StreamSchema, TimeColumn


class EventTimeColumn(Operator):
    """Passes rows on as they are, in the order in which they came.

    Rows whose new time is before the watermark that went out leave through ``late``; those whose new time is null or
    outside the years 1 to 9999 are dead letters.
    """

    def __init__(self, spec: TimeSpec, schema: StreamSchema, name: str) -> None:
        """Take the column; that it is a timestamp is checked by `output_schemas`."""
        self._time = TimeColumn(spec.column)
        self._delay_us = spec.delay_us

    def open(self, context: OperatorContext) -> None:
        """Go on behind the watermark that went out."""
        super().open(context)
        self._passed_us = context.earliest("passed_us", START_OF_TIME_US)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Pass the rows that are neither late nor without a usable time."""
        counters = self.context.counters
        rows = batch.rows
        counters.rows_in += rows.num_rows
        unusable = unusable_times(rows.column(self._time.name))
        if unusable is not None:
            self._reject(rows.filter(pa.array(unusable)))
            rows = rows.filter(pa.array(~unusable))
        if not rows.num_rows:
            return
        rows, _, late = split_late(rows, event_times_us(rows, self._time), self._passed_us)
        if late is not None:
            counters.late += late.num_rows
            yield LATE, batch.with_rows(late)
        counters.passed += rows.num_rows
        yield MAIN, batch.with_rows(rows)

    def on_watermark(self, time_us: int) -> Iterable[Emission]:
        """Note how far the outgoing watermark is."""
        self._passed_us = self.output_watermark(time_us)
        return ()

    def output_watermark(self, time_us: int) -> int:
        """Return the input's watermark less the delay; the start and the end of time stay."""
        if time_us == END_OF_TIME_US:
            return time_us
        return max(START_OF_TIME_US, time_us - self._delay_us)

    def notes(self) -> Notes:
        """Return the watermark that went out, which decides what is late."""
        return {"passed_us": self._passed_us}

    def due_us(self) -> int | None:
        """Return None: no row waits."""
        return None

    def _reject(self, rows: pa.RecordBatch) -> None:
        nulls = np.asarray(rows.column(self._time.name).is_null())
        self.context.counters.dead_lettered += rows.num_rows
        self.context.dead_letters.reject(
            self.context.name, rows, [time_error(self._time.name, is_null) for is_null in nulls.tolist()]
        )
