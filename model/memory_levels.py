"""Managed memory of stateful instances: doubling levels, and the split of a budget (Justin, sections 3 and 4.1).

Read by the policies that size memory and by `engine.control.cluster_snapshot`; a stateless instance has none.
"""

import numpy as np

from penstock.model.columns import Floats

MIB = 1 << 20
BASE_BYTES = 158 * MIB
"""Managed memory at level 0."""
MAX_LEVEL = 3
"""Levels are below it."""
NO_LEVEL = -1
"""The level of what has no managed memory."""
MEMTABLE_MOST_BYTES = 64 * MIB


def managed_bytes(level: int, base_bytes: int = BASE_BYTES) -> int:
    """Return the managed memory of an instance: m -> base * 2^m, m = 0, 1, ... (Justin, section 4.1).

    Raises:
        ValueError: the level is below 0; no managed memory is no level.
    """
    if level < 0:
        raise ValueError(f"memory levels begin at 0, not {level}")
    return base_bytes << level


def level_of(budget_bytes: float) -> int:
    """Return the level of a budget: the highest whose memory it covers, 0 if it covers none.

    Unbounded state (NaN) has the highest level.
    """
    if np.isnan(budget_bytes):
        return MAX_LEVEL - 1
    levels = [level for level in range(MAX_LEVEL) if managed_bytes(level) <= budget_bytes]
    return max(levels, default=0)


def split(managed: Floats) -> tuple[Floats, Floats]:
    """Return the memtable and the cache of budgets, in bytes.

    memtable = min(64 MiB, largest power of two <= managed / 3);  cache = managed - memtable

    Derived from RocksDB's write-buffer manager under Flink, which gets a third; 128 MiB -> 32 + 96 as in section 3.
    """
    third = np.asarray(managed, np.float64) / 3
    _, exponent = np.frexp(third)
    power = np.where(third >= 1, np.ldexp(1.0, exponent - 1), 0.0)
    memtable = np.minimum(MEMTABLE_MOST_BYTES, power)
    return memtable, managed - memtable
