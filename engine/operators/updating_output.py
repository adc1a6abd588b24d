"""The changelog that an updating aggregate emits, from which changes of which slots."""

from collections.abc import Callable, Iterator
from typing import TypeVar
from weakref import WeakMethod

import pyarrow as pa

from penstock.engine.operators.changelog import changes_between
from penstock.engine.operators.pending_changes import Changes, PendingChanges
from penstock.state.keys.arrays import Mask
from penstock.state.store import Slots

T = TypeVar("T")


class UpdatingOutput:
    """Changes of slots, from the rows that they have shown to those that they show.

    ``show`` returns the result rows of slots, ``alive`` says which slots have one. ``settle`` is called with slots
    whose changes have been emitted. They are methods of what holds the output, to which it does not refer for its
    part: only the collector would free both.
    """

    def __init__(
        self,
        batch_rows: int,
        show: Callable[[Slots], pa.RecordBatch],
        alive: Callable[[Slots], Mask],
        settle: Callable[[Slots], None] | None = None,
    ) -> None:
        """Start without changes."""
        self.pending = PendingChanges()
        self._batch_rows = batch_rows
        self._show, self._alive = _weak(show), _weak(alive)
        self._settle = None if settle is None else _weak(settle)

    def remember(self, slots: Slots, slot_limit: int) -> None:
        """Note what slots (-1: none; all < slot_limit) that are about to change have shown until now."""
        touched = self.pending.touch(slots, slot_limit)
        shown = touched[self._alive(touched)]
        if len(shown):
            self.pending.show(shown, self._show(shown))

    def changes(self) -> Iterator[pa.RecordBatch]:
        """Yield everything that changed."""
        return self._between(self.pending.take())

    def changes_of(self, slots: Slots) -> Iterator[pa.RecordBatch]:
        """Yield what changed in these slots."""
        return self._between(self.pending.take_only(slots))

    def _between(self, changes: Changes) -> Iterator[pa.RecordBatch]:
        yield from changes_between(changes, self._alive(changes.touched), self._show, self._batch_rows)
        if self._settle is not None:
            self._settle(changes.touched)


def _weak(method: Callable[[Slots], T]) -> Callable[[Slots], T]:
    """Return what calls a method without keeping its object."""
    reference = WeakMethod(method)

    def call(slots: Slots) -> T:
        alive = reference()
        assert alive is not None
        return alive(slots)

    return call
