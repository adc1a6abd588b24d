"""Pairs that a kernel walks to, a bounded number at a time: of chains of row ids, for the joins that keep such."""

from collections.abc import Callable, Iterator

from penstock.engine.kernels.join import expand_chains
from penstock.state.keys.arrays import Ints, read_only

Pairs = tuple[Ints, Ints]
"""Two arrays of one length, written again for the next pairs."""


def walked(walk: Callable[[int, int], tuple[int, int, int]], room: Pairs) -> Iterator[Pairs]:
    """Yield what a kernel writes into ``room``, until it leaves some of it free.

    ``walk`` takes where to go on, (-1, -1) at first, and returns how many pairs it has written and where to go on.
    """
    row = at = -1
    filled = room[0].size
    while filled == room[0].size:
        filled, row, at = walk(row, at)
        if filled:
            yield room[0][:filled], room[1][:filled]


def chained(heads: Ints, older: Ints, room: Pairs) -> Iterator[Pairs]:
    """Yield (position in ``heads``, id) for every id of the chain that begins there."""
    heads, older = read_only(heads), read_only(older)
    return walked(lambda row, at: expand_chains(heads, older, row, at, *room), room)
