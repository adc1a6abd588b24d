"""Rows of those messages alone that a log says were kept: the others are not decoded. Pure.

Ranges that lie far apart are slices of their own; what is left out here lies between near ones. `source_reading` asks
which ranges to read, `kafka_reading` makes rows of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.replay.kafka_slices import NEAR_OFFSETS, joined
from penstock.replay.offset_log import OffsetLog
from penstock.replay.offsets import Kept, OffsetSelection, Partition

Edges = NDArray[np.int64]
"""Starts and stops of a partition's ranges, in turn."""

_NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class SelectiveRowMaker(RowMaker):
    """Makes rows of messages within the ranges of ``only``, and of all messages of partitions that are not in it.

    What is left out counts as skipped.
    """

    only: Mapping[Partition, Edges] = field(default_factory=dict)

    def make(self, messages: Messages) -> DecodedMessages:
        """Make rows of those messages that were kept; see `RowMaker.make`."""
        edges = self.only.get((messages.topic, messages.partition))
        if edges is None:
            return RowMaker.make(self, messages)
        kept = np.searchsorted(edges, messages.offsets, side="right") % 2 == 1
        if kept.all():
            return RowMaker.make(self, messages)
        places, left_out = np.flatnonzero(kept), np.flatnonzero(~kept)
        if not len(places):
            return DecodedMessages(pa.RecordBatch.from_pylist([], schema=self.schema), _NO_ROWS, (), left_out)
        rows = RowMaker.make(self, _messages_at(messages, places))
        return DecodedMessages(
            rows.rows,
            places[rows.row_of],
            [(int(places[index]), reason) for index, reason in rows.errors],
            np.sort(np.concatenate([left_out, places[rows.skipped]])),
            rows.skipped_time_us,
        )


def select_ranges(
    chosen: OffsetSelection, log: OffsetLog, near: int = NEAR_OFFSETS
) -> tuple[OffsetSelection, dict[str, int]]:
    """Return what a log left of the ranges to read, and for each topic that it is about how many offsets are left out.

    Ranges with at most ``near`` offsets between them are read as one.
    """
    ranges = []
    only: dict[Partition, list[tuple[int, int]]] = {}
    left_out: dict[str, int] = {}
    for item in chosen.ranges:
        kept, missing = log.kept_of(item)
        if item.topic in log.topics:
            left_out[item.topic] = left_out.get(item.topic, 0) + missing
        wide = joined(kept, near)
        ranges += wide
        if len(wide) < len(kept):
            stops = [part.stop.offset + (1 if part.stop.rows else 0) for part in kept]
            only[item.topic, item.partition] = [(part.start.offset, to) for part, to in zip(kept, stops, strict=True)]
    return OffsetSelection(tuple(ranges), chosen.topic_ids, only), left_out


def selective_maker(maker: RowMaker, only: Kept) -> RowMaker:
    """Return a maker that leaves out what is not in these ranges, of the partitions that are in them."""
    if not only:
        return maker
    edges = {key: np.array(ranges, np.int64).ravel() for key, ranges in only.items()}
    return SelectiveRowMaker(**{item.name: getattr(maker, item.name) for item in fields(maker)}, only=edges)


def _messages_at(messages: Messages, places: NDArray[np.int64]) -> Messages:
    """Return the messages at these places."""
    which = places.tolist()
    return Messages(
        messages.topic,
        messages.partition,
        [messages.values[place] for place in which],
        messages.offsets[places],
        messages.stamps[places],
        None if messages.keys is None else [messages.keys[place] for place in which],
        None if messages.headers is None else [messages.headers[place] for place in which],
    )
