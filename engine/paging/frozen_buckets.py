"""Buckets of one operator as they were at a barrier: each may be used again once it is encoded, and is kept later.

The worker loop has those encoded that it needs, the checkpoint's thread all others. How they are encoded and where they
are kept say `pages_cut` and `images_cut`.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import Bucket


class Encoded(Protocol):
    """What is to be kept of a bucket: it shares nothing with it, so that the bucket may change."""

    @property
    def bytes(self) -> int:
        """Bytes of memory that it took when it was made."""


E = TypeVar("E", bound=Encoded)


class Keeping(Protocol[E]):
    """The way in which a checkpoint keeps buckets."""

    @property
    def in_pages(self) -> bool:
        """True if they are kept in the page store, so that it must not change until there is a copy of it."""

    @property
    def at_once(self) -> int:
        """How many buckets are kept together at most."""

    def encode(self, bucket: Bucket, notes: Notes) -> E:
        """Encode a bucket that is as it was at the barrier; by either thread, and by both at once of two buckets."""

    def put(self, encoded: Sequence[tuple[Bucket, E]]) -> None:
        """Keep what was encoded of some buckets; called by the checkpoint's thread, again after an error."""

    def forget(self, bucket: Bucket, encoded: E) -> None:
        """Note that what was encoded will not be kept."""

    def encoding(self) -> AbstractContextManager[Any]:
        """Return what the checkpoint's thread enters while it encodes a bucket."""


class FrozenBuckets(Generic[E]):
    """Buckets in memory that are to be kept. Whoever changes one before it is encoded changes the checkpoint."""

    def __init__(
        self, buckets: Sequence[Bucket], keeping: Keeping[E], fits: Callable[[int], bool], changed: Callable[[], None]
    ) -> None:
        """Freeze buckets.

        ``fits`` says whether there is room for so many bytes of what is encoded besides what is in memory. ``changed``
        is called whenever a bucket was encoded or there is room for another.
        """
        self._keeping = keeping
        self._fits = fits
        self._changed = changed
        # Held for a moment only. The thread holds ``_busy`` as well while it encodes, so that `release` waits for that.
        self._lock = threading.Condition()
        self._busy = threading.Lock()
        self._frozen: dict[int, tuple[Bucket, Notes]] = {id(bucket): (bucket, bucket.notes()) for bucket in buckets}
        # Those of them that are just being encoded, and the bytes of these.
        self._claimed: set[int] = set()
        self._claimed_bytes = 0
        self._encoded: deque[tuple[Bucket, E]] = deque()
        self._unstored = set(self._frozen)
        self._released = False
        self.in_pages = keeping.in_pages
        self.image_bytes = 0
        """Bytes of what is encoded and not kept yet."""

    def any_frozen(self) -> bool:
        """Return whether a bucket is not encoded yet."""
        return bool(self._frozen)

    def frozen_bytes(self) -> int:
        """Return the bytes of memory of the buckets that are not encoded yet."""
        return sum(bucket.bytes for bucket, _ in list(self._frozen.values()))

    def is_stored(self, bucket: Bucket) -> bool:
        """Return whether what the bucket was at the barrier is kept."""
        return id(bucket) not in self._unstored

    def may_thaw(self, bucket: Bucket, free_bytes: float) -> bool:
        """Return whether `thaw` would succeed with so much room; if not, ``changed`` is called once it may."""
        has_room = self._claimed_bytes + bucket.bytes <= free_bytes
        return id(bucket) not in self._frozen or (has_room and id(bucket) not in self._claimed)

    def thaw(self, bucket: Bucket) -> bool:
        """Encode a bucket if it is frozen; return whether it may be used. Called by the worker loop; never waits.

        There may be no room for what is encoded of it, or the other thread is encoding it.
        """
        with self._lock:
            # The other thread may just have encoded it.
            if id(bucket) not in self._frozen:
                return True
            notes = self._claim(bucket)
        if notes is None:
            return False
        self._encode(bucket, notes)
        return True

    def write(self) -> None:
        """Encode and put everything; called by the checkpoint's thread, again after an error.

        As many buckets are encoded at a time as there is room for, and at least one.
        """
        while self._frozen or self._encoded:
            ready = self._encode_another() if self._frozen else self._next_encoded()
            if ready:
                self._keeping.put(ready)
                self._note_stored(ready)
            self._changed()

    def release(self) -> None:
        """Let all buckets be used; what was encoded and not put is forgotten. Again: does nothing."""
        with self._busy, self._lock:
            self._released = True
            for bucket, encoded in self._encoded:
                self._keeping.forget(bucket, encoded)
            self._encoded.clear()
            self._frozen.clear()
            self._unstored.clear()
            self.image_bytes = 0
            self._lock.notify_all()

    def _encode_another(self) -> Sequence[tuple[Bucket, E]]:
        """Encode the next bucket if there is room for it; if not, or there is none, return what is to be put."""
        with self._keeping.encoding(), self._busy:
            with self._lock:
                left = (bucket for bucket, _ in self._frozen.values() if id(bucket) not in self._claimed)
                following = next(left, None)
                is_first = not self._encoded and not self._claimed
                notes = None if following is None else self._claim(following, at_least=is_first)
            if following is not None and notes is not None:
                self._encode(following, notes)
                return ()
        return self._next_encoded()

    def _next_encoded(self) -> Sequence[tuple[Bucket, E]]:
        with self._lock:
            # What the loop encodes is put when it has.
            self._lock.wait_for(lambda: self._encoded or not self._claimed)
            return list(itertools.islice(self._encoded, self._keeping.at_once))

    def _claim(self, bucket: Bucket, *, at_least: bool = False) -> Notes | None:
        """Let the caller encode a bucket that is frozen, with these notes; None: somebody does, or there is no room.

        ``at_least``: it needs no room, as nothing else is encoded.
        """
        together = self.image_bytes + self._claimed_bytes + bucket.bytes
        if id(bucket) in self._claimed or not (at_least or self._fits(together)):
            return None
        self._claimed.add(id(bucket))
        self._claimed_bytes += bucket.bytes
        return self._frozen[id(bucket)][1]

    def _encode(self, bucket: Bucket, notes: Notes) -> None:
        encoded: E | None = None
        try:
            encoded = self._keeping.encode(bucket, notes)
        finally:
            with self._lock:
                self._claimed.discard(id(bucket))
                self._claimed_bytes -= bucket.bytes
                if encoded is not None and self._released:
                    self._keeping.forget(bucket, encoded)
                elif encoded is not None:
                    self._encoded.append((bucket, encoded))
                    self.image_bytes += encoded.bytes
                    del self._frozen[id(bucket)]
                self._lock.notify_all()

    def _note_stored(self, stored: Sequence[tuple[Bucket, E]]) -> None:
        with self._lock:
            for bucket, encoded in stored:
                if self._encoded and self._encoded[0][1] is encoded:
                    self._encoded.popleft()
                    self._unstored.discard(id(bucket))
                    self.image_bytes -= encoded.bytes
