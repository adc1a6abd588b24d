"""The buckets that an instance begins with: its keys' part of a checkpoint. Called by `paged_operator`."""

from collections.abc import Sequence

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import PASSED, Bucket, BucketSource
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.key_ranges import Span
from penstock.state.tables.image import StoreImage


def begin(stores: BucketStores, span: Span, sources: Sequence[BucketSource]) -> None:
    """Make the buckets of a range, from what a checkpoint has of it."""
    mine = [(source, both) for source in sources if (both := source.span & span) is not None]
    small = sum(source.bytes for source, _ in mine) <= stores.options.largest_bytes(1) // 2
    notes = [_own(source.notes) for source, _ in mine]
    if small and all(item == notes[0] for item in notes):
        parts = {id(source.load): part for source, _ in mine if (part := source.load()) is not None}
        bucket = Bucket(span, dirty=bool(mine))
        stores.hold(bucket, StoreImage(list(parts.values()), span.holds), notes[:1])
        stores.buckets.append(bucket)
    else:
        # Operators that were at different watermarks stay apart until they have caught up with each other.
        for source, both in sorted(mine, key=lambda item: item[1]):
            _fill_gap(stores, span, both.low)
            bucket = Bucket(both, dirty=True)
            part = source.load()
            stores.hold(bucket, StoreImage([] if part is None else [part], both.holds), (source.notes,))
            stores.buckets.append(bucket)
            # None has anything pending yet.
            for other in stores.to_evict(0):
                stores.evict(other)
        _fill_gap(stores, span, span.high)
    stores.buckets.sort(key=lambda bucket: bucket.span)


def _fill_gap(stores: BucketStores, span: Span, until: int) -> None:
    """Make an empty bucket from where the last one of this range ends, if it ends before ``until``."""
    ends = [bucket.span.high for bucket in stores.buckets if span.low <= bucket.span.low < span.high]
    low = max(ends, default=span.low)
    if low < until:
        stores.buckets.append(Bucket(Span(low, until)))


def _own(notes: Notes) -> Notes:
    """Return the notes without what they say of the whole instance, which does not keep buckets apart."""
    return {name: value for name, value in notes.items() if name != PASSED}
