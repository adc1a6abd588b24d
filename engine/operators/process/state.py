"""All state of a process function in one operator instance: opened by what it declares, shown to tests."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.operators.process.batch_handles import BatchHandle, BatchList, BatchValue
from penstock.engine.operators.process.collections import RowList
from penstock.engine.operators.process.entry_state import EntryState
from penstock.engine.operators.process.handles import CarefulRowValue, Cursor, RowInteger, RowReduced, RowValue
from penstock.engine.operators.process.maps import RowMap
from penstock.engine.operators.process.point_state import PointState
from penstock.engine.operators.process.process_input import TimeProgress
from penstock.engine.operators.process.types import ValueType
from penstock.model.errors import PlanError
from penstock.model.process_states import ListState, MapState, ReducingState, State, ValueState
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import StateStore

RowHandle = RowValue | RowList | RowMap


class ProcessState:
    """The declared states, each with its tables."""

    def __init__(
        self, states: Mapping[str, State], store: StateStore, key_types: tuple[pa.DataType, ...], zone: str | None
    ) -> None:
        """Open the tables; ``zone`` is that of the datetimes of declared Python types."""
        self._states = dict(states)
        self._codec = KeyCodec(key_types)
        self._types: dict[str, tuple[ValueType, ...]] = {}
        self._stores: dict[str, PointState | EntryState] = {}
        for name, state in states.items():
            declared = [state.keys_declared] if isinstance(state, MapState) else []
            self._types[name] = tuple(
                ValueType(item.kind, item.in_zone(zone), f"{state.shape} state {name!r}")
                for item in (*declared, state.declared)
            )
            types = tuple(item.type for item in self._types[name])
            if isinstance(state, ValueState):
                self._stores[name] = PointState(store, name, key_types, types[0], state.ttl_us)
            else:
                self._stores[name] = EntryState(store, name, key_types, types, state.ttl_us)

    def row_handles(self, cursor: Cursor) -> dict[str, RowHandle]:
        """Return what a row-wise function works with, by name."""
        return {name: self._row_handle(name, state, cursor) for name, state in self._states.items()}

    def batch_handles(self) -> dict[str, BatchHandle]:
        """Return what a vectorised function works with, by name."""
        handles: dict[str, BatchHandle] = {}
        for name, state in self._states.items():
            types, store = self._types[name], self._stores[name]
            if isinstance(state, ValueState) and isinstance(store, PointState):
                handles[name] = BatchValue(state, store, types[0])
            elif isinstance(state, ListState) and isinstance(store, EntryState):
                handles[name] = BatchList(state, store, types[0])
        return handles

    def sweep(self, progress: TimeProgress) -> None:
        """Forget what has expired."""
        for name, state in self._states.items():
            if state.ttl_us is not None:
                self._stores[name].sweep(_now_us(state, progress))

    def due_us(self) -> int | None:
        """Return the least watermark at which something may have expired; None: there is none."""
        timed = [self._stores[name] for name, state in self._states.items() if state.ttl_clock == "event"]
        return min((due for store in timed if (due := store.due_us()) is not None), default=None)

    def peek(self, name: str, progress: TimeProgress) -> tuple[list[pa.Array], list[Any]]:
        """Return the columns of the keys that have something in a state, and what: a value, a list or a dict.

        Raises:
            PlanError: there is no such state.
        """
        if name not in self._states:
            raise PlanError(f"there is no state {name!r}; there are {', '.join(self._states) or 'none'}")
        state, store, types = self._states[name], self._stores[name], self._types[name]
        now_us = _now_us(state, progress)
        slots = store.table.live()
        if isinstance(store, PointState):
            slots = store.alive(slots, now_us)
            values = [types[0].shown(value) for value in types[0].to_python(store.read(slots))]
            return store.table.key_columns(slots), values
        columns = store.table.key_columns(slots)
        entries = store.find(self._codec.encode(columns, len(slots)))
        alive = np.ones(len(entries.slots), np.bool_)
        if state.ttl_us is not None:
            alive = store.written_us(entries.slots) + state.ttl_us > now_us
        parts = [
            [type_.shown(value) for value in type_.to_python(store.read(part, entries.slots[alive]))]
            for part, type_ in enumerate(types)
        ]
        gathered: list[Any] = [{} if isinstance(state, MapState) else [] for _ in range(len(slots))]
        for owner, *values in zip(entries.owners[alive].tolist(), *parts, strict=True):
            if isinstance(state, MapState):
                gathered[owner][values[0]] = values[1]
            else:
                gathered[owner].append(values[0])
        kept = np.array([bool(item) for item in gathered], np.bool_)
        return [column.filter(pa.array(kept)) for column in columns], [item for item in gathered if item]

    def _row_handle(self, name: str, state: State, cursor: Cursor) -> RowHandle:
        store, types = self._stores[name], self._types[name]
        if isinstance(store, PointState):
            if isinstance(state, ReducingState):
                return RowReduced(state, store, types[0], cursor)
            assert isinstance(state, ValueState)
            if state.ttl_us is not None or types[0].hand is not None:
                return CarefulRowValue(state, store, types[0], cursor)
            kind = RowInteger if types[0].type == pa.int64() else RowValue
            return kind(state, store, types[0], cursor)
        if isinstance(state, MapState):
            return RowMap(state, store, (types[0], types[1]), cursor)
        assert isinstance(state, ListState)
        return RowList(state, store, types[0], cursor)


def _now_us(state: State, progress: TimeProgress) -> int:
    return progress.watermark_us if state.ttl_clock == "event" else progress.clock_us
