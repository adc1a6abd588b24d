"""Gives buckets of one operator instance to another, and takes buckets in. Called by `paged_operator`.

A marker has come on every channel: nothing waits for these buckets, and rows behind it go to the new owners
(docs/design/moves.md 3).
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.engine.core.contract import Emission, Notes
from penstock.engine.core.elements import START_OF_TIME_US, Reroute
from penstock.engine.paging.bucket import Bucket, swept_us
from penstock.engine.paging.bucket_moves import BucketMoves
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.key_ranges import WHOLE, Span, owned_spans, span_of_groups
from penstock.model.key_groups import Owners
from penstock.state.tables.image import StoreDump, StoreImage, chosen_of


@dataclass(frozen=True, slots=True)
class GivenBucket:
    """State of the keys in ``span``: dumps of the buckets it lay in, which hold no other keys, and their notes."""

    span: Span
    parts: tuple[StoreDump, ...] = field(repr=False)
    notes: tuple[Notes, ...] = field(repr=False)

    @property
    def bytes(self) -> int:
        """Bytes of the dumps."""
        return sum(rows.nbytes for part in self.parts for batches in part.batches.values() for rows in batches)


class BucketHandover:
    """Cuts the buckets of an instance where key groups change their owners."""

    def __init__(self, stores: BucketStores, moves: BucketMoves) -> None:
        """Cut these."""
        self._stores = stores
        self._moves = moves
        self._cutter = moves.cutter

    def reached(self, reroute: Reroute, owners: Owners, instance: int) -> list[Span]:
        """Return the ranges that an instance gives or takes, whose buckets are given or cut."""
        pairs = sorted({(giver, taker) for _, giver, taker in reroute.groups if instance in (giver, taker)})
        return [span for pair in pairs for span in _spans(reroute, *pair, len(owners))]

    def give(
        self, reroute: Reroute, owners: Owners, instance: int, time_us: int
    ) -> Generator[Emission, None, dict[int, tuple[GivenBucket, ...]]]:
        """Take away what an instance gives, brought to a watermark, and return it by who takes it.

        ``owners`` are those behind the marker.
        """
        kept = owned_spans(owners, instance)
        takers = sorted({taker for _, giver, taker in reroute.groups if giver == instance})
        taken = {span: taker for taker in takers for span in _spans(reroute, instance, taker, len(owners))}
        parts: dict[Span, list[StoreDump]] = {span: [] for span in sorted(taken)}
        notes: dict[Span, list[Notes]] = {span: [] for span in parts}
        for bucket in self._touching(list(parts)):
            part, noted = yield from self._cut_out(bucket, time_us, list(parts), kept)
            for span in parts:
                inside = bucket.span & span
                if inside is None:
                    continue
                notes[span].append(noted)
                if part is not None:
                    parts[span].append(part if inside == bucket.span else chosen_of(part, inside.holds))
        return {
            taker: tuple(
                GivenBucket(span, tuple(parts[span]), tuple(notes[span])) for span in parts if taken[span] == taker
            )
            for taker in takers
        }

    def make_way(self, reroute: Reroute, owners: Owners, instance: int) -> Iterator[Emission]:
        """Await what an instance takes; buckets that reach over it have no key of it, and are cut."""
        stores = self._stores
        for giver in sorted({giver for _, giver, taker in reroute.groups if taker == instance}):
            spans = _spans(reroute, giver, instance, len(owners))
            for bucket in self._touching(spans):
                yield from self._cut_out(bucket, bucket.watermark_us, spans, [WHOLE])
            # Nobody knows what they wait for, so every watermark matters to them.
            stores.buckets += [Bucket(span, awaited=True, paged_due_us=START_OF_TIME_US) for span in spans]
            stores.buckets.sort(key=lambda item: item.span)
            stores.awaited += len(spans)

    def install(self, given: GivenBucket) -> None:
        """Take in a bucket that is awaited."""
        stores = self._stores
        bucket = next(item for item in stores.buckets if item.awaited and item.span == given.span)
        bucket.awaited, bucket.dirty = False, True
        stores.awaited -= 1
        stores.hold(bucket, StoreImage(given.parts), given.notes)
        if stores.options.held_bytes is None:
            # It was no larger than others where it comes from, and as many may follow it.
            bucket.whole_bytes = 3 * bucket.bytes // 2
        # What is behind the others catches up; they do nothing for times that they have passed.
        bucket.watermark_us = min((swept_us(notes) for notes in given.notes), default=START_OF_TIME_US)

    def _touching(self, spans: Sequence[Span]) -> list[Bucket]:
        return [bucket for bucket in self._stores.buckets if not bucket.awaited and _any(spans, bucket.span)]

    def _cut_out(
        self, bucket: Bucket, time_us: int, spans: Sequence[Span], kept: Sequence[Span]
    ) -> Generator[Emission, None, tuple[StoreDump | None, Notes]]:
        """Let a bucket come to a watermark, and of it stay what is kept outside of spans; return what it held."""
        yield from self._moves.load(bucket)
        yield from self._moves.advance(bucket, time_us)
        yield from bucket.operator.on_barrier(0)
        before_bytes = bucket.bytes
        held = self._cutter.take_out(bucket)
        left = [piece for piece in bucket.span.without(spans) if _any(kept, piece)]
        self._cutter.put_in(*held, left, bucket.used, before_bytes)
        return held


def _spans(reroute: Reroute, giver: int, taker: int, count: int) -> list[Span]:
    groups = np.array(sorted(group for group, *pair in reroute.groups if pair == [giver, taker]))
    runs = np.split(groups, np.flatnonzero(np.diff(groups) != 1) + 1)
    return [span_of_groups(int(run[0]), int(run[-1]) + 1, count) for run in runs if run.size]


def _any(spans: Iterable[Span], span: Span) -> bool:
    return any(item & span is not None for item in spans)
