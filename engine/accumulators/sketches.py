"""approx_count_distinct (HyperLogLog) and approx_quantile (KLL) by Apache DataSketches; neither can
retract.

The distinct estimate does not depend on the order of rows. KLL tosses coins, so quantiles repeat
only to within their error (a rank error of 1.3% at k = 200).
"""

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.accumulators.arrays import Rows, build, doubles, kept_rows, numbered, signs_of, taken
from penstock.engine.accumulators.cells import Accumulator, Cells
from penstock.model.errors import BugError
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import KeyedTable, ObjectColumn, Slots

APPROXIMATE = ("approx_count_distinct", "approx_quantile")
"""The aggregates here."""

LG_K = 12
"""How many bits number the registers of a sketch of distinct values, unless it is said."""

_CHUNK_ROWS = 65_536
"""Rows grouped at once: a group's number fits 16 bits."""

_OVERHEAD_BYTES = 200
"""What an empty sketch and its Python object take."""


def standard_error(lg_k: int = LG_K) -> float:
    """Return the standard error of a number of different values, relative to it."""
    return 1.04 / math.sqrt(1 << lg_k)


def approx_count_distinct(kind: pa.DataType, lg_k: int) -> Accumulator:
    """Estimate the number of different values in an int64; see `standard_error`.

    Raises:
        ImportError: datasketches is not installed.
    """
    import datasketches

    column = ObjectColumn(
        lambda sketch: sketch.serialize_updatable(),
        datasketches.hll_sketch.deserialize,
        lambda sketch: _OVERHEAD_BYTES + sketch.get_updatable_serialization_bytes(),
    )
    return Accumulator(
        {"sketch": column},
        pa.int64(),
        lambda table, prefix: DistinctSketches(table, prefix, KeyCodec([kind]), lg_k),
        retractable=False,
    )


def approx_quantile(q: float, k: int) -> Accumulator:
    """Estimate the smallest value with at least a share ``q`` of all values at or below it, as a
    double.

    NaN is no number to rank and does not count.

    Raises:
        ImportError: datasketches is not installed.
    """
    import datasketches

    column = ObjectColumn(
        lambda sketch: sketch.serialize(),
        datasketches.kll_doubles_sketch.deserialize,
        lambda sketch: _OVERHEAD_BYTES + 8 * sketch.num_retained,
    )
    return Accumulator(
        {"sketch": column},
        pa.float64(),
        lambda table, prefix: QuantileSketches(table, prefix, lambda: datasketches.kll_doubles_sketch(k), q),
        retractable=False,
        family=("kll", k),
    )


class _Sketches(Cells):
    """One sketch a group, made when its first value comes."""

    def __init__(self, table: KeyedTable, prefix: str, empty: Callable[[], Any]) -> None:
        super().__init__(table, prefix)
        self._empty = empty

    def update(self, rows: Rows, values: Sequence[pa.Array], where: Mask | None) -> None:
        """Give every group its values of this batch."""
        if rows.weights is not None and np.any(rows.weights < 0):
            raise BugError("an approximate aggregate was given a retraction; please report it")
        kept = kept_rows(rows.slots, signs_of(rows, where, values))
        slots, items = taken(rows.slots, kept), self._items(taken(values[0], kept))
        for start in range(0, len(slots), _CHUNK_ROWS):
            self._feed(slots[start : start + _CHUNK_ROWS], items[start : start + _CHUNK_ROWS])

    def reset(self, slots: Slots) -> None:
        """Forget the sketches."""
        sketches = self.sketches()
        for slot in slots.tolist():
            sketches[slot] = None

    def absorb(self, into: Slots, other: Cells, slots: Slots) -> None:
        """Merge other's sketches into mine."""
        mine, theirs = self.sketches(), self.peer(other).sketches()
        for target, source in zip(into.tolist(), slots.tolist(), strict=True):
            if theirs[source] is not None:
                mine[target] = self._merged(mine[target], theirs[source])

    def sketches(self) -> list[Any]:
        """Return the sketch of each slot; None where no value came."""
        return self.table.objects(self.prefix + "sketch")

    def _at(self, sketches: list[Any], slot: int) -> Any:
        """Return the slot's sketch, made now if it has none."""
        if sketches[slot] is None:
            sketches[slot] = self._empty()
        return sketches[slot]

    @abstractmethod
    def _items(self, values: pa.Array) -> NDArray[Any]:
        """Return what the sketches take of each value."""

    @abstractmethod
    def _feed(self, slots: Slots, items: NDArray[Any]) -> None:
        """Give every group its items; at most `_CHUNK_ROWS`."""

    @abstractmethod
    def _merged(self, mine: Any, theirs: Any) -> Any:
        """Return my sketch (None: none yet) with theirs merged in; theirs stays as it is."""


