"""Results that changed since they were last emitted, with their values then; for updating aggregates."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.kernels.changes import mark_touched
from penstock.state.keys.arrays import Ints, read_only
from penstock.state.store import Slots

_NONE: Slots = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Changes:
    """Slots touched since the last emission, each once, and the rows that some of them have shown.

    ``shown[i]`` is the emitted row of slot touched[shown_at[i]], or of a slot that is gone (-1). The gone come first,
    the others in the order of ``touched``. ``shown`` is None when no row has been shown.
    """

    touched: Slots
    shown_at: Ints
    shown: pa.RecordBatch | None


class PendingChanges:
    """Collects changes from batch to batch until they are taken."""

    def __init__(self) -> None:
        """Start without changes."""
        self._marks = np.zeros(0, np.uint8)
        self._place = np.zeros(0, np.int64)
        # Kept, because fresh memory costs more than what is written to it.
        self._fresh = np.empty(0, np.int64)
        self._touched: list[Slots] = []
        self._shown: list[tuple[Slots, pa.RecordBatch]] = []

    def __bool__(self) -> bool:
        return bool(self._touched or self._shown)

    def touch(self, slots: Slots, slot_limit: int) -> Slots:
        """Note that these slots (-1: none; all < slot_limit) change; return those not noted before, each once."""
        if len(self._marks) < slot_limit:
            marks = np.zeros(slot_limit, np.uint8)
            marks[: len(self._marks)] = self._marks
            self._marks = marks
            self._place = np.zeros(slot_limit, np.int64)
        if len(self._fresh) < len(slots):
            self._fresh = np.empty(len(slots), np.int64)
        touched = self._fresh[: mark_touched(read_only(slots), self._marks, self._fresh)].copy()
        if len(touched):
            self._touched.append(touched)
        return touched

    def show(self, slots: Slots, rows: pa.RecordBatch) -> None:
        """Remember what slots just touched for the first time have shown, in the order `touch` returned them."""
        if len(slots):
            self._shown.append((slots, rows))

    def forget(self, slots: Slots) -> None:
        """These slots are given back: they are no longer touched; what they have shown stays, to be retracted."""
        forgotten = np.zeros(len(self._marks), np.bool_)
        forgotten[slots] = True
        self._marks[slots] = 0
        self._touched = [kept for part in self._touched if len(kept := part[~forgotten[part]])]
        self._shown = [(np.where(forgotten[part], -1, part), rows) for part, rows in self._shown]

    def take(self) -> Changes:
        """Hand over all changes and start anew."""
        touched = np.concatenate(self._touched) if self._touched else _NONE
        slots, rows = self._all_shown()
        self._marks[touched] = 0
        self._touched, self._shown = [], []
        return self._changes(touched, slots, rows)

    def take_only(self, slots: Slots) -> Changes:
        """Hand over the changes of these slots and keep the others."""
        limit = len(self._marks)
        wanted = np.zeros(limit, np.bool_)
        wanted[slots[slots < limit]] = True
        touched = np.concatenate([part[wanted[part]] for part in self._touched] or [_NONE])
        if not len(touched):
            return Changes(_NONE, _NONE, None)
        self._touched = [kept for part in self._touched if len(kept := part[~wanted[part]])]
        self._marks[touched] = 0
        shown, rows = self._all_shown()
        self._shown = []
        if rows is None:
            return Changes(touched, _NONE, None)
        chosen = (shown >= 0) & wanted[shown]
        kept = np.flatnonzero(~chosen)
        self.show(shown[kept], rows.take(pa.array(kept)))
        taken = np.flatnonzero(chosen)
        return self._changes(touched, shown[taken], rows.take(pa.array(taken)))

    def _all_shown(self) -> tuple[Slots, pa.RecordBatch | None]:
        if not self._shown:
            return _NONE, None
        if len(self._shown) == 1:
            return self._shown[0]
        slots = np.concatenate([part for part, _ in self._shown])
        return slots, pa.concat_batches([rows for _, rows in self._shown])

    def _changes(self, touched: Slots, shown: Slots, rows: pa.RecordBatch | None) -> Changes:
        if rows is None or not len(shown):
            return Changes(touched, _NONE, None)
        self._place[touched] = np.arange(len(touched))
        hidden = shown < 0
        places = np.where(hidden, -1, self._place[shown])
        if hidden.any():
            order = np.argsort(~hidden, kind="stable")
            places, rows = places[order], rows.take(pa.array(order))
        return Changes(touched, places, rows)
