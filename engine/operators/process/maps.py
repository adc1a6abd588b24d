"""Map state in the hands of a row-wise process function: dicts of one piece's keys, read as a whole when touched."""

from operator import setitem
from typing import Any

import numpy as np

from penstock.engine.operators.process.collections import Collection
from penstock.engine.operators.process.entry_state import EntryState
from penstock.engine.operators.process.handles import Cursor
from penstock.engine.operators.process.types import ValueType
from penstock.model.process_states import MapState
from penstock.state.keys.batch_keys import KeyBatch

_NEW = 1 << 62
_SPARSE = 16

Dicts = tuple[dict[Any, Any], dict[Any, int], dict[Any, int]]
"""A key's entries, in order: values, numbers (in the state, or from `_NEW` on), and when they were written (with a time
to live only). Dicts of plain values cost the garbage collector nothing."""


class RowMap(Collection, MapState[Any, Any]):
    """Maps. ``_loaded`` holds each key's entries as they are now, ``_removed`` the numbers of those that left."""

    def __init__(
        self, declared: MapState[Any, Any], state: EntryState, types: tuple[ValueType, ValueType], cursor: Cursor
    ) -> None:
        """Work on this state; ``types`` are those of keys and values."""
        self._attach(declared, state, cursor)
        self._key_type, self._type = types

    def begin(self, keys: KeyBatch) -> None:
        """Number the keys."""
        super().begin(keys)
        self._removed: list[tuple[int, int]] = []
        self._changed: set[tuple[int, Any]] = set()
        self._spans: dict[int, int] = {}
        self._next = _NEW

    def end(self) -> None:
        """Write back what was put and deleted."""
        loaded = self._detach()
        anew = {at for at in self._touched if self._rewritten(at, loaded[at])}
        self._state.clear(self._keys_at(sorted(anew)))
        removed = [(at, number) for at, number in self._removed if at not in anew]
        self._state.remove(
            self._keys_at([at for at, _ in removed]), np.array([number for _, number in removed], np.int64)
        )
        changed = [
            (at, loaded[at][1][key], key) for at, key in self._changed if at not in anew and key in loaded[at][0]
        ]
        old = [entry for entry in changed if entry[1] < _NEW]
        numbers = np.array([entry[1] for entry in old], np.int64)
        self._state.rewrite(self._keys_at([entry[0] for entry in old]), numbers, *self._columns(old, loaded))
        new = [entry for entry in changed if entry[1] >= _NEW]
        new += [(at, number, key) for at in anew for key, number in loaded[at][1].items()]
        new.sort(key=lambda entry: entry[:2])
        owners, counts = np.unique(np.array([entry[0] for entry in new], np.int64), return_counts=True)
        self._state.append(self._keys.take(owners), counts, *self._columns(new, loaded))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of an entry, or ``default``."""
        values, _, written = self._dicts()
        if type(key) is not self._key_type.exact:
            key = self._key_type.admit(key)
        if key not in values or (self.ttl_us is not None and not self._alive(written[key])):
            return default
        value = values[key]
        return value if self._type.hand is None else self._type.shown(value)

    def put(self, key: Any, value: Any) -> None:
        """Add or replace an entry."""
        if type(key) is not self._key_type.exact:
            key = self._key_type.admit(key)
        if type(value) is not self._type.exact:
            value = self._type.admit(value)
        dicts = self._dicts()
        values, numbers, written = dicts
        journal, at = self._cursor.journal, self._cursor.at
        if self.ttl_us is not None:
            if key in values and not self._alive(written[key]):
                self._take_out(dicts, key)
            journal.append((setitem, written, key, written.get(key, 0)))
            written[key] = self._now_us()
        if key in values:
            journal.append((setitem, values, key, values[key]))
        else:
            numbers[key] = self._next
            self._next += 1
            journal.append((dict.pop, numbers, key))
            journal.append((dict.pop, values, key))
        values[key] = value
        self._changed.add((at, key))
        self._touched.add(at)

    def delete(self, key: Any) -> None:
        """Remove an entry, if it is there."""
        dicts, key = self._dicts(), self._key_type.admit(key)
        if key in dicts[0]:
            self._take_out(dicts, key)
            self._touched.add(self._cursor.at)

    def items(self) -> list[tuple[Any, Any]]:
        """Return all entries."""
        values, _, written = self._dicts()
        shown = self._type.shown
        return [(k, shown(value)) for k, value in values.items() if self.ttl_us is None or self._alive(written[k])]

    def contains(self, key: Any) -> bool:
        """Return whether there is such an entry."""
        values, _, written = self._dicts()
        key = self._key_type.admit(key)
        return key in values and (self.ttl_us is None or self._alive(written[key]))

    def clear(self) -> None:
        """Forget the key's map."""
        at, dicts = self._cursor.at, self._dicts()
        self._cursor.journal.append((setitem, self._loaded, at, dicts))
        self._cursor.journal.append((setitem, self._cleared, at, self._cleared[at]))
        self._loaded[at] = ({}, {}, {})
        self._cleared[at] = 1
        self._touched.add(at)

    def _dicts(self) -> Dicts:
        at = self._cursor.at
        dicts: Dicts = self._loaded[at] or self._load(at)
        return dicts

    def _take_out(self, dicts: Dicts, key: Any) -> None:
        values, numbers, _ = dicts
        number = numbers.pop(key)
        self._cursor.journal.append((_put_back, values, numbers, key, values.pop(key), number))
        if number < _NEW:
            self._removed.append((self._cursor.at, number))
            self._cursor.journal.append((list.pop, self._removed))

    def _rewritten(self, at: int, dicts: Dicts) -> bool:
        """Return whether all entries are to be rewritten: they were cleared, are all gone, or left many holes."""
        return bool(self._cleared[at]) or not dicts[0] or self._spans.get(at, 0) > 2 * len(dicts[0]) + _SPARSE

    def _columns(self, entries: list[tuple[int, int, Any]], loaded: list[Dicts]) -> tuple[list[Any], Any]:
        columns = [
            self._key_type.to_array([key for _, _, key in entries]),
            self._type.to_array([loaded[at][0][key] for at, _, key in entries]),
        ]
        if self.ttl_us is None:
            return columns, None
        return columns, np.array([loaded[at][2][key] for at, _, key in entries], np.int64)

    def _keys_at(self, positions: list[int]) -> KeyBatch:
        return self._keys.take(np.array(positions, np.int64))

    def _keep(self, wanted: list[int], counts: list[int], slots: Any, written: list[int], numbers: list[int]) -> None:
        keys = self._key_type.to_python(self._state.read(0, slots))
        values = self._type.to_python(self._state.read(1, slots))
        start = 0
        for at, count in zip(wanted, counts, strict=True):
            stop = start + count
            names = keys[start:stop]
            times = {} if self.ttl_us is None else dict(zip(names, written[start:stop], strict=True))
            self._loaded[at] = (
                dict(zip(names, values[start:stop], strict=True)),
                dict(zip(names, numbers[start:stop], strict=True)),
                times,
            )
            if count:
                self._spans[at] = numbers[stop - 1] - numbers[start] + 1
            start = stop


def _put_back(values: dict[Any, Any], numbers: dict[Any, int], key: Any, value: Any, number: int) -> None:
    """Put an entry back where it was in the order."""
    values[key], numbers[key] = value, number
    ordered = sorted(numbers.items(), key=lambda item: item[1])
    current = values.copy()
    values.clear()
    numbers.clear()
    for name, place in ordered:
        values[name], numbers[name] = current[name], place
