"""The heap of applications: what lives, what collecting it costs, when it kills (docs/design/simulated-cluster.md 8).

The simulated cluster asks at every slow tick; one function a formula.
"""

import numpy as np

from penstock.model.columns import Bools, Floats

FULL = 0.98
"""Of the heap that lives: above it collecting frees nothing in time, and the process is killed."""


def live_bytes(
    base: Floats, waiting_bytes: Floats, overhead: Floats, state_bytes: Floats, state_share: Floats
) -> Floats:
    """Return live heap: base + overhead x waiting rows' bytes + share x state, all in bytes."""
    return base + overhead * waiting_bytes + state_share * state_bytes


def collection_s(allocated: Floats, live: Floats, heap: Floats, s_per_byte: Floats) -> Floats:
    """Return core seconds of garbage collection for ``allocated`` bytes.

    G = A x g x L / (H - L)

    A: allocated; each H - L of it fills the heap once, and a collection then walks all that lives, L, at g s a byte.
    Applications without a heap limit (infinite H) pay nothing.
    """
    return allocated * s_per_byte * live / np.maximum(heap - live, (1 - FULL) * live + 1)


def collections(allocated: Floats, live: Floats, heap: Floats) -> Floats:
    """Return how often garbage was collected: A / (H - L)."""
    return allocated / np.maximum(heap - live, (1 - FULL) * live + 1)


def committed_bytes(before: Floats, live: Floats, heap: Floats) -> Floats:
    """Return what the process claims of its heap: half more than lives, never less than before, at most all."""
    return np.minimum(np.maximum(before, 1.5 * live), np.where(np.isfinite(heap), heap, np.inf))


def killed(live: Floats, heap: Floats, resident: Floats, memory: Floats) -> Bools:
    """Return who is killed: the heap is full of what lives, or more is resident than was given."""
    return (live > FULL * heap) | (resident > memory)
