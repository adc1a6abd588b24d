"""The check that keys of equal hashes are equal: a collision must never bring rows together. Called by joins."""

import numpy as np

from penstock.model.errors import BugError
from penstock.state.keys.arrays import Mask
from penstock.state.keys.batch_keys import KeyBatch


def same_keys(one: KeyBatch, other: KeyBatch) -> Mask:
    """Return where two batches of keys without nulls, row by row of equal hashes, are equal."""
    same: Mask = (one.words == other.words).all(axis=1)
    if one.offsets is None or other.offsets is None:
        return same
    same &= np.diff(one.offsets) == np.diff(other.offsets)
    candidates = np.flatnonzero(same)
    one, other = one.take(candidates), other.take(candidates)
    if one.data is None or one.offsets is None:
        raise BugError("keys lost their bytes")
    unequal = np.flatnonzero(one.data != other.data)
    same[candidates[np.searchsorted(one.offsets, unequal, side="right") - 1]] = False
    return same
