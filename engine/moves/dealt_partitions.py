"""Which partitions of a source change their instances, so that few do and all instances have about as many. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """A partition, the instance that gives it and the one that takes it."""

    partition: str
    giver: str
    taker: str


def evened(held: Mapping[str, Sequence[str]], keep: Collection[str]) -> list[PartitionMove]:
    """Return the fewest moves by which those that ``keep`` partitions have all of them, about as many each.

    ``held`` has those of all instances, by name; of several that could go the last go.
    """
    kept = [name for name in held if name in keep]
    if not kept:
        return []
    total = sum(map(len, held.values()))
    # Who has most now keeps one more than others, if not all can have as many.
    least, more = divmod(total, len(kept))
    by_size = sorted(kept, key=lambda name: -len(held[name]))
    share = {name: least + (place < more) for place, name in enumerate(by_size)}
    spare = [(partition, name) for name in held for partition in held[name][share.get(name, 0) :]]
    takers = [name for name in kept for _ in range(share[name] - len(held[name]))]
    return [PartitionMove(partition, giver, taker) for (partition, giver), taker in zip(spare, takers, strict=True)]


def followed(held: Mapping[str, Sequence[str]], followers: Mapping[str, str]) -> list[PartitionMove]:
    """Return the moves by which instances that go, each, give all that they have to who follows them."""
    return [
        PartitionMove(partition, giver, taker)
        for giver, taker in followers.items()
        for partition in held.get(giver, ())
    ]


def handed_over(held: Mapping[str, Sequence[str]], giver: str, takers: Collection[str]) -> list[PartitionMove]:
    """Return the moves by which one gives all that it has, each to the taker that has the fewest then."""
    counts = {name: len(held[name]) for name in held if name in takers and name != giver}
    moves = []
    for partition in held[giver] if counts else ():
        taker = min(counts, key=lambda name: (counts[name], name))
        counts[taker] += 1
        moves.append(PartitionMove(partition, giver, taker))
    return moves
