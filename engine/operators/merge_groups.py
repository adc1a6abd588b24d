"""Groups that live for one merge: numbered from 0, cleared and used again."""

import numpy as np
import pyarrow as pa

from penstock.engine.accumulators.aggregation import Aggregation
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import FixedColumn, Slots, StateStore, TableSpec, VectorColumn

_NONE: Slots = np.zeros(0, np.int64)


class ScratchGroups:
    """Fresh groups of one aggregation, in a table of their own so that the state's budget bounds them."""

    def __init__(self, store: StateStore, aggregation: Aggregation, name: str = "merging") -> None:
        """Open the table ``name``."""
        columns = aggregation.columns()
        self._fixed = [name for name, spec in columns.items() if isinstance(spec, FixedColumn)]
        self._vectors = [name for name, spec in columns.items() if isinstance(spec, VectorColumn)]
        self._only_fixed = len(self._fixed) + len(self._vectors) == len(columns)
        self._table = store.table(TableSpec(name, (pa.int64(),), columns, lasting=False))
        self._codec = KeyCodec([pa.int64()])
        self._slots = _NONE
        self._dense = True
        self.cells = aggregation.bind(self._table)

    def take(self, count: int) -> Slots:
        """Return ``count`` slots as if they were new; those returned before are void."""
        if not self._only_fixed:
            self.release()
        held = len(self._slots)
        if held < count:
            # Grown by halves, so that many sizes in turn do not each pay for their difference.
            keys = self._codec.encode([pa.array(np.arange(held, max(count, held * 3 // 2)))])
            self._slots = np.concatenate([self._slots, self._table.upsert(keys).slots])
            self._dense = bool((self._slots == np.arange(len(self._slots))).all())
        slots = self._slots[:count]
        for name in self._fixed:
            self._table.array(name)[slice(count) if self._dense else slots] = 0
        for name in self._vectors:
            if (vectors := self._table.vectors(name)).is_used:
                vectors.rows()[slice(count) if self._dense else slots] = 0.0
        self.cells.reset(slots)
        return slots

    def slots_of(self, numbers: Slots) -> Slots:
        """Return the slots of groups by their numbers, 0 being the first that `take` returned."""
        return numbers if self._dense else self._slots[numbers]

    def release(self) -> None:
        """Give all slots back."""
        self._table.remove(self._slots)
        self._slots = _NONE
