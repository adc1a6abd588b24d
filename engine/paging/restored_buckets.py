"""The buckets that an instance begins with: its keys' part of a checkpoint. Called by `paged_operator`."""

from collections.abc import Sequence

from penstock.engine.core.contract import Notes
from penstock.engine.paging.bucket import PASSED, Bucket, BucketSource
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.key_ranges import Span, held_by
from penstock.state.tables.image import StoreImage


def begin(stores: BucketStores, spans: Sequence[Span], sources: Sequence[BucketSource]) -> None:
    """Make the buckets of an instance's ranges, from what a checkpoint has of them.

    What is little is one bucket over all ranges, as the rows of every batch would have to be dealt out to several. Of
    what lies between its ranges an instance has nothing, and no row comes.
    """
    if not spans or _begin_together(stores, spans, sources):
        return
    for span in spans:
        _begin_range(stores, span, sources)
    stores.buckets.sort(key=lambda bucket: bucket.span)


def _begin_range(stores: BucketStores, span: Span, sources: Sequence[BucketSource]) -> None:
    if not _begin_together(stores, [span], sources):
        # Operators that were at different watermarks stay apart until they have caught up with each other.
        mine = [(source, both) for source in sources if (both := source.span & span) is not None]
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


def _begin_together(stores: BucketStores, spans: Sequence[Span], sources: Sequence[BucketSource]) -> bool:
    """Make one bucket of sorted ranges; return False if that is too much for one, or not at the same watermark."""
    mine = [source for source in sources if any(source.span & span for span in spans)]
    # What several share counts once.
    sizes = {id(source.load): source.bytes for source in mine}
    notes = [_own(source.notes) for source in mine]
    if sum(sizes.values()) > stores.options.largest_bytes(1) // 2 or any(item != notes[0] for item in notes):
        return False
    loads = {id(source.load): source.load for source in mine}
    parts = [part for load in loads.values() if (part := load()) is not None]
    bucket = Bucket(Span(spans[0].low, spans[-1].high), dirty=bool(mine))
    stores.hold(bucket, StoreImage(parts, lambda positions: held_by(spans, positions)), notes[:1])
    stores.buckets.append(bucket)
    return True


def _fill_gap(stores: BucketStores, span: Span, until: int) -> None:
    """Make an empty bucket from where the last one of this range ends, if it ends before ``until``."""
    ends = [bucket.span.high for bucket in stores.buckets if span.low <= bucket.span.low < span.high]
    low = max(ends, default=span.low)
    if low < until:
        stores.buckets.append(Bucket(Span(low, until)))


def _own(notes: Notes) -> Notes:
    """Return the notes without what they say of the whole instance, which does not keep buckets apart."""
    return {name: value for name, value in notes.items() if name != PASSED}
