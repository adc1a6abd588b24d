"""The sweep of buckets: those that have yet to work off what waits for them. Kept by `paged_operator`."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.engine.paging.bucket import Bucket


@dataclass(frozen=True, slots=True)
class BucketTurn:
    """A bucket's: its place among what waits, and how many rows wait there."""

    place: int
    bucket: Bucket
    rows: int


class BucketSweep:
    """Buckets take their turns one after the other; false when none is left."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self._turns: deque[BucketTurn] = deque()
        self._forward = True

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __iter__(self) -> Iterator[BucketTurn]:
        return iter(self._turns)

    @property
    def first(self) -> BucketTurn:
        """The bucket whose turn it is."""
        return self._turns[0]

    def begin(self, buckets: Sequence[Bucket], counts: Sequence[int]) -> None:
        """Let every bucket, at its place, have a turn: those in memory first, else from either end in turns."""
        turns = [BucketTurn(place, bucket, counts[place]) for place, bucket in enumerate(buckets)]
        if not self._forward:
            turns.reverse()
        self._forward = not self._forward
        self._turns.extend(sorted(turns, key=lambda turn: not turn.bucket.is_resident))

    def choose(self, may_begin: Callable[[BucketTurn], bool]) -> bool:
        """Let the next one that may begin be the first; return whether there is one."""
        for _ in range(len(self._turns)):
            if may_begin(self._turns[0]):
                return True
            self._turns.rotate(-1)
        return False

    def end_turn(self) -> None:
        """The first has worked its share off."""
        self._turns.popleft()

    def insert(self, first_place: int, buckets: Sequence[Bucket], counts: Sequence[int]) -> None:
        """Let buckets, at places from ``first_place`` on, have the next turns after the one that is on."""
        swept = self._turns.popleft()
        for offset in reversed(range(len(buckets))):
            self._turns.appendleft(BucketTurn(first_place + offset, buckets[offset], counts[offset]))
        self._turns.appendleft(swept)

    def append(self, turns: Iterable[BucketTurn]) -> None:
        """Let buckets have turns behind all others."""
        self._turns.extend(turns)
