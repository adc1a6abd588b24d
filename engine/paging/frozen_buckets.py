"""Buckets of one operator as they were at a barrier: each may be used again once it is encoded, and is stored later.

The worker loop has those encoded that it needs, the checkpoint's thread all others. Made by `bucket_store`, written by
`pages_cut`.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_writing import EncodedBucket, encode_bucket, forget
from penstock.model.failpoints import failpoint
from penstock.state.stores.page_store import PageStore


class FrozenBuckets:
    """Buckets in memory that are not stored. Whoever changes one before it is encoded changes the checkpoint."""

    def __init__(
        self,
        buckets: Sequence[Bucket],
        fits: Callable[[int], bool],
        changed: Callable[[], None],
        stored: Callable[[Bucket], None],
    ) -> None:
        """Freeze buckets.

        ``fits`` says whether there is room for so many bytes of images besides what is in memory. ``changed`` is called
        whenever a bucket was encoded or there is room for another, ``stored`` with each that lies in the page store.
        """
        self._fits = fits
        self._changed = changed
        self._stored = stored
        # Held while a bucket is encoded, and never while one is stored.
        self._lock = threading.Lock()
        self._frozen: dict[int, tuple[Bucket, Notes]] = {id(bucket): (bucket, bucket.notes()) for bucket in buckets}
        self._encoded: deque[tuple[Bucket, EncodedBucket]] = deque()
        self._unstored = set(self._frozen)
        self.image_bytes = 0
        """Bytes of images that are not stored yet."""

    def any_frozen(self) -> bool:
        """Return whether a bucket is not encoded yet."""
        return bool(self._frozen)

    def frozen_bytes(self) -> int:
        """Return the bytes of memory of the buckets that are not encoded yet."""
        return sum(bucket.bytes for bucket, _ in list(self._frozen.values()))

    def is_stored(self, bucket: Bucket) -> bool:
        """Return whether the page store has what the bucket was at the barrier."""
        return id(bucket) not in self._unstored

    def may_thaw(self, bucket: Bucket, free_bytes: float) -> bool:
        """Return whether `thaw` would succeed with so much room; if not, ``changed`` is called once it may."""
        return id(bucket) not in self._frozen or (bucket.bytes <= free_bytes and not self._lock.locked())

    def thaw(self, bucket: Bucket) -> bool:
        """Encode a bucket if it is frozen; return whether it may be used. Called by the worker loop; never waits.

        There may be no room for its image, or the other thread is encoding.
        """
        if id(bucket) not in self._frozen:
            return True
        if not self._lock.acquire(blocking=False):
            return False
        try:
            # The other thread may have encoded it before the lock was free.
            if id(bucket) in self._frozen:
                if not self._fits(self.image_bytes + bucket.bytes):
                    return False
                self._encode(bucket)
            return True
        finally:
            self._lock.release()

    def write(self, pages: PageStore) -> None:
        """Encode and store everything; called by the checkpoint's thread, again after an error.

        As many buckets are encoded at a time as there is room for, and at least one.
        """
        while True:
            with self._lock:
                following = next(iter(self._frozen.values()), None)
                if following is not None:
                    bucket = following[0]
                    if not self._encoded or self._fits(self.image_bytes + bucket.bytes):
                        self._encode(bucket)
                        encoded: tuple[Bucket, EncodedBucket] | None = None
                    else:
                        encoded = self._encoded[0]
                elif self._encoded:
                    encoded = self._encoded[0]
                else:
                    return
            if encoded is not None:
                failpoint("pages.bucket.before_write")
                encoded[1].put(pages)
                self._note_stored(*encoded)
            self._changed()

    def release(self) -> None:
        """Let all buckets be used; what was encoded and not stored is noted as not stored. Again: does nothing."""
        with self._lock:
            for bucket, image in self._encoded:
                forget(bucket, image)
            self._encoded.clear()
            self._frozen.clear()
            self._unstored.clear()
            self.image_bytes = 0

    def _encode(self, bucket: Bucket) -> None:
        _, notes = self._frozen[id(bucket)]
        image = encode_bucket(bucket, notes)
        self._encoded.append((bucket, image))
        self.image_bytes += image.bytes
        del self._frozen[id(bucket)]

    def _note_stored(self, bucket: Bucket, image: EncodedBucket) -> None:
        with self._lock:
            self._stored(bucket)
            if self._encoded and self._encoded[0][1] is image:
                self._encoded.popleft()
                self._unstored.discard(id(bucket))
                self.image_bytes -= image.bytes
