"""A page store that writes in a thread of its own, so that the worker loop goes on with the next bucket meanwhile."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock.engine.core.clock import SystemClock
from penstock.engine.core.contract import Clock
from penstock.state.stores.page_store import Page, PageStore, PageStoreStatistics

_MOST_WAITING = 2


class WriteBehind(PageStore):
    """Writes pages in the order given; whoever reads them sees what was written before. At most two writes wait.

    A write that failed is raised by the next call, whatever it asks for.
    """

    def __init__(self, pages: PageStore, clock: Clock | None = None) -> None:
        """Write to ``pages``; the thread begins with the first write. Without a ``clock`` that of the system counts."""
        self._pages = pages
        self._now_ns = (clock or SystemClock()).monotonic_ns
        self._changed = threading.Condition()
        self._waiting: deque[tuple[bytes, bytes, Callable[[], None]]] = deque()
        self._failed: BaseException | None = None
        self._closing = False
        self._stalled_ns = 0
        self._thread: threading.Thread | None = None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the page of each key, None where there is none."""
        self._drain()
        return self._pages.get_many(keys)

    def put_many(self, pages: Sequence[Page]) -> None:
        """Store pages soon."""
        if pages:
            keys = [key for key, _ in pages]
            self._submit(min(keys), max(keys) + b"\0", lambda: self._pages.put_many(pages))

    def scan(self, start: bytes, end: bytes) -> Iterator[Page]:
        """Yield the pages with start <= key < end, with what waits to be written of them."""
        with self._changed:
            while any(low < end and start < high for low, high, _ in self._waiting) and self._failed is None:
                self._changed.wait()
        self._raise()
        return self._pages.scan(start, end)

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Forget the pages with start <= key < end soon."""
        if start < end:
            self._submit(start, end, lambda: self._pages.delete_range(start, end))

    def flush(self) -> None:
        """Return when everything put and deleted so far is durable."""
        self._drain()
        self._pages.flush()

    def copy_to(self, directory: Path) -> list[str]:
        """Write everything, and make ``directory`` a durable copy."""
        self._drain()
        return self._pages.copy_to(directory)

    def check(self, directory: Path, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        """Let the store below check its copy."""
        self._pages.check(directory, ranges)

    def set_memory(self, memory_bytes: int) -> None:
        """Change the memory of the store below soon: that takes milliseconds."""
        self._submit(b"", b"", lambda: self._pages.set_memory(memory_bytes))

    def has_room(self) -> bool:
        """Return whether another write may wait."""
        return len(self._waiting) < _MOST_WAITING

    def stalled_ns(self) -> int:
        """Return how long writes have waited until no more than two waited."""
        return self._stalled_ns

    def statistics(self) -> PageStoreStatistics:
        """Return what the store below says."""
        return self._pages.statistics()

    def close(self) -> None:
        """Write what waits and close the store below."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._pages.close()

    def _submit(self, low: bytes, high: bytes, write: Callable[[], None]) -> None:
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING:
                began_ns = self._now_ns()
                while len(self._waiting) >= _MOST_WAITING and self._failed is None:
                    self._changed.wait()
                self._stalled_ns += self._now_ns() - began_ns
            if self._failed is None:
                self._waiting.append((low, high, write))
                self._changed.notify_all()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="penstock-pages", daemon=True)
                    self._thread.start()
        self._raise()

    def _drain(self) -> None:
        with self._changed:
            while self._waiting and self._failed is None:
                self._changed.wait()
        self._raise()

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                write = self._waiting[0][2]
            try:
                write()
            except BaseException as error:
                self._failed = error
            with self._changed:
                self._waiting.popleft()
                self._changed.notify_all()
                if self._failed is not None:
                    return