class DistinctSketches(_Sketches):
    """HyperLogLog over 48 bits of the values' hashes."""

    def __init__(self, table: KeyedTable, prefix: str, codec: KeyCodec, lg_k: int) -> None:
        from datasketches import hll_sketch, hll_union, tgt_hll_type

        self._kind = tgt_hll_type.HLL_8
        super().__init__(table, prefix, lambda: hll_sketch(lg_k, self._kind))
        self._union: Callable[[], Any] = lambda: hll_union(lg_k)
        self.codec = codec

    def result(self, slots: Slots) -> pa.Array:
        """Return the estimates, rounded; 0 for a group without values."""
        sketches = self.sketches()
        estimates = [0.0 if sketches[slot] is None else self._estimate(sketches[slot]) for slot in slots.tolist()]
        return build(pa.int64(), np.rint(np.array(estimates, np.float64)).astype(np.int64))

    def _items(self, values: pa.Array) -> NDArray[Any]:
        return self.codec.hash([values]) >> np.uint64(16)

    def _feed(self, slots: Slots, items: NDArray[Any]) -> None:
        groups, touched = numbered(slots)
        different = np.unique((groups.astype(np.uint64) << np.uint64(48)) | items)
        hashes = (different & np.uint64(2**48 - 1)).tolist()
        sketches = self.sketches()
        for slot, start, end in _runs(touched, (different >> np.uint64(48)).astype(np.int64)):
            deque(map(self._at(sketches, slot).update, hashes[start:end]), maxlen=0)

    def _merged(self, mine: Any, theirs: Any) -> Any:
        union = self._union()
        if mine is not None:
            union.update(mine)
        union.update(theirs)
        return union.get_result(self._kind)

    def _estimate(self, sketch: Any) -> float:
        """Estimate from the registers alone: merged twice, a sketch forgets the history its own
        estimate is based on.
        """
        union = self._union()
        union.update(sketch)
        union.update(sketch)
        return float(union.get_estimate())


class QuantileSketches(_Sketches):
    """KLL over doubles."""

    def __init__(self, table: KeyedTable, prefix: str, empty: Callable[[], Any], q: float) -> None:
        super().__init__(table, prefix, empty)
        self.q = q

    def result(self, slots: Slots) -> pa.Array:
        """Return the estimates; null for a group without values."""
        sketches = self.sketches()
        chosen = [sketches[slot] for slot in slots.tolist()]
        valid = np.array([sketch is not None and not sketch.is_empty() for sketch in chosen], np.bool_)
        values = [self._quantile(sketch) if ok else 0.0 for sketch, ok in zip(chosen, valid, strict=True)]
        return build(pa.float64(), np.array(values, np.float64), valid)

    def _items(self, values: pa.Array) -> NDArray[Any]:
        return doubles(values)

    def _feed(self, slots: Slots, items: NDArray[Any]) -> None:
        groups, touched = numbered(slots)
        order = np.argsort(groups.astype(np.uint16), kind="stable")
        sorted_items = items[order]
        sketches = self.sketches()
        for slot, start, end in _runs(touched, groups[order]):
            self._at(sketches, slot).update(sorted_items[start:end])

    def _merged(self, mine: Any, theirs: Any) -> Any:
        merged = self._empty() if mine is None else mine
        merged.merge(theirs)
        return merged

    def _quantile(self, sketch: Any) -> float:
        if self.q == 0:
            return float(sketch.get_min_value())
        return float(sketch.get_max_value() if self.q == 1 else sketch.get_quantile(self.q, True))


def _runs(touched: Slots, groups: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield (slot, start, end) of each run of equal group numbers; every group has one run."""
    bounds = np.flatnonzero(np.diff(groups)) + 1
    starts = np.concatenate([np.zeros(1, np.int64), bounds])
    ends = np.concatenate([bounds, np.array([len(groups)])])
    return zip(touched[groups[starts]].tolist(), starts.tolist(), ends.tolist(), strict=True)
