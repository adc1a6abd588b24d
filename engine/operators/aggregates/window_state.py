"""The state of a final window aggregate and the rows of windows that are over: the parts all kinds of windows share.

`WindowAggregate` owns one `WindowState`: panes (`pane_state`), custom windows or the global one (here).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.core.contract import OperatorContext
from penstock.engine.core.elements import END_OF_TIME_US
from penstock.engine.core.event_time import time_array
from penstock.engine.operators.aggregates.aggregate_input import EvaluatedRows
from penstock.engine.operators.aggregates.aggregate_schema import AggregatePlan
from penstock.engine.operators.aggregates.assigned_windows import AssignedWindows
from penstock.engine.operators.key_lookup import KeyLookup
from penstock.state.keys.arrays import Ints, Mask
from penstock.state.store import Slots, TableSpec


@dataclass(frozen=True, slots=True)
class UnplacedRows:
    """The rows of a batch that no window took: ``late``, or ``outside`` every window (None: there are none)."""

    late: Mask | None = None
    outside: Mask | None = None


class WindowState(ABC):
    """The open windows of one operator instance, in a table whose prefix says which window or pane."""

    def __init__(self, plan: AggregatePlan, context: OperatorContext, leading: tuple[pa.DataType, ...] = ()) -> None:
        """Open the table; ``leading`` are the types of key columns in front of the user's."""
        self.plan = plan
        self.batch_rows = context.batch_rows
        columns = plan.aggregation.columns()
        key_types = (*leading, *plan.key_types)
        placed_by = context.placed(len(leading))
        spec = TableSpec("windows", key_types, columns, True, len(leading), placed_by=placed_by)
        self.table = context.state.table(spec)
        self.cells = plan.aggregation.bind(self.table)
        self._lookup = KeyLookup(self.table)
        self._retracting = plan.retracting

    @abstractmethod
    def fold(self, evaluated: EvaluatedRows, at_us: Ints, times_us: Ints | None, watermark_us: int) -> UnplacedRows:
        """Fold rows into those of their windows that are not over; ``at_us`` decides the windows."""

    @abstractmethod
    def results(self, watermark_us: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of every window that is over and was not before, by window end; then forget them."""

    @abstractmethod
    def next_us(self) -> int | None:
        """Return the watermark at which `results` has something to do next, None while only the end of time is one."""

    def release(self) -> None:
        """Give back memory that only the latest results needed; most need none."""

    def locate(self, evaluated: EvaluatedRows, prefix: Ints, *leading: pa.Array) -> Slots:
        """Return the slot of every row, made ready where it is new."""
        located = self._lookup.upsert(evaluated.keys(*leading), prefix)
        self.cells.reset(located.fresh)
        return located.slots

    def shown(self, slots: Slots) -> Slots:
        """Return the slots whose rows were not all taken back."""
        return slots[self.cells.row_counts(slots) > 0] if self._retracting else slots

    def show(self, slots: Slots) -> Iterator[pa.RecordBatch]:
        """Yield the results of slots."""
        for start in range(0, len(slots), self.batch_rows):
            part = slots[start : start + self.batch_rows]
            keys, bounds_us = self.places(part)
            yield self.rows(keys, bounds_us, self.cells.results(part))

    @abstractmethod
    def places(self, slots: Slots) -> tuple[list[pa.Array], tuple[Ints, ...]]:
        """Return the user's key columns of slots, and where their windows start and end, if they have bounds."""

    def rows(self, keys: list[pa.Array], bounds_us: tuple[Ints, ...], results: list[pa.Array]) -> pa.RecordBatch:
        """Put result rows together; ``bounds_us`` are starts and ends, or nothing for the global window."""
        bounds = [time_array(times_us, self.plan.bounds) for times_us in bounds_us]
        return self.plan.rows([*keys, *bounds], results)


class CustomWindowState(WindowState):
    """Windows of a `WindowAssigner`: kept under their end, keyed by their start and the user's keys."""

    def __init__(self, plan: AggregatePlan, context: OperatorContext, windows: AssignedWindows) -> None:
        super().__init__(plan, context, (pa.int64(),))
        self._windows = windows

    def fold(self, evaluated: EvaluatedRows, at_us: Ints, times_us: Ints | None, watermark_us: int) -> UnplacedRows:
        """Fold every row into each of its windows."""
        over_until_us = self._windows.over_until_us(watermark_us)
        assigned = self._windows.assign(at_us, over_until_us)
        assert assigned.rows is not None and assigned.starts_us is not None
        if len(assigned.rows):
            times_us = None if times_us is None else times_us[assigned.rows]
            evaluated = evaluated.take(assigned.rows)
            slots = self.locate(evaluated, assigned.ends_us, pa.array(assigned.starts_us))
            evaluated.fold(slots, times_us, self.cells)
        return UnplacedRows(assigned.late, assigned.outside)

    def results(self, watermark_us: int) -> Iterator[pa.RecordBatch]:
        """Yield windows by their end."""
        over_until_us = self._windows.over_until_us(watermark_us)
        over = self.table.slots_below(min(over_until_us, END_OF_TIME_US - 1) + 1)
        yield from self.show(self.shown(over))
        self.table.remove(over)

    def places(self, slots: Slots) -> tuple[list[pa.Array], tuple[Ints, ...]]:
        """Return keys and bounds, of which the start is the first key."""
        starts, *keys = self.table.key_columns(slots)
        return keys, (starts.to_numpy(), self.table.prefixes(slots))

    def next_us(self) -> int | None:
        """Return when the earliest window is over."""
        first_us = self.table.first_prefix()
        return None if first_us is None else self._windows.over_at_us(first_us)


class GlobalWindowState(WindowState):
    """One window over everything, over at the end of time."""

    def fold(self, evaluated: EvaluatedRows, at_us: Ints, times_us: Ints | None, watermark_us: int) -> UnplacedRows:
        """Fold every row into its key's only window."""
        slots = self.locate(evaluated, np.zeros(evaluated.count, np.int64))
        evaluated.fold(slots, times_us, self.cells)
        return UnplacedRows()

    def results(self, watermark_us: int) -> Iterator[pa.RecordBatch]:
        """Yield everything at the end of time."""
        if watermark_us < END_OF_TIME_US:
            return
        live = self.table.live()
        yield from self.show(self.shown(live))
        self.table.remove(live)

    def places(self, slots: Slots) -> tuple[list[pa.Array], tuple[Ints, ...]]:
        """Return the keys."""
        return self.table.key_columns(slots), ()

    def next_us(self) -> int | None:
        """Return None."""
        return None
