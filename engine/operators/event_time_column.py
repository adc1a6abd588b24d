"""Another column as event time: its own late rows, and a watermark that stays behind by a delay."""

from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.time_range import time_error, unusable_times
from penstock.engine.core.contract import LATE, MAIN, Emission, Notes, Operator, OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US, START_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us, time_type
from penstock.engine.operators.descriptions import Words
from penstock.engine.operators.descriptor import Columns, OperatorDescriptor, PlanContext, Sampling, Wanted, time_column
from penstock.engine.operators.ordered_rows import without_late
from penstock.model.durations import format_microseconds
from penstock.model.errors import PlanError
from penstock.model.job_graph import OperatorNode, TimeSpec
from penstock.model.schema import StreamSchema, TimeColumn, check_names
from penstock.state.checkpoints.operator_meaning import OperatorMeaning


class EventTimeColumn(Operator):
    """Passes rows on as they are, in the order in which they came.

    Rows whose new time is before the watermark that went out leave through ``late``; those whose new time is null or
    outside the years 1 to 9999 are dead letters.
    """

    def __init__(self, spec: TimeSpec, schema: StreamSchema, name: str) -> None:
        """Take the column; that it is a timestamp is checked by `TimeDescriptor`."""
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
        times_us = event_times_us(rows, self._time)
        rows, _ = yield from without_late(batch.with_rows(rows), times_us, self._passed_us, counters)
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


class TimeDescriptor(OperatorDescriptor[TimeSpec]):
    """Rows go through as they are; what is kept is the watermark that went out."""

    spec = TimeSpec
    verb = "event_time"
    operator = EventTimeColumn

    def outputs(self, spec: TimeSpec, inputs: Sequence[StreamSchema], name: str) -> Mapping[str, StreamSchema]:
        """Return the input's schema with its new event time.

        Raises:
            PlanError: the input is updating or has no watermarks, or the column is missing or no timestamp.
        """
        schema = inputs[0]
        check_names([spec.column], schema.fields.names, f"event_time() of {name!r}")
        if schema.time is None:
            raise PlanError(
                f"{name!r} takes event time from another column, but its input has no event time and so no watermarks; "
                "declare it at the source with time=..."
            )
        if schema.changelog:
            raise PlanError(
                f"{name!r} gives event time to an updating stream, which cannot have one; use a final window"
            )
        timed = StreamSchema(schema.fields, TimeColumn(spec.column))
        time_type(timed, name)
        return {MAIN: timed, LATE: schema}

    def needed(self, spec: TimeSpec, inputs: Sequence[StreamSchema], wanted: Wanted) -> Sequence[Set[str]]:
        """Add both event times; late rows are whole rows."""
        if LATE in wanted:
            return super().needed(spec, inputs, wanted)
        return [wanted.get(MAIN, frozenset()) | {spec.column} | time_column(inputs[0])]

    def with_hidden(self, spec: TimeSpec, names: Columns) -> TimeSpec:
        """Return the spec: rows are what they were."""
        return spec

    def sampling(self, spec: TimeSpec) -> Sampling:
        """Return that rows are what they were."""
        return Sampling.PASSED

    def meaning(self, spec: TimeSpec, context: PlanContext) -> OperatorMeaning:
        """Return whose watermark it is."""
        return OperatorMeaning(kind=self.verb, traits={"event time": spec.column})

    def words(self, spec: TimeSpec, node: OperatorNode) -> Words:
        """Say which column, and how far the watermark is behind."""
        delay = format_microseconds(spec.delay_us) if spec.delay_us else "0s"
        return Words(f"event time {spec.column}", (("watermark", f"{delay} behind the input's"),))


EVENT_TIME = TimeDescriptor()
