"""Exchanges of buckets between instances, where none that is overloaded can hand over a bucket as a whole.

The heaviest bucket of an instance may fit nowhere although all instances together carry the need; one that gives a
lighter one for it needs less room. Called by `bucket_moves`. Pure.
"""

import numpy as np

from penstock.model.columns import Floats, Ints

_MOST_PAIRS = 1 << 18
"""So many pairs of buckets are looked at in all, of the most overloaded instances first: some milliseconds."""


def exchange(load: Floats, owner: Ints, room: Floats) -> Ints:
    """Return the owners once overloaded instances have exchanged buckets with others, one for one.

    ``load`` of each bucket and ``room`` of each instance are shares of the task's rows; ``room`` is less than 0 where
    an instance is overloaded, and each ``owner`` is a place in it. No instance is overloaded by an exchange. An
    overloaded one makes the smallest exchange that suffices; if none does, the largest, and looks again, as often as it
    has buckets.
    """
    owner, room = owner.copy(), room.copy()
    pairs = 0
    for giver in [place for place in np.argsort(room, kind="stable").tolist() if room[place] < 0]:
        own = np.flatnonzero(owner == giver)
        for _ in own:
            if room[giver] >= 0:
                break
            own, others = np.flatnonzero(owner == giver), np.flatnonzero(room[owner] > 0)
            pairs += len(own) * len(others)
            if not len(others) or pairs > _MOST_PAIRS:
                return owner
            relief = load[own][:, None] - load[others][None, :]
            relief[(relief <= 0) | (relief > room[owner[others]][None, :])] = 0.0
            most = relief.max()
            if most <= 0:
                break
            enough = np.where(relief >= -room[giver], relief, np.inf)
            chosen = enough.argmin() if most >= -room[giver] else relief.argmax()
            mine, other = own[chosen // len(others)], others[chosen % len(others)]
            taker = owner[other]
            room[giver] += relief.flat[chosen]
            room[taker] -= relief.flat[chosen]
            owner[mine], owner[other] = taker, giver
    return owner
