"""Rows with the steps and rates by which a stream shed them, and if wanted only those that stayed. Pure.

A log of keep rates says which rates held for an offset, `sample_steps` draws its step: so a batch decides anew which
records stayed, in the workers that read them. `source_reading` asks for it, `kafka_reading` makes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.model.keep_rates import STEPS, steps_of
from penstock.replay.kept_log import KeptLog
from penstock.replay.offsets import Partition
from penstock.shedding.offset_sampling import Steps, sample_steps

STEP, RATES = "$step", "$rates"
"""Columns: the step of a row's record, and which of `KeptLog.rates` held for it."""

SAMPLED_FIELDS = (pa.field(STEP, pa.int16()), pa.field(RATES, pa.int32()))

Ints = NDArray[np.int64]

_NO_ROWS: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Stretches of one partition, as columns: ``limits`` are keep rates in steps, ``rates`` places in the log's."""

    starts: Ints
    stops: Ints
    limits: Ints
    rates: Ints


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sample of a source; with ``leaves_out`` the records that did not stay at the source are not decoded."""

    seed: int
    stretches: Mapping[Partition, _Stretches]
    leaves_out: bool

    def of(self, topic: str, partition: int, offsets: Ints) -> tuple[Steps, Ints, NDArray[np.bool_]]:
        """Return the steps of records, the places of their rates, and which stayed."""
        steps = sample_steps(self.seed, f"{topic}/{partition}", offsets)
        known = self.stretches.get((topic, partition))
        if known is None:
            return steps, np.zeros(len(offsets), np.int64), np.ones(len(offsets), np.bool_)
        place = np.maximum(np.searchsorted(known.starts, offsets, side="right") - 1, 0)
        within = (offsets >= known.starts[place]) & (offsets < known.stops[place])
        limits = np.where(within, known.limits[place], STEPS)
        return steps, np.where(within, known.rates[place], 0), steps < limits


def sampling_of(log: KeptLog, source: str, *, leaves_out: bool) -> Sampling:
    """Return the sample of the topics that a source reads."""
    rates = log.rates()
    stretches: dict[Partition, _Stretches] = {}
    for (operator, topic, partition), parts in log.stretches.items():
        if operator != source or topic is None or not parts:
            continue
        assert isinstance(partition, int)
        columns = [
            [part.start for part in parts],
            [part.stop for part in parts],
            [steps_of(part.rates.keep) for part in parts],
            [rates.index(part.rates) for part in parts],
        ]
        stretches[topic, partition] = _Stretches(*(np.array(column, np.int64) for column in columns))
    return Sampling(log.seed, stretches, leaves_out)


@dataclass(frozen=True, slots=True)
class SampledRowMaker(RowMaker):
    """Makes the rows of another maker, with `STEP` and `RATES`; what is left out counts as skipped."""

    maker: RowMaker = field(kw_only=True)
    sampling: Sampling = field(kw_only=True)

    @property
    def schema(self) -> pa.Schema:
        """The fields of the rows."""
        return pa.schema([*self.maker.schema, *SAMPLED_FIELDS])

    def fresh(self) -> SampledRowMaker:
        """Return one for a reader of its own."""
        return replace(self, maker=self.maker.fresh())

    def make(self, messages: Messages) -> DecodedMessages:
        """Make rows of those messages that stayed, or of all; see `RowMaker.make`."""
        steps, rates, stayed = self.sampling.of(messages.topic, messages.partition, messages.offsets)
        made = made_of(self.maker, messages, stayed if self.sampling.leaves_out else None)
        columns = [pa.array(steps[made.row_of], pa.int16()), pa.array(rates[made.row_of], pa.int32())]
        rows = pa.RecordBatch.from_arrays([*made.rows.columns, *columns], schema=self.schema)
        return replace(made, rows=rows)


def sampled_maker(maker: RowMaker, sampling: Sampling) -> RowMaker:
    """Return a maker of the same rows with their steps and rates."""
    return SampledRowMaker(
        **{item.name: getattr(maker, item.name) for item in fields(RowMaker)}, maker=maker, sampling=sampling
    )


def made_of(
    maker: RowMaker,
    messages: Messages,
    wanted: NDArray[np.bool_] | None,
    make: Callable[[RowMaker, Messages], DecodedMessages] | None = None,
) -> DecodedMessages:
    """Make rows of the ``wanted`` messages (None: all); the others count as skipped. ``make`` is by default its own."""
    make = make or (lambda maker, messages: maker.make(messages))
    if wanted is None or wanted.all():
        return make(maker, messages)
    places, left_out = np.flatnonzero(wanted), np.flatnonzero(~wanted)
    if not len(places):
        return DecodedMessages(pa.RecordBatch.from_pylist([], schema=maker.schema), _NO_ROWS, (), left_out)
    rows = make(maker, _messages_at(messages, places))
    return DecodedMessages(
        rows.rows,
        places[rows.row_of],
        [(int(places[index]), reason) for index, reason in rows.errors],
        np.sort(np.concatenate([left_out, places[rows.skipped]])),
        rows.skipped_time_us,
    )


def _messages_at(messages: Messages, places: Ints) -> Messages:
    """Return the messages at these places."""
    which = places.tolist()
    return Messages(
        messages.topic,
        messages.partition,
        [messages.values[place] for place in which],
        messages.offsets[places],
        messages.stamps[places],
        None if messages.keys is None else [messages.keys[place] for place in which],
        None if messages.headers is None else [messages.headers[place] for place in which],
    )
