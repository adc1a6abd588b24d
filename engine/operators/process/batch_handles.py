"""Value and list state in the hands of a vectorised process function: columns aligned with a call's distinct keys.

What a call writes is kept until it has succeeded.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.operators.process.entry_state import EntryState
from penstock.engine.operators.process.point_state import PointState
from penstock.engine.operators.process.types import ValueType
from penstock.model.errors import SchemaError
from penstock.model.process_states import ListState, State, ValueState
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.keys.batch_keys import KeyBatch


class BatchHandle(State, ABC):
    """State of the distinct keys of one call."""

    def begin(self, keys: KeyBatch, read_us: Any, written_us: Any) -> None:
        """Work for these keys, whose state is read and written as of these times (one, or one a key)."""
        self._keys = keys
        self._read_us = read_us
        self._written_us = written_us
        self._forget()

    def commit(self) -> None:
        """Write what the call has changed."""
        self._write()
        self._forget()

    @abstractmethod
    def _write(self) -> None: ...

    @abstractmethod
    def _forget(self) -> None: ...

    def _written_at(self, positions: Ints) -> Ints | None:
        if self.ttl_us is None:
            return None
        times: Ints = np.broadcast_to(np.asarray(self._written_us, np.int64), len(self._keys))[positions]
        return times

    def _mask(self, mask: Any) -> Mask:
        if mask is None:
            return np.ones(len(self._keys), np.bool_)
        chosen = np.asarray(mask.to_numpy(zero_copy_only=False) if isinstance(mask, pa.Array) else mask)
        self._check_length(len(chosen), "mask")
        return chosen.astype(np.bool_)

    def _check_length(self, length: int, what: str) -> None:
        if length != len(self._keys):
            raise SchemaError(f"scatter() needs a {what} for each of context.keys: {len(self._keys)}, not {length}")


class BatchValue(ValueState[Any], BatchHandle):
    """Values, null where there is none."""

    def __init__(self, declared: ValueState[Any], state: PointState, type_: ValueType) -> None:
        """Work on this state."""
        self.declared, self.default = declared.declared, declared.default
        self.ttl_us, self.ttl_clock = declared.ttl_us, declared.ttl_clock
        self._state = state
        self._type = type_
        self._values: pa.Array | None = None
        self._touched: Mask = np.zeros(0, np.bool_)

    def gather(self) -> pa.Array:
        """Return the value of each key."""
        values = self._current()
        if self.default is None or not values.null_count:
            return values
        return pc.fill_null(values, pa.scalar(self.default, self._type.type))

    def scatter(self, values: Any, mask: Any = None) -> None:
        """Replace the value of each key, or of those where ``mask`` is true."""
        column = self._type.cast(values)
        self._check_length(len(column), "value")
        if mask is None:
            self._values, self._touched = column, self._mask(None)
            return
        chosen = self._mask(mask)
        self._values = _overlaid(self._current(), column, chosen)
        self._touched = self._touched | chosen

    def clear(self) -> None:
        """Forget the values of all keys."""
        self.scatter(pa.nulls(len(self._keys), self._type.type))

    def _current(self) -> pa.Array:
        if self._values is None:
            slots = self._state.find(self._keys)
            present = slots >= 0
            if self.ttl_us is not None:
                present[present] = (self._state.written_us(slots[present]) + self.ttl_us) > _at(self._read_us, present)
            values = self._state.read(slots[present])
            if len(values) < len(slots):
                places = np.cumsum(present) - 1
                values = values.take(pa.array(places, mask=~present))
            self._values = values
        return self._values

    def _write(self) -> None:
        if self._values is None or not self._touched.any():
            return
        valid = self._values.is_valid().to_numpy(zero_copy_only=False)
        if self._touched.all() and valid.all():
            self._state.write(self._keys, self._values, self._written_at(np.arange(len(self._keys))))
            return
        cleared = np.flatnonzero(self._touched & ~valid)
        kept = np.flatnonzero(self._touched & valid)
        self._state.remove(self._keys.take(cleared))
        self._state.write(self._keys.take(kept), self._values.take(pa.array(kept)), self._written_at(kept))

    def _forget(self) -> None:
        self._values = None
        self._touched = np.zeros(len(self._keys), np.bool_)


class BatchList(ListState[Any], BatchHandle):
    """Lists, empty where there is none."""

    def __init__(self, declared: ListState[Any], state: EntryState, type_: ValueType) -> None:
        """Work on this state."""
        self.declared, self.ttl_us, self.ttl_clock = declared.declared, declared.ttl_us, declared.ttl_clock
        self._state = state
        self._type = type_
        self._cleared: Mask = np.zeros(0, np.bool_)
        self._owners: list[Ints] = []
        self._added: list[pa.Array] = []

    def gather(self) -> pa.Array:
        """Return the list of each key."""
        entries = self._state.find(self._keys)
        kept = ~self._cleared[entries.owners]
        if self.ttl_us is not None:
            kept &= self._state.written_us(entries.slots) + self.ttl_us > _at(self._read_us, entries.owners)
        owners = np.concatenate([entries.owners[kept], *self._owners])
        values = pa.concat_arrays([self._state.read(0, entries.slots[kept]), *self._added])
        offsets = np.zeros(len(self._keys) + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=len(self._keys)), out=offsets[1:])
        if self._owners:
            values = values.take(pa.array(np.argsort(owners, kind="stable")))
        return pa.ListArray.from_arrays(pa.array(offsets), values)

    def scatter(self, lists: Any, mask: Any = None) -> None:
        """Replace the list of each key, or of those where ``mask`` is true."""
        column = ValueType(None, pa.list_(self._type.type), "the list").cast(lists)
        self._check_length(len(column), "list")
        chosen = self._mask(mask)
        self._cleared |= chosen
        kept = [~chosen[owners] for owners in self._owners]
        self._added = [values.filter(pa.array(keep)) for values, keep in zip(self._added, kept, strict=True)]
        self._owners = [owners[keep] for owners, keep in zip(self._owners, kept, strict=True)]
        places = np.flatnonzero(chosen)
        column = column.take(pa.array(places))
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        self.append_at(np.repeat(places, lengths), column.flatten())

    def append_at(self, groups: Any, values: Any) -> None:
        """Append values[i] to the list of the key number groups[i]."""
        owners = np.asarray(groups, np.int64)
        column = self._type.cast(values)
        if len(owners) != len(column):
            raise SchemaError(f"append_at() needs a group for each value: {len(column)}, not {len(owners)}")
        if len(owners) and not (owners.min() >= 0 and owners.max() < len(self._keys)):
            raise SchemaError(f"append_at() numbers context.keys, 0 to {len(self._keys) - 1}")
        self._owners.append(owners)
        self._added.append(column)

    def clear(self) -> None:
        """Forget the lists of all keys."""
        self.scatter(pa.nulls(len(self._keys), pa.list_(self._type.type)))

    def _write(self) -> None:
        self._state.clear(self._keys.take(np.flatnonzero(self._cleared)))
        if self._owners:
            owners = np.concatenate(self._owners)
            order = np.argsort(owners, kind="stable")
            keys, counts = np.unique(owners, return_counts=True)
            values = pa.concat_arrays(self._added).take(pa.array(order))
            self._state.append(self._keys.take(keys), counts, [values], self._written_at(owners[order]))

    def _forget(self) -> None:
        self._cleared = np.zeros(len(self._keys), np.bool_)
        self._owners = []
        self._added = []


def _at(times_us: Any, positions: Any) -> Any:
    return times_us[positions] if isinstance(times_us, np.ndarray) else times_us


def _overlaid(below: pa.Array, above: pa.Array, chosen: Mask) -> pa.Array:
    """Return ``above`` where chosen, else ``below``."""
    places = np.arange(len(chosen))
    return pa.concat_arrays([below, above]).take(pa.array(np.where(chosen, places + len(chosen), places)))
