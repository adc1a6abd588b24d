"""Sessions of a sample of keys: those that leave had no row dropped, and say how likely that was.

Rates change while a session is open. It is whole if its key stays at the least rate of all rows that could have been
its own, so it leaves in the sample of that rate; the others are let go without a word, as those of keys that were never
seen are (docs/design/weights.md 6).
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import Emission, Notes, OperatorContext
from penstock.engine.core.elements import START_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.operators.aggregates.session_aggregate import SessionAggregate
from penstock.engine.operators.key_sampler import RATES, KeySampler, no_buckets, noted_rates, without_dropped
from penstock.model.job_graph import AggregateSpec
from penstock.model.keep_rates import STEPS
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.state.store import Slots


class SampledSessions(SessionAggregate):
    """Sessions in event time, with final results, whose rows are dropped by their keys."""

    def __init__(self, spec: AggregateSpec, schema: StreamSchema, name: str) -> None:
        """Check and compile.

        Raises:
            PlanError: the aggregate cannot be built over this input.
        """
        super().__init__(spec, schema, name)
        assert spec.sampler is not None and schema.time is not None, "the planner samples such sessions alone"
        keys = [key for _, key in spec.keys]
        self._sampler = KeySampler(spec.sampler, keys, self._plan.key_types, schema.fields, name)
        self._time: TimeColumn = schema.time

    def open(self, context: OperatorContext) -> None:
        """Open the tables of sessions, and know the rates that those had which it goes on from."""
        self._rates = noted_rates(context.restored, self._gap_us)
        self._joined_us = START_OF_TIME_US
        super().open(context)

    def process(self, port: int, batch: Batch) -> Iterable[Emission]:
        """Drop rows by their keys and fold the others."""
        limit = self._sampler.limit(batch)
        if limit >= STEPS:
            return super().process(port, batch)
        times_us = event_times_us(batch.rows, self._time)
        self._rates.add(int(times_us.min()), int(times_us.max()), limit)
        steps = self._sampler.steps(self.context.sampling_seed, batch.rows)
        kept = without_dropped(batch, steps, limit, self.context.counters)
        return super().process(port, kept) if kept.rows.num_rows else ()

    def notes(self) -> Notes:
        """Return how far time has come, and the rates."""
        return {**super().notes(), RATES: self._rates.encode()} if self._rates else super().notes()

    def _check_rates(self, context: OperatorContext) -> None:
        """Take state whose rows were dropped by their keys."""

    def _results(self, over: Slots) -> Iterator[Batch]:
        """Return the sessions that had no row dropped, in batches of one rate."""
        if not self._rates:
            yield from super()._results(over)
            return
        starts_us, ends_us = self._sessions.bounds_us(over)
        limits = self._rates.least(starts_us - self._gap_us, ends_us)
        steps = self._sampler.steps_of(self.context.sampling_seed, self._table.key_columns(over), len(over))
        for limit in np.unique(limits[steps < limits]).tolist():
            for batch in super()._results(over[(limits == limit) & (steps < limit)]):
                yield Batch(batch.rows, limit / STEPS, batch.ingest_ns)
        self._join_old()

    def _buckets(self, keys: Sequence[pa.Array], rows: int) -> pa.Array:
        """Return the buckets of these keys, where some results are a sample."""
        return self._sampler.buckets_of(self.context.sampling_seed, keys, rows) if self._rates else no_buckets(rows)

    def _join_old(self) -> None:
        """Let go of rates that no session can be concerned by any more but those that reach back far."""
        settled_us = self._sessions.settled_before_us(self._watermark_us)
        if settled_us - self._joined_us > self._gap_us:
            self._joined_us = settled_us
            first = self._table.array("first")[self._table.live()]
            before_us = min(settled_us, int(first.min())) if len(first) else settled_us
            self._rates.forget(before_us - 2 * self._gap_us)
