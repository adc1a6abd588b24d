"""Cuts buckets of one operator instance into others, by ranges of keys.

Called by `bucket_moves` and `bucket_handover`.
"""

from collections.abc import Sequence

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_pages import drop_bucket
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.key_ranges import WHOLE, Span, cut_by_groups
from penstock.state.tables.image import StoreDump, StoreImage, dump_of, is_of_one_key


class BucketCutter:
    """The cutter of one operator instance's buckets."""

    def __init__(self, stores: BucketStores) -> None:
        """Cut these."""
        self._stores = stores

    def split(self, bucket: Bucket, added_bytes: int = 0) -> list[Bucket]:
        """Cut a bucket in memory, which has nothing pending, into several, about to grow by so much; return these.

        One that is not about to grow and holds a single key at most is made anew as a whole: its size is what every
        bucket takes that is in use, so that its pieces would be cut in turn, and theirs, without end.
        """
        stores, before_bytes = self._stores, bucket.bytes
        pieces = stores.options.pieces(before_bytes, added_bytes, len(stores.buckets))
        # With a budget pieces are of one size, as it is shared out to.
        is_bound = stores.options.held_bytes is not None
        spans = bucket.span.cut(pieces) if is_bound else cut_by_groups(bucket.span, pieces, stores.key_groups)
        part, notes = self.take_out(bucket)
        if not added_bytes and (part is None or is_of_one_key(part)):
            whole = self.put_in(part, notes, [bucket.span], bucket.used, before_bytes)
            whole[0].whole_bytes = 2 * before_bytes
            return whole
        return self.put_in(part, notes, spans, bucket.used, before_bytes)

    def output_watermark(self, time_us: int) -> int:
        """Return the watermark that an operator passes on if it has no bucket, and nothing holds it up."""
        blank = Bucket(WHOLE)
        self._stores.hold(blank, StoreImage(), ())
        passed_us = blank.operator.output_watermark(time_us)
        self._stores.let_go(blank)
        return passed_us

    def take_out(self, bucket: Bucket) -> tuple[StoreDump | None, Notes]:
        """Take a bucket in memory, which has nothing pending, away; return what it held."""
        stores = self._stores
        assert bucket.held is not None and not stores.writing_out()
        # Nothing changes the store any more.
        held = dump_of(bucket.held.store.contents(shared=True)), bucket.notes()
        stores.let_go(bucket)
        if bucket.stored:
            drop_bucket(stores.pages, bucket.span.low)
        stores.buckets.remove(bucket)
        return held

    def put_in(
        self, part: StoreDump | None, notes: Notes, spans: Sequence[Span], used: int, before_bytes: int
    ) -> list[Bucket]:
        """Make a bucket for each of these spans of one that was taken out, of so many bytes; return these."""
        stores = self._stores
        pieces = []
        for span in spans:
            piece = Bucket(span, dirty=True, used=used)
            stores.hold(piece, StoreImage([] if part is None else [part], span.holds), (notes,))
            stores.buckets.append(piece)
            pieces.append(piece)
            if piece.bytes > before_bytes * 3 // 4:
                # Most of it is one key's, or what every bucket takes.
                piece.whole_bytes = 2 * piece.bytes
            # A piece that has no room goes at once, so that all of them together never need it. Others may have
            # something pending, so it is not for them to go here.
            if stores.options.held_bytes is not None and stores.held_bytes() > stores.options.held_bytes:
                stores.evict(piece)
        stores.buckets.sort(key=lambda item: item.span)
        return pieces
