"""Rows of those messages alone that a log says were kept: the others are not decoded. Pure.

Ranges that lie far apart are slices of their own; what is left out here lies between near ones. `source_reading` asks
which ranges to read, `kafka_reading` makes rows of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from penstock.engine.connectors.kafka.messages import Messages
from penstock.engine.connectors.kafka.rows import DecodedMessages, RowMaker
from penstock.replay.kafka_slices import NEAR_OFFSETS, joined
from penstock.replay.offset_log import OffsetLog
from penstock.replay.offsets import Kept, OffsetSelection, Partition
from penstock.replay.row_sampling import made_of

Edges = NDArray[np.int64]
"""Starts and stops of a partition's ranges, in turn."""


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
        return made_of(self, messages, kept, RowMaker.make)


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
