"""A thread that pulls a user's iterator into a bounded buffer, so that one which blocks never holds up the worker."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.engine.connectors.arrow_capsule import is_arrow

BOUND_ROWS = 2 * 65_536
"""How many rows are pulled ahead; an Arrow item that does not tell its rows counts as this many."""

WAIT_S = 0.002
"""How long `Puller.wait` waits at most."""

_CHUNK = 256
"""After how many items the lock is taken, to wake the reader and to look for room."""


@dataclass(frozen=True, slots=True)
class ArrowItem:
    """An item that is Arrow rows, and how many rows it counts as."""

    item: Any
    weight: int


@dataclass(frozen=True, slots=True)
class End:
    """Behind the last item: the iterator has ended, or raised ``error``; ``missing`` items to skip were not there."""

    error: BaseException | None
    missing: int


class Puller:
    """Pulls on a daemon thread of its own, from the first `ready` on; one reader takes the items, in order.

    A None is pulled ahead of nothing: the iterator is asked again once the reader has taken it.
    """

    def __init__(self, items: Iterator[Any], skip: int) -> None:
        """Pull ``items`` but pass over the first ``skip`` of them, not counting Nones."""
        self._items = items
        self._skip = skip
        # Appending and taking are atomic by themselves; the condition only wakes whoever waits.
        self._buffer: deque[Any] = deque()
        self._changed = threading.Condition()
        # Weights beyond 1 of the Arrow items in the buffer, guarded by the condition.
        self._extra_rows = 0
        self._stopped = False
        self._awaited = False
        self._thread: threading.Thread | None = None
        self.on_ready: Callable[[], None] = lambda: None
        """Called, on the thread, once there is something to take after `ready` said that there was nothing."""

    def ready(self) -> bool:
        """Return whether there is something to take now."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-iterable", daemon=True)
            self._awaited = True
            self._thread.start()
        elif not self._buffer:
            # Set before the second look, as the thread appends before it looks at this.
            self._awaited = True
        return bool(self._buffer)

    def wait(self) -> bool:
        """Return whether there is something to take, after waiting for it for at most `WAIT_S`."""
        if not self.ready():
            with self._changed:
                # A chunk, a None or the end ends the wait; less than a chunk is there when the time is over.
                if not self._buffer:
                    self._changed.wait(WAIT_S)
        return bool(self._buffer)

    def take(self, count: int) -> tuple[list[Any], ArrowItem | End | None, bool]:
        """Take up to ``count`` items, without waiting, up to what is no plain item.

        Returns:
            The plain items; the `ArrowItem` (taken) or `End` (left there) that follows, if it is there already and the
            items are fewer than ``count``; and whether a None was taken instead, as the last.
        """
        items: list[Any] = []
        buffer, take, add = self._buffer, self._buffer.popleft, items.append
        stop: ArrowItem | End | None = None
        nothing = False
        for _ in range(min(count, len(buffer))):
            item = take()
            if item is None:
                nothing = True
                break
            kind = type(item)
            if kind is ArrowItem or kind is End:
                stop = item
                break
            add(item)
        else:
            if len(items) < count and buffer and type(buffer[0]) is End:
                stop = buffer[0]
        if isinstance(stop, End) and not (buffer and buffer[0] is stop):
            buffer.appendleft(stop)
        with self._changed:
            if isinstance(stop, ArrowItem):
                self._extra_rows -= stop.weight - 1
            self._changed.notify_all()
        return items, stop, nothing

    def close(self) -> None:
        """Let go of what was pulled, and have the thread stop, at its next item if it is held up; does not wait."""
        with self._changed:
            self._stopped = True
            self._buffer.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._pull()
        except StopIteration:
            pass
        except BaseException as raised:
            error = raised
        with self._changed:
            self._buffer.append(End(error, self._skip))
            self._changed.notify_all()
        self._tell()

    def _pull(self) -> None:
        """Pull until told to stop; the iterator's end is a StopIteration."""
        items, append = self._items, self._buffer.append
        while self._skip and not self._stopped:
            if next(items) is not None:
                self._skip -= 1
                continue
            append(None)
            self._tell()
            self._wait_for_room(0)
        left = _CHUNK
        while not self._stopped:
            item = next(items)
            if type(item) is not dict and (item is None or is_arrow(item)):
                left = 1
                if item is not None:
                    item = ArrowItem(item, _weight(item))
                    with self._changed:
                        self._extra_rows += item.weight - 1
            append(item)
            if self._awaited:
                self._tell()
            left -= 1
            if not left:
                self._wait_for_room(0 if item is None else BOUND_ROWS - 1)
                left = _CHUNK

    def _tell(self) -> None:
        """Say that there is something, if it is awaited."""
        if self._awaited:
            self._awaited = False
            self.on_ready()

    def _wait_for_room(self, rows: int) -> None:
        """Wait until no more than ``rows`` rows are in the buffer, or for `close`."""
        with self._changed:
            self._changed.notify_all()
            while len(self._buffer) + self._extra_rows > rows and not self._stopped:
                self._changed.wait()


def _weight(item: Any) -> int:
    rows = getattr(item, "num_rows", None)
    if rows is None and hasattr(item, "__len__"):
        rows = len(item)
    return max(rows, 1) if isinstance(rows, int) else BOUND_ROWS
