"""The sample of keys of a join: rows of both inputs are dropped by the same hash of their keys, each at its own rate.

So a pair is there if its key stays at the lesser rate of both of its rows, and stands for 1 / that rate, not for the
product. While rates change, the rate of a row is the least at which rows of its time were read (`RateHistory`), which
depends on no key, so it is the chance of a pair to leave (docs/design/weights.md 6).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.contract import Notes, OperatorContext
from penstock.engine.core.elements import START_OF_TIME_US, Batch
from penstock.engine.core.event_time import event_times_us
from penstock.engine.operators.joins.join_schema import key_types
from penstock.engine.operators.key_sampler import KeySampler, no_buckets, noted_rates, without_dropped, without_keys
from penstock.model.errors import SchemaError
from penstock.model.join_specs import IntervalJoinSpec, JoinSpec
from penstock.model.keep_rates import STEPS
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.shedding.key_sampling import Times, key_buckets, key_steps
from penstock.state.keys.arrays import Ints

RATES = ("left_key_rates", "right_key_rates")
"""The notes of the rates at which the rows of each side were read, as bytes."""


class Part(NamedTuple):
    """The rows of a result that leave at one rate: their places (None: all), the rate in steps, and their buckets."""

    places: Ints | None
    limit: int
    buckets: pa.Array


class PairSample:
    """Drops rows of a join's inputs, and knows at which rate what is made of the others leaves."""

    def __init__(
        self, spec: JoinSpec | IntervalJoinSpec, left: StreamSchema, right: StreamSchema, name: str, gap_us: int
    ) -> None:
        """Compile the keys of the sides that are sampled; rates of times less than ``gap_us`` apart may be joined."""
        self._samplers = side_samplers(spec, left, right, name)
        self._times: list[TimeColumn | None] = [left.time, right.time]
        self._gap_us = gap_us

    def open(self, context: OperatorContext, needed_us: int) -> None:
        """Know the rates of the state that a join goes on from, whose rows of ``needed_us`` or later have yet to meet.

        Raises:
            SchemaError: rows of it were dropped by their keys, and the join is no longer sampled.
        """
        self._context = context
        self._rates = [noted_rates(context.restored, self._gap_us, note) for note in RATES]
        self._forgotten_us = START_OF_TIME_US
        if not any(self._samplers) and any(rates.reaches(needed_us) for rates in self._rates):
            raise refusal(context.name)

    def __bool__(self) -> bool:
        """Whether rows were dropped that concern what leaves from now on."""
        return any(self._rates)

    def notes(self) -> Notes:
        """Return the rates."""
        return {note: rates.encode() for note, rates in zip(RATES, self._rates, strict=True) if rates}

    def kept(self, port: int, batch: Batch) -> Batch:
        """Return the rows of a batch whose keys stay; the others are counted. Its header has no rates of keys."""
        sampler, time = self._samplers[port], self._times[port]
        limit = STEPS if sampler is None else sampler.limit(batch)
        if sampler is None or time is None or limit >= STEPS:
            return without_keys(batch)
        times_us = event_times_us(batch.rows, time)
        self._rates[port].add(int(times_us.min()), int(times_us.max()), limit)
        steps = sampler.steps(self._context.sampling_seed, batch.rows)
        return without_dropped(batch, steps, limit, self._context.counters)

    def least(self, port: int, starts_us: Times, stops_us: Times) -> NDArray[np.int64]:
        """Return the least rate, in steps, of the rows of a side in each stretch of time, both of its ends included."""
        return self._rates[port].least(starts_us, stops_us)

    def forget(self, before_us: int) -> None:
        """Join what is known of the time before to one piece, now and then: rows that old hardly meet any more."""
        if self and before_us - self._forgotten_us > self._gap_us:
            self._forgotten_us = before_us
            for rates in self._rates:
                rates.forget(before_us)

    def parts(self, limits: Ints, hashes: NDArray[np.uint64]) -> Iterator[Part]:
        """Yield rows of a result by their rates; see `parts_of`."""
        return parts_of(self._context.sampling_seed, limits, hashes)


def side_samplers(
    spec: JoinSpec | IntervalJoinSpec, left: StreamSchema, right: StreamSchema, name: str
) -> tuple[KeySampler | None, KeySampler | None]:
    """Return the samplers of the keys of both sides, which are compared in the same types; None: a side is whole."""
    types = key_types(spec, left, right, name)
    of_left, of_right = spec.samplers
    return (
        None if of_left is None else KeySampler(of_left, spec.left_keys, types, left.fields, name),
        None if of_right is None else KeySampler(of_right, spec.right_keys, types, right.fields, name),
    )


def parts_of(seed: int, limits: Ints, hashes: NDArray[np.uint64]) -> Iterator[Part]:
    """Yield rows of a result by their rates, those alone whose keys stay at them; ``hashes`` are of their keys."""
    stay = key_steps(seed, hashes) < limits
    for limit in np.unique(limits[stay]).tolist():
        places = np.flatnonzero(stay & (limits == limit))
        buckets = no_buckets(len(places)) if limit == STEPS else pa.array(key_buckets(seed, hashes[places]))
        yield Part(None if len(places) == len(limits) else places, limit, buckets)


def refusal(name: str) -> SchemaError:
    """Return the error of a join that is no longer sampled, and goes on from rows that were."""
    return SchemaError(
        f"rows that wait in {name!r} were dropped by their keys, and its pairs can no longer say so: give its queries "
        "their minimum accuracies back until these rows have met, or begin without state, with "
        f"drop_state={name!r}"
    )
