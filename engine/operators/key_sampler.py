"""The step in front of keyed state that drops rows by their keys, at the rate that came with a batch.

Rows are dropped where their key is known: behind decoding and the exchange, before state is looked at. The rates are
decided where rows are read and come in the header of each batch (`Batch.keys`), so that the log of the source has them.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.core.contract import Notes, RowCounters
from penstock.engine.core.elements import Batch
from penstock.engine.expressions.compiler import ROW_ERRORS, compile_projection, evaluate_isolating
from penstock.model.expressions import Expr
from penstock.model.keep_rates import STEPS
from penstock.shedding.key_sampling import RateHistory, key_buckets, key_steps
from penstock.shedding.offset_sampling import Steps
from penstock.state.keys.batch_keys import KeyCodec

RATES = "key_rates"
"""The note of the rates at which the rows of state were read, as bytes."""


def noted_rates(restored: Iterable[Notes], gap_us: int, note: str = RATES) -> RateHistory:
    """Return the rates that notes of this name tell of, all together."""
    rates = RateHistory(gap_us)
    for notes in restored:
        known = notes.get(note)
        if isinstance(known, bytes):
            rates.include(RateHistory(gap_us, known))
    return rates


class KeySampler:
    """The sampler of one input of a keyed operator, by its number behind the source."""

    def __init__(
        self,
        number: int,
        keys: Sequence[Expr],
        types: Sequence[pa.DataType],
        fields: pa.Schema,
        operator: str,
    ) -> None:
        """Compile the keys, which are compared in these types."""
        self._number = number
        self._projection = compile_projection([(f"k{at}", key) for at, key in enumerate(keys)], fields, operator)
        self._codec = KeyCodec(types)

    def limit(self, batch: Batch) -> int:
        """Return the steps below which keys stay, `STEPS` where all do."""
        return batch.keys[self._number] if batch.keys else STEPS

    def steps(self, seed: int, rows: pa.RecordBatch) -> Steps:
        """Return the step of the key of each row; rows whose key cannot be computed stay, to be rejected."""
        try:
            return self.steps_of(seed, self._projection(rows).columns, rows.num_rows)
        except ROW_ERRORS:
            keyed = evaluate_isolating(self._projection, rows)
        steps = np.zeros(rows.num_rows, np.uint8)
        if keyed.result is not None:
            good = keyed.result
            steps[np.asarray(keyed.good)] = self.steps_of(seed, good.columns, good.num_rows)
        return steps

    def steps_of(self, seed: int, keys: Sequence[pa.Array], rows: int) -> Steps:
        """Return the step of each of these keys."""
        hashes: NDArray[np.uint64] = self._codec.hash(keys, rows)
        return key_steps(seed, hashes)

    def buckets_of(self, seed: int, keys: Sequence[pa.Array], rows: int) -> pa.Array:
        """Return the bucket of each of these keys (`key_buckets`)."""
        return pa.array(key_buckets(seed, self._codec.hash(keys, rows)))


def no_buckets(rows: int) -> pa.Array:
    """Return what stands for the buckets of rows that are no sample, whose buckets nobody looks at."""
    return _zeros(1 << max(rows - 1, 0).bit_length()).slice(0, rows)


@lru_cache(maxsize=64)
def _zeros(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, np.uint8))


def without_keys(batch: Batch) -> Batch:
    """Return a batch whose header has no rates of keys."""
    if not batch.keys:
        return batch
    return Batch(batch.rows, batch.keep, batch.ingest_ns, batch.opposite_us, batch.branches)


def without_dropped(batch: Batch, steps: Steps, limit: int, counters: RowCounters) -> Batch:
    """Return a batch without the rows whose keys do not stay, which are counted; its header has no rates of keys."""
    stay = steps < limit
    rows = batch.rows if stay.all() else batch.rows.filter(pa.array(stay))
    dropped = batch.rows.num_rows - rows.num_rows
    counters.rows_in += dropped
    counters.shed += dropped
    return Batch(rows, batch.keep, batch.ingest_ns, batch.opposite_us, batch.branches)
