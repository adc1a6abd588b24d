"""Which rows of a recorded partition stayed by a log, and at which rates; steps are drawn as the log says they were."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.dataflow.strata_draws import StrataDraws, strata_of_keys
from penstock.model.columns import Bools, Floats
from penstock.model.connectors import Read
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.sampling import Drawn, Sampled
from penstock.shedding.kept_log import Stretch
from penstock.shedding.offset_sampling import Steps, sample_steps


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows that stayed: ``places`` among all of the partition, and by row the rate and the step that its record drew.

    ``is_dealt``: steps were dealt out by strata, and rows say what they drew.
    """

    places: NDArray[np.int64]
    keep: Floats
    steps: Steps
    is_dealt: Bools

    def read(self, rows: pa.Table, first: int, most: int) -> Read:
        """Return the next of the ``rows`` that stayed: no more than ``most``, and of one rate."""
        alike = (self.keep[first:] == self.keep[first]) & (self.is_dealt[first:] == self.is_dealt[first])
        changes = np.flatnonzero(~alike[:most])
        stop = min(first + (int(changes[0]) if changes.size else most), len(self.keep))
        drawn = Drawn(self.steps[first:stop], 0) if self.is_dealt[first] else None
        (batch,) = rows.slice(first, stop - first).combine_chunks().to_batches()
        sampled = Sampled(float(self.keep[first]), first, stop, drawn=drawn)
        return Read(batch, ended=stop == len(self.keep), sampled=sampled)


def kept_rows(seed: int, partition: str, stretches: Sequence[Stretch], branches: Sequence[str], rows: int) -> KeptRows:
    """Return what stayed of so many rows of a partition, beyond these branches; ``stretches`` are its own, in order.

    All rows stayed that are in none.
    """
    keep = np.ones(rows)
    for item in stretches:
        rates = [item.keep, *(item.branches[name] for name in branches if name in item.branches)]
        keep[item.start : item.stop] = min(rates)
    steps, is_dealt = logged_steps(seed, partition, stretches, rows)
    limits = np.array([steps_of(rate) for rate in keep.tolist()], np.int64)
    places = np.flatnonzero(steps < np.where(keep < 1.0, limits, STEPS))
    return KeptRows(places, keep[places], steps[places], is_dealt[places])


def logged_steps(
    seed: int, partition: str, stretches: Sequence[Stretch], rows: int, keys: Sequence[bytes | None] | None = None
) -> tuple[Steps, Bools]:
    """Return the step of each record of a partition by its log, and whether it was dealt out by strata.

    ``stretches`` are its own, in order; ``keys`` those of its messages, if strata are by them.
    """
    steps, is_dealt = sample_steps(seed, partition, np.arange(rows)), np.zeros(rows, np.bool_)
    draws: StrataDraws | None = None
    for item in stretches:
        if item.dealing is None:
            continue
        if draws is None or draws.since != item.dealing.since:
            draws = StrataDraws(seed, partition, item.dealing.since)
        strata = None
        if item.dealing.strata == "key":
            strata = strata_of_keys(None if keys is None else keys[item.start : item.stop], item.stop - item.start)
        steps[item.start : item.stop] = draws.draw(np.arange(item.start, item.stop), strata)
        is_dealt[item.start : item.stop] = True
    return steps, is_dealt
