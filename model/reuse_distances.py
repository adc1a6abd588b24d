"""How finely distances of reuse are told apart: the bytes of state used since what an access reaches was used."""

import numpy as np

from penstock.model.columns import Floats

PER_DOUBLING = 8
"""Bounds for each doubling of the distance."""

REUSE_BOUNDS: Floats = 2.0 ** (np.arange(16 * PER_DOUBLING, 40 * PER_DOUBLING + 1) / PER_DOUBLING)
"""Upper bounds of what is counted together, in bytes: from 64 KB, with all below it, to 1 TB, with all above it."""
REUSE_BOUNDS.flags.writeable = False
