"""Compiled loops of weighted accumulators: powers of values and of their rows' weight, added up by group.

Called by ``engine/accumulators``; ``slots`` and ``signs`` as in `accumulate`. All rows of a call have one weight
w = 1 / keep. A group's vector holds, from ``start`` on, over the rows that went in (docs/design/weights.md 2):
n, then for k = 0 the sums of w, S, T and F, where S = w^2 - w, T = w (w - 1)^2 and F = w (w - 1)^3 (`COUNT_WIDTH`
numbers), and for values also w x, S x, T x, F x, S x^2, T x^2, F x^2, S x^3, T x^3, F x^3, F x^4 (`VALUE_WIDTH`).
"""

import numpy as np
from numpy.typing import NDArray

from penstock.engine.kernels.accumulate import Signs
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Ints

Doubles = NDArray[np.float64]
Buckets = NDArray[np.uint8]

COUNT_WIDTH = 5
VALUE_WIDTH = 16


@jit
def add_weighted_rows(slots: Ints, signs: Signs, weight: float, start: int, vectors: Doubles) -> None:
    """Add rows to their groups' vectors."""
    plain = signs.shape[0] == 0
    s = weight * weight - weight
    t = weight * (weight - 1.0) ** 2
    f = t * (weight - 1.0)
    for i in range(slots.shape[0]):
        sign = 1.0 if plain else np.float64(signs[i])
        if slots[i] >= 0 and sign != 0.0:
            vector = vectors[slots[i]]
            vector[start] += sign
            vector[start + 1] += sign * weight
            vector[start + 2] += sign * s
            vector[start + 3] += sign * t
            vector[start + 4] += sign * f


@jit
def add_weighted_values(
    slots: Ints, signs: Signs, values: Doubles, weight: float, start: int, vectors: Doubles
) -> None:
    """Add values to their groups' vectors."""
    plain = signs.shape[0] == 0
    s = weight * weight - weight
    t = weight * (weight - 1.0) ** 2
    f = t * (weight - 1.0)
    for i in range(slots.shape[0]):
        sign = 1.0 if plain else np.float64(signs[i])
        if slots[i] >= 0 and sign != 0.0:
            vector = vectors[slots[i]]
            vector[start] += sign
            vector[start + 1] += sign * weight
            vector[start + 2] += sign * s
            vector[start + 3] += sign * t
            vector[start + 4] += sign * f
            x = values[i]
            power = sign * x
            vector[start + 5] += weight * power
            vector[start + 6] += s * power
            vector[start + 7] += t * power
            vector[start + 8] += f * power
            power *= x
            vector[start + 9] += s * power
            vector[start + 10] += t * power
            vector[start + 11] += f * power
            power *= x
            vector[start + 12] += s * power
            vector[start + 13] += t * power
            vector[start + 14] += f * power
            vector[start + 15] += f * (power * x)


@jit
def add_to_buckets(
    slots: Ints, signs: Signs, values: Doubles, buckets: Buckets, scale: float, start: int, vectors: Doubles
) -> None:
    """Add values (none: 1 for each row), times ``scale``, to their groups' sums by bucket, which begin at ``start``."""
    plain, counts = signs.shape[0] == 0, values.shape[0] == 0
    for i in range(slots.shape[0]):
        sign = 1.0 if plain else np.float64(signs[i])
        if slots[i] >= 0 and sign != 0.0:
            vectors[slots[i], start + buckets[i]] += sign * scale * (1.0 if counts else values[i])


@jit
def add_accuracies(slots: Ints, signs: Signs, missing: Doubles, flaws: Doubles, start: int, vectors: Doubles) -> None:
    """Add what rows lack of full accuracy, and whether they are flawed, to two cells of their groups' vectors."""
    plain = signs.shape[0] == 0
    for i in range(slots.shape[0]):
        sign = 1.0 if plain else np.float64(signs[i])
        if slots[i] >= 0 and sign != 0.0:
            vectors[slots[i], start] += sign * missing[i]
            vectors[slots[i], start + 1] += sign * flaws[i]


@jit
def add_vectors(into: Ints, slots: Ints, others: Doubles, vectors: Doubles) -> None:
    """Add others[slots[i]] to vectors[into[i]]; both may be one array."""
    for i in range(into.shape[0]):
        for k in range(vectors.shape[1]):
            vectors[into[i], k] += others[slots[i], k]


@jit
def scan_vectors(slots: Ints, places: Ints, vectors: Doubles) -> None:
    """Add up runs as `running_totals` does."""
    for i in range(slots.shape[0]):
        if places[i]:
            for k in range(vectors.shape[1]):
                vectors[slots[i], k] += vectors[slots[i - 1], k]
