"""The sample of keys of a join without bounds, whose rows stay for ever: their rates are known by their ids.

A pair is there if its key stays at the lesser rate of both of its rows, as in `pair_sample`. Ids of a side grow as its
rows come, so a rate holds from one id on. Rows that a join goes on from have the least rate of all that came before.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.engine.core.contract import Notes, OperatorContext
from penstock.engine.core.elements import Batch
from penstock.engine.operators.joins.pair_sample import RATES, refusal
from penstock.engine.operators.key_sampler import KeySampler, without_dropped, without_keys
from penstock.model.keep_rates import STEPS
from penstock.state.keys.arrays import Ints

_MOST_CHANGES = 256


class ArrivalRates:
    """The rates of one side's rows, in steps, by id."""

    def __init__(self, least: int) -> None:
        """Begin with rows all of which have this rate."""
        self.least = least
        """The least rate at which a row came, whether or not it stayed."""
        self._firsts, self._limits = [0], [least]
        self._changes = 0

    def add(self, first: int, limit: int) -> None:
        """Take in that rows from this id on came at a rate, in order of ids.

        After so many changes all rows have the least rate. That they are many depends on no key, so a rate never does.
        """
        if limit == self._limits[-1]:
            return
        self.least = min(self.least, limit)
        self._changes += 1
        if self._changes >= _MOST_CHANGES:
            self._firsts, self._limits, self._changes = [0], [self.least], 0
        self._firsts.append(first)
        self._limits.append(limit)

    def of(self, ids: Ints) -> NDArray[np.int64]:
        """Return the rates of rows."""
        places = np.searchsorted(np.array(self._firsts), ids, side="right") - 1
        return np.array(self._limits, np.int64)[places]


class ArrivalSample:
    """Drops rows of both sides of a join by their keys, and knows at which rate pairs of the others leave."""

    def __init__(self, samplers: Sequence[KeySampler | None]) -> None:
        """Begin with the samplers of the left and the right; None: that side is whole."""
        self._samplers = samplers

    def open(self, context: OperatorContext) -> None:
        """Know the least rates of the state that a join goes on from.

        Raises:
            SchemaError: rows of it were dropped by their keys, and the join is no longer sampled.
        """
        self._context = context
        self._rates = [ArrivalRates(_least(context.restored, note)) for note in RATES]
        if not any(self._samplers) and self:
            raise refusal(context.name)

    def __bool__(self) -> bool:
        """Whether rows were dropped."""
        return any(rates.least < STEPS for rates in self._rates)

    def notes(self) -> Notes:
        """Return the least rates."""
        return {note: rates.least for note, rates in zip(RATES, self._rates, strict=True) if rates.least < STEPS}

    def kept(self, port: int, batch: Batch, first: int) -> Batch:
        """Return the rows of a batch whose keys stay, which get ids from ``first`` on; the others are counted."""
        sampler = self._samplers[port]
        limit = STEPS if sampler is None else sampler.limit(batch)
        self._rates[port].add(first, limit)
        if sampler is None or limit >= STEPS:
            return without_keys(batch)
        steps = sampler.steps(self._context.sampling_seed, batch.rows)
        return without_dropped(batch, steps, limit, self._context.counters)

    def limits(self, port: int, ids: Ints) -> NDArray[np.int64]:
        """Return the rates of rows of a side, in steps."""
        return self._rates[port].of(ids)


def _least(restored: Sequence[Notes], note: str) -> int:
    """Return the least rate that notes tell of, in steps."""
    known = [notes[note] for notes in restored if note in notes]
    return min((limit for limit in known if isinstance(limit, int)), default=STEPS)
