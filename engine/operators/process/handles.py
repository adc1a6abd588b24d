"""Value and reducing state in the hands of a row-wise process function: Python values of one piece's keys.

A piece's values are fetched at once when it begins and written back at once when it ends
(docs/design/keyed-state.md 5).
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import setitem
from typing import Any, NoReturn

import numpy as np

from penstock.engine.operators.process.point_state import PointState
from penstock.engine.operators.process.types import ValueType
from penstock.model.errors import PlanError
from penstock.model.process_states import ReducingState, ValueState
from penstock.state.keys.batch_keys import KeyBatch

ABSENT: Any = object()
"""Stands for no value."""

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


class Cursor:
    """The present call of a piece: the number of the key, its event time (None: it has none), and the time by both
    clocks of times to live.

    ``journal`` says how to undo what the current call has changed: functions and their arguments, in order.
    """

    __slots__ = ("at", "clock_us", "journal", "now_us", "time_us")

    def __init__(self) -> None:
        """Nowhere."""
        self.at = 0
        self.now_us = 0
        self.clock_us = 0
        self.time_us: int | None = None
        self.journal: list[tuple[Any, ...]] = []

    def undo(self) -> None:
        """Take back what the current call has changed."""
        for function, *arguments in reversed(self.journal):
            function(*arguments)
        self.journal.clear()


class StateHandle(ABC):
    """State of one piece's keys, which `Cursor` numbers."""

    @abstractmethod
    def begin(self, keys: KeyBatch) -> None:
        """Fetch the state of distinct keys."""

    @abstractmethod
    def end(self) -> None:
        """Write back what has changed."""


class Outside(list[Any]):
    """Stands in for a piece's values between pieces: says so when state is used there."""

    def __getitem__(self, index: Any) -> NoReturn:
        raise PlanError("state was used outside process() and on_timer(): there is no key whose state it could be")


OUTSIDE = Outside()


class RowValue(ValueState[Any], StateHandle):
    """Values that cannot change by themselves and live for ever."""

    def __init__(self, declared: ValueState[Any], state: PointState, type_: ValueType, cursor: Cursor) -> None:
        """Work on this state."""
        self.declared, self.default = declared.declared, declared.default
        self.ttl_us, self.ttl_clock = declared.ttl_us, declared.ttl_clock
        self._state = state
        self._type = type_
        self._exact = type_.exact
        self._admit = type_.admit
        self._cursor = cursor
        self._journal = cursor.journal
        self._values: list[Any] = OUTSIDE
        self._dirty = bytearray()

    def begin(self, keys: KeyBatch) -> None:
        """Fetch the values."""
        self._keys = keys
        self._dirty = bytearray(len(keys))
        slots = self._state.find(keys)
        self._present = np.flatnonzero(slots >= 0)
        self._slots = slots[self._present]
        self._values = self._spread(self._type.to_python(self._state.read(self._slots)), ABSENT)

    def end(self) -> None:
        """Write back the values that were set, and forget those that were cleared."""
        values, self._values = self._values, OUTSIDE
        touched = np.flatnonzero(np.frombuffer(self._dirty, np.uint8)).tolist()
        kept = [at for at in touched if values[at] is not ABSENT]
        if len(kept) < len(touched):
            cleared = [at for at in touched if values[at] is ABSENT]
            self._state.remove(self._keys.take(np.array(cleared, np.int64)))
        if kept:
            column = self._type.to_array([values[at] for at in kept])
            keys = self._keys if len(kept) == len(self._keys) else self._keys.take(np.array(kept, np.int64))
            self._state.write(keys, column, self._written_at(kept))

    def get(self) -> Any:
        """Return the key's value, or the default."""
        value = self._values[self._cursor.at]
        return self.default if value is ABSENT else value

    def set(self, value: Any) -> None:
        """Replace the key's value."""
        if type(value) is not self._exact:
            value = self._admit(value)
        at = self._cursor.at
        values = self._values
        self._journal.append((setitem, values, at, values[at]))
        values[at] = value
        self._dirty[at] = 1

    def clear(self) -> None:
        """Forget the key's value."""
        at = self._cursor.at
        self._journal.append((setitem, self._values, at, self._values[at]))
        self._values[at] = ABSENT
        self._dirty[at] = 1

    def _spread(self, values: list[Any], absent: Any) -> list[Any]:
        """Return one item for every key: what was found, in the places where there is a slot."""
        if len(values) == len(self._keys):
            return values
        spread = [absent] * len(self._keys)
        for at, value in zip(self._present.tolist(), values, strict=True):
            spread[at] = value
        return spread

    def _written_at(self, kept: list[int]) -> Any:
        return None


class RowInteger(RowValue):
    """Integers of 64 bits that live for ever, as most counts do."""

    def set(self, value: Any) -> None:
        """Replace the key's value."""
        if type(value) is not int or not _LEAST <= value <= _GREATEST:
            value = self._admit(value)
        at = self._cursor.at
        values = self._values
        self._journal.append((setitem, values, at, values[at]))
        values[at] = value
        self._dirty[at] = 1


class CarefulRowValue(RowValue):
    """Values with a time to live, or that the user could change in place."""

    def begin(self, keys: KeyBatch) -> None:
        """Fetch the values and when they were written."""
        super().begin(keys)
        if self.ttl_us is not None:
            self._written: list[int] = self._spread(self._state.written_us(self._slots).tolist(), 0)

    def get(self) -> Any:
        """Return the key's value, or the default."""
        value = self._current()
        return copy.deepcopy(self.default) if value is ABSENT else self._type.shown(value)

    def set(self, value: Any) -> None:
        """Replace the key's value."""
        super().set(value)
        if self.ttl_us is not None:
            at = self._cursor.at
            self._journal.append((setitem, self._written, at, self._written[at]))
            self._written[at] = self._now_us()

    def _current(self) -> Any:
        at = self._cursor.at
        value = self._values[at]
        if self.ttl_us is not None and value is not ABSENT and self._written[at] + self.ttl_us <= self._now_us():
            return ABSENT
        return value

    def _now_us(self) -> int:
        return self._cursor.now_us if self.ttl_clock == "event" else self._cursor.clock_us

    def _written_at(self, kept: list[int]) -> Any:
        return None if self.ttl_us is None else np.array([self._written[at] for at in kept], np.int64)


class RowReduced(CarefulRowValue):
    """Values made by a function of two."""

    def __init__(self, declared: ReducingState[Any], state: PointState, type_: ValueType, cursor: Cursor) -> None:
        """Work on this state."""
        super().__init__(declared, state, type_, cursor)
        self._function: Callable[[Any, Any], Any] = declared.function

    def add(self, value: Any) -> None:
        """Reduce the key's value with another."""
        old = self._current()
        if old is not ABSENT:
            if type(value) is not self._exact:
                value = self._type.shown(self._admit(value))
            value = self._function(self._type.shown(old), value)
        self.set(value)
