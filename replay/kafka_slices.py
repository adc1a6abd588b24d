"""Ranges of offsets, and the slices of them that Spark reads at a time. Pure; called by the sources.

A place in a partition is an offset and, for formats with many rows in a message, how many rows of that message are
before it: so a checkpoint has it (docs/design/replay.md 2).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

MOST_OFFSETS = 500_000
"""A slice has at most so many offsets, so that what a task that fails had done is little."""

FEWEST_OFFSETS = 50_000
"""A slice is not cut into smaller ones: each makes a connection of its own, and fetches some of what is behind it."""

NEAR_OFFSETS = FEWEST_OFFSETS
"""What lies between two ranges is read over up to here: less than to connect again costs."""

SLICES = 8
"""How many slices there are at least, if they do not become too small: so that several cores read one partition."""


@dataclass(frozen=True, slots=True, order=True)
class RowPosition:
    """A place before the message at ``offset``, or behind its first ``rows`` rows."""

    offset: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Messages from one position of a partition up to another. Offsets in between may have no message."""

    topic: str
    partition: int
    start: RowPosition
    stop: RowPosition

    @property
    def offsets(self) -> int:
        """Number of its offsets, that of a message which is only begun included."""
        return self.stop.offset - self.start.offset + (1 if self.stop.rows else 0)

    @property
    def name(self) -> str:
        """The partition's name."""
        return f"{self.topic}/{self.partition}"

    def __str__(self) -> str:
        return f"{self.name} from offset {self.start.offset} up to {self.stop.offset}"


@dataclass(frozen=True, slots=True)
class Slice:
    """Messages from offset ``start`` up to, not including, ``stop``.

    The first ``skip`` rows are left out, and if ``most`` is set those behind that many more. ``lead``: messages from
    there on are looked at before, as what is made of these follows from them.
    """

    topic: str
    partition: int
    start: int
    stop: int
    skip: int = 0
    most: int | None = None
    lead: int | None = None


def offset_range(topic: str, partition: int, start: int, stop: int) -> OffsetRange:
    """Return a range of whole messages."""
    return OffsetRange(topic, partition, RowPosition(start), RowPosition(stop))


def ranges_between(
    starts: Mapping[tuple[str, int], RowPosition], stops: Mapping[tuple[str, int], RowPosition]
) -> list[OffsetRange]:
    """Return the ranges of all partitions in ``stops`` that are not empty, in order.

    ``starts`` has each of them.
    """
    ranges = [OffsetRange(*key, starts[key], stop) for key, stop in sorted(stops.items())]
    return [item for item in ranges if item.start < item.stop]


def cut(
    ranges: Iterable[OffsetRange], most_offsets: int = MOST_OFFSETS, slices: int = SLICES, fewest: int = FEWEST_OFFSETS
) -> list[Slice]:
    """Cut ranges into slices, which together have every row once; those of different ranges take turns."""
    whole = list(ranges)
    total = sum(item.offsets for item in whole)
    size = min(most_offsets, max(fewest, -(-total // slices)))
    turns = zip_longest(*(list(_cut(item, size)) for item in whole))
    return [piece for piece in chain.from_iterable(turns) if piece is not None]


def cut_at(item: OffsetRange, leads: Sequence[int]) -> list[Slice]:
    """Cut a range where one of these offsets is, and nowhere else; the last one before a slice is its lead."""
    edges = sorted(edge for edge in leads if item.start.offset < edge < item.stop.offset)
    slices: list[Slice] = []
    at = item.start
    for edge in [*edges, None]:
        stop = item.stop if edge is None else RowPosition(edge)
        part = OffsetRange(item.topic, item.partition, at, stop)
        for piece in _cut(part, max(1, part.offsets)):
            lead = max((lead for lead in leads if lead <= piece.start), default=None)
            slices.append(replace(piece, lead=lead))
        at = stop
    return slices


def split(item: OffsetRange, parts: Sequence[tuple[int, int]]) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Return what of a range lies in ``parts``, and what does not.

    ``parts`` are (start, stop) of whole messages, ascending and apart.
    """
    inside: list[OffsetRange] = []
    outside: list[OffsetRange] = []
    at = item.start
    for start, stop in parts:
        low, high = max(at, RowPosition(start)), min(item.stop, RowPosition(stop))
        if low >= high:
            continue
        if at < low:
            outside.append(OffsetRange(item.topic, item.partition, at, low))
        inside.append(OffsetRange(item.topic, item.partition, low, high))
        at = high
    if at < item.stop:
        outside.append(OffsetRange(item.topic, item.partition, at, item.stop))
    return inside, outside


def joined(ranges: Sequence[OffsetRange], near: int = NEAR_OFFSETS) -> list[OffsetRange]:
    """Join ranges of one partition, ascending and apart, with at most ``near`` offsets between them."""
    ranges_joined: list[OffsetRange] = []
    for item in ranges:
        if ranges_joined and item.start.offset - ranges_joined[-1].stop.offset <= near:
            ranges_joined[-1] = OffsetRange(item.topic, item.partition, ranges_joined[-1].start, item.stop)
        else:
            ranges_joined.append(item)
    return ranges_joined


def _cut(item: OffsetRange, size: int) -> Iterator[Slice]:
    start, stop = item.start.offset, item.stop.offset
    count = -(-(stop - start) // size)
    for number in range(count):
        low, high = (start + (stop - start) * part // count for part in (number, number + 1))
        yield Slice(item.topic, item.partition, low, high, item.start.rows if low == start else 0)
    if item.stop.rows:
        skip = item.start.rows if start == stop else 0
        yield Slice(item.topic, item.partition, stop, stop + 1, skip, item.stop.rows - skip)
