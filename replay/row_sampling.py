"""Rows with the steps and rates by which a stream shed them, and if wanted only those that stayed. Pure.

A log of keep rates says which rates held for an offset, `sample_steps` draws its step: so a batch decides anew which
records stayed, in the workers that read them. `source_reading` asks for it, `kafka_reading` makes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.strata import Strata
from penstock.replay.kept_log import KeptLog
from penstock.replay.offsets import Partition
from penstock.replay.replayed_draws import ReplayedDraws
from penstock.shedding.offset_sampling import Steps, sample_steps

STEP, RATES = "$step", "$rates"
"""Columns: the step of a row's record, and which of `KeptLog.rates` held for it."""

SAMPLED_FIELDS = (pa.field(STEP, pa.int16()), pa.field(RATES, pa.int32()))

Ints = NDArray[np.int64]

_NO_ROWS: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Stretches of one partition, as columns: ``limits`` are keep rates in steps, ``rates`` places in the log's.

    ``since``: where dealing began by which steps were drawn, -1 where they follow from offsets; ``strata``: by which.
    """

    starts: Ints
    stops: Ints
    limits: Ints
    rates: Ints
    since: Ints
    strata: Strata | None


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sample of a source; with ``leaves_out`` the records that did not stay at the source are not decoded."""

    seed: int
    stretches: Mapping[Partition, _Stretches]
    leaves_out: bool

    def leads(self, partition: Partition) -> list[int]:
        """Return the offsets of a partition at which dealing of steps began."""
        known = self.stretches.get(partition)
        return [] if known is None else np.unique(known.since[known.since >= 0]).tolist()

    def of(self, messages: Messages, draws: ReplayedDraws) -> tuple[Steps, Ints, NDArray[np.bool_]]:
        """Return the steps of messages, the places of their rates, and which stayed."""
        offsets = messages.offsets
        steps = sample_steps(self.seed, f"{messages.topic}/{messages.partition}", offsets)
        known = self.stretches.get((messages.topic, messages.partition))
        if known is None:
            return steps, np.zeros(len(offsets), np.int64), np.ones(len(offsets), np.bool_)
        place = np.maximum(np.searchsorted(known.starts, offsets, side="right") - 1, 0)
        within = (offsets >= known.starts[place]) & (offsets < known.stops[place])
        if known.strata is not None:
            since = np.where(within, known.since[place], -1)
            steps = draws.steps(messages, since, known.strata, steps)
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
        starts, stops, limits, places, since = (
            [part.start for part in parts],
            [part.stop for part in parts],
            [steps_of(part.rates.keep) for part in parts],
            [rates.index(part.rates) for part in parts],
            [-1 if part.dealing is None else part.dealing.since for part in parts],
        )
        strata = next((part.dealing.strata for part in parts if part.dealing is not None), None)
        stretches[topic, partition] = _Stretches(
            _ints(starts), _ints(stops), _ints(limits), _ints(places), _ints(since), strata
        )
    return Sampling(log.seed, stretches, leaves_out)


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)


@dataclass(frozen=True, slots=True)
class SampledRowMaker(RowMaker):
    """Makes the rows of another maker, with `STEP` and `RATES`; what is left out counts as skipped.

    ``draws`` are those of the messages that it has seen; one that ``looks_only`` sees messages and makes no rows.
    """

    maker: RowMaker = field(kw_only=True)
    sampling: Sampling = field(kw_only=True)
    draws: ReplayedDraws = field(kw_only=True)
    looks_only: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The fields of the rows."""
        return pa.schema([*self.maker.schema, *SAMPLED_FIELDS])

    def fresh(self) -> SampledRowMaker:
        """Return one for a reader of its own, which goes on where this one is."""
        return replace(self, maker=self.maker.fresh())

    def begun(self) -> SampledRowMaker:
        """Return one that has seen no message."""
        return replace(self, draws=ReplayedDraws(self.sampling.seed))

    def looking_only(self) -> SampledRowMaker:
        """Return one that goes on where this one is, and makes no rows."""
        return replace(self, looks_only=True)

    def make(self, messages: Messages) -> DecodedMessages:
        """Make rows of those messages that stayed, or of all; see `RowMaker.make`."""
        steps, rates, stayed = self.sampling.of(messages, self.draws)
        wanted = np.zeros(len(messages), np.bool_) if self.looks_only else stayed if self.sampling.leaves_out else None
        made = made_of(self.maker, messages, wanted)
        columns = [pa.array(steps[made.row_of], pa.int16()), pa.array(rates[made.row_of], pa.int32())]
        rows = pa.RecordBatch.from_arrays([*made.rows.columns, *columns], schema=self.schema)
        return replace(made, rows=rows)


def sampled_maker(maker: RowMaker, sampling: Sampling) -> RowMaker:
    """Return a maker of the same rows with their steps and rates."""
    return SampledRowMaker(
        **{item.name: getattr(maker, item.name) for item in fields(RowMaker)},
        maker=maker,
        sampling=sampling,
        draws=ReplayedDraws(sampling.seed),
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
