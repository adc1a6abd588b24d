"""Max-min shares: what each of several claims on one core, link or allocation gets when it is too small for all.

Cores are shared so, and links (docs/design/simulated-cluster.md 1). Called by the step of the simulated cluster.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.benchmarks.papers.cluster_model.tallies import tally
from penstock.model.columns import Floats

Indices = NDArray[np.int64]


def levels(claims: Floats, owner: Indices, capacity: Floats) -> Floats:
    """Return the level L of each owner: its claims get min(claim, L), which is all it has, or all that is claimed.

    L_m = max over k of (C_m - (w_1 + ... + w_(k-1))) / (n - k + 1)

    w: the owner's claims in ascending order, n of them; C: its capacity. Where nothing is claimed L is C.
    """
    order = np.lexsort((claims, owner))
    sorted_owner = owner[order]
    sorted_claims = claims[order]
    count = np.bincount(owner, minlength=len(capacity))
    first = np.concatenate(([0], np.cumsum(count)))[:-1]
    before = np.cumsum(sorted_claims) - sorted_claims
    # Sums before the first claim of each owner, which are those of other owners.
    base = np.where(count > 0, before[np.minimum(first, max(len(order) - 1, 0))] if len(order) else 0.0, 0.0)
    rank = np.arange(len(order)) - first[sorted_owner]
    left = capacity[sorted_owner] - (before - base[sorted_owner])
    level = left / (count[sorted_owner] - rank)
    result = capacity.astype(np.float64)
    present = count > 0
    if present.any():
        result[present] = np.maximum.reduceat(level, first[present])
    return result


def allowances(claims: Floats, owner: Indices, capacity: Floats) -> Floats:
    """Return what each claim may use: its max-min share, and an equal part of what nobody claims."""
    level = levels(claims, owner, capacity)
    share = np.minimum(claims, level[owner])
    spare = np.maximum(0.0, capacity - tally(owner, share, len(capacity)))
    count = np.maximum(1, np.bincount(owner, minlength=len(capacity)))
    result: Floats = share + (spare / count)[owner]
    return result
