"""From key hash to key group, and from key group to the instance that owns it.

An owner table is int32[key groups], read-only: table[g] is the instance that owns group g. Exchanges and rescaling read
it; no owner is computed from a formula, so only key groups that must move do (docs/design/keys-and-hashing.md 3).
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Owners = NDArray[np.int32]

UNEVEN = 0.2
"""An owner may have this part of an even share too much before loads count, as measured loads scatter."""

ALLOWANCE = 0.05
"""So much more than an even share is none too much for who has it: fewer groups move."""

WITHOUT_ROWS = 0.1
"""The load of a group without rows, in parts of the mean."""


def key_groups_at(positions: NDArray[np.uint32], key_groups: int) -> NDArray[np.int32]:
    """Return the key group, in [0, key_groups), of every key position: the upper half of a key's hash."""
    return ((positions.astype(np.uint64) * np.uint64(key_groups)) >> np.uint64(32)).astype(np.int32)


def assign(key_groups: int, owners: int) -> Owners:
    """Return the first table: contiguous ranges, whose sizes differ by one at most.

    Raises:
        ValueError: there are fewer key groups than owners, or no owner.
    """
    _check(key_groups, owners)
    return _frozen(np.arange(key_groups, dtype=np.int64) * owners // key_groups)


def reassign(table: Owners, instances: int, weights: Sequence[float] | None = None) -> Owners:
    """Return the table for owners 0 to ``instances`` - 1; sizes differ by at most one, and the fewest groups move.

    With ``weights``, one > 0 for each, sizes are in proportion to them, to less than one group.

    Those who owned groups before may have any numbers; who is not among the owners now goes away. `table` is not
    changed, nothing moves if it is balanced already, and the result depends on nothing else.

    Raises:
        ValueError: the table has a negative owner, or there are fewer key groups than ``instances``.
    """
    _check(len(table), instances)
    if table.min() < 0:
        raise ValueError(f"key group {int(np.argmin(table))} has no owner.")
    sizes = np.bincount(table, minlength=instances)[:instances]
    quotas = _quotas(sizes, len(table)) if weights is None else _shares(weights, len(table))
    # Of a surplus the last groups go, so that what stays of a contiguous range is contiguous.
    stays = np.zeros(len(table), np.bool_)
    for owner in range(instances):
        stays[np.flatnonzero(table == owner)[: quotas[owner]]] = True
    missing = quotas - np.bincount(table[stays], minlength=instances)
    moved = table.copy()
    moved[~stays] = np.repeat(np.arange(instances), missing)
    return _frozen(moved)


def reassign_by_load(table: Owners, instances: int, loads: Sequence[float]) -> Owners:
    """Return the table for owners 0 to ``instances`` - 1 with about as much load each.

    ``loads`` are those of the groups, of any unit, none below 0 and some above. Where `reassign` leaves nobody with
    more than an even share and `UNEVEN` of it, or this table would be no better, its table is returned. Otherwise who
    has more than a share and `ALLOWANCE` of it gives what is too much, from its heavy groups as from its light ones, so
    that about as large a part of its groups, and of their state, goes as of its load; and whoever has the most room
    takes the heaviest first. So nobody has more than the share, the allowance, and one group. Every owner has a group.
    As `reassign` otherwise.

    Raises:
        ValueError: the table has a negative owner, there are fewer key groups than ``instances``, or loads are none.
    """
    by_number, load = reassign(table, instances), np.asarray(loads, np.float64)
    if load.shape != table.shape or not np.isfinite(load).all() or load.min() < 0 or not load.sum() > 0:
        raise ValueError(f"{len(table)} key groups have as many loads, which are finite, none below 0 and some above.")
    share, most = float(load.sum()) / instances, float(np.bincount(by_number, load).max())
    # Few groups lie as unevenly as their number does.
    if most <= (1 + UNEVEN) * max(share, -(-len(load) // instances) * load.mean()):
        return by_number
    # A group without rows has state all the same.
    weight, share = load + WITHOUT_ROWS * load.mean(), (1 + WITHOUT_ROWS) * share
    after, left = table.copy(), np.zeros(len(table), np.bool_)
    heaviest_first = np.argsort(-weight, kind="stable")
    for owner in np.unique(table).tolist():
        own = heaviest_first[table[heaviest_first] == owner]
        has = weight[own].sum()
        if owner >= instances:
            left[own] = True
        elif has > (1 + ALLOWANCE) * share:
            left[own[_sampled(weight[own], 1 - share / has)]] = True
    room = share - np.bincount(after[~left], weight[~left], instances)
    counts = np.bincount(after[~left], minlength=instances)
    for group in heaviest_first[left[heaviest_first]].tolist():
        owner = after[group] = int(room.argmax())
        room[owner] -= weight[group]
        counts[owner] += 1
    for owner in np.flatnonzero(counts == 0).tolist():
        # The lightest group of those who have more than one.
        group = next(group for group in heaviest_first[::-1].tolist() if counts[after[group]] > 1)
        counts[after[group]] -= 1
        after[group], counts[owner] = owner, 1
    gains = np.bincount(after, load).max() < (1 - ALLOWANCE) * most
    return _frozen(after) if gains else by_number


def _sampled(weight: NDArray[np.float64], part: float) -> NDArray[np.bool_]:
    """Return a choice of groups: those before any place have that part of the weight before it, to half a group."""
    chosen = np.zeros(len(weight), np.bool_)
    passed = taken = 0.0
    for place, own in enumerate(weight.tolist()):
        passed += own
        if taken + own / 2 < part * passed:
            chosen[place] = True
            taken += own
    return chosen


def moved(table: Owners, groups: Iterable[tuple[int, int, int]]) -> Owners:
    """Return the table after moves: of each key group its number, the owner that gives it and the one that takes it.

    Raises:
        ValueError: a group is not the giver's.
    """
    after = table.copy()
    for group, giver, taker in groups:
        if after[group] != giver:
            raise ValueError(f"key group {group} is {after[group]}'s, and cannot be given by {giver}.")
        after[group] = taker
    return _frozen(after)


def _quotas(sizes: NDArray[np.int64], key_groups: int) -> NDArray[np.int64]:
    """Return the number of groups of each owner; the larger shares go to those with the most now."""
    share, larger = divmod(key_groups, len(sizes))
    quotas = np.full(len(sizes), share, np.int64)
    quotas[np.argsort(-sizes, kind="stable")[:larger]] += 1
    return quotas


def _shares(weights: Sequence[float], key_groups: int) -> NDArray[np.int64]:
    """Return the number of groups of each owner by the largest remainders; the first of equal ones comes first."""
    exact = np.asarray(weights, np.float64) * (key_groups / float(np.sum(weights)))
    quotas = np.floor(exact).astype(np.int64)
    quotas[np.argsort(quotas - exact, kind="stable")[: key_groups - int(quotas.sum())]] += 1
    return quotas


def _check(key_groups: int, owners: int) -> None:
    if not 0 < owners <= key_groups:
        raise ValueError(f"{key_groups} key groups cannot be shared by {owners} owners.")


def _frozen(table: NDArray[np.int64] | Owners) -> Owners:
    owners = table.astype(np.int32)
    owners.flags.writeable = False
    return owners
