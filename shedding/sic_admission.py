"""From rows kept of each query to stretches of a partition: the oldest records are dropped first. Pure."""

import itertools
from collections.abc import Sequence

from penstock.model.sic import Admission, SicGroup


def admissions(records: int, kept: Sequence[tuple[SicGroup, int]]) -> list[Admission]:
    """Return what happens to the waiting records of a partition, in order, of each group that it feeds.

    Of each group as many of the last records stay as are kept of it. A record that one group keeps is read, and dropped
    at the branches on the ways of those alone that do not; a group without a branch of its own gets it as well.
    """
    edges = sorted({min(records, rows) for _, rows in kept} | {0, records}, reverse=True)
    made: list[Admission] = []
    for longer, shorter in itertools.pairwise(edges):
        staying = [group for group, rows in kept if rows >= longer]
        needed = {name for group in staying for name in group.branches}
        lost = {name for group, rows in kept if rows < longer for name in group.branches}
        stretch = Admission(longer - shorter, bool(staying), tuple(sorted(lost - needed)) if staying else ())
        if made and (made[-1].is_kept, made[-1].dropped_at) == (stretch.is_kept, stretch.dropped_at):
            stretch = Admission(made.pop().records + stretch.records, stretch.is_kept, stretch.dropped_at)
        made.append(stretch)
    return made
