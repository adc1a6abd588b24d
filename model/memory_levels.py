"""Managed memory of stateful instances: doubling levels, and the split of a budget (Justin, sections 3 and 4.1).

Read by the policies that size memory and by `engine.control.cluster_snapshot`; a stateless instance has none.
"""

import numpy as np

from penstock.model.columns import Floats, Ints

MIB = 1 << 20
BASE_BYTES = 158 * MIB
"""Managed memory at level 0."""
MAX_LEVEL = 3
"""Levels are below it."""
ROUNDING = 1e-9
NO_LEVEL = -1
"""The level of what has no managed memory."""
MEMTABLE_MOST_BYTES = 64 * MIB
LEAST_BYTES = 2 * MIB
"""The least budget of state: a page store has 1 MB of it at least, and as much is for what is in memory."""


def managed_bytes(level: int, base_bytes: int = BASE_BYTES) -> int:
    """Return the managed memory of an instance: m -> base * 2^m, m = 0, 1, ... (Justin, section 4.1).

    Raises:
        ValueError: the level is below 0; no managed memory is no level.
    """
    if level < 0:
        raise ValueError(f"memory levels begin at 0, not {level}")
    return base_bytes << level


def levels_of(budget_bytes: Floats, base_bytes: Floats) -> Ints:
    """Return the levels of budgets: the highest whose memory each covers, 0 if it covers none.

    ``base_bytes``: the memory at level 0; not known (NaN): that of the paper. Unbounded state (NaN) has the highest.
    """
    base = np.where(base_bytes > 0, base_bytes, BASE_BYTES)
    covered = np.where(budget_bytes >= base, budget_bytes, base)
    levels = np.floor(np.log2(covered / base) + ROUNDING)
    return np.where(np.isnan(budget_bytes), MAX_LEVEL - 1, levels).astype(np.int32)


def bytes_at(level: int, level_now: int, bytes_now: float, base_bytes: int = BASE_BYTES) -> int:
    """Return the memory of an instance at another level than it has, in doublings of its present memory.

    ``base_bytes``: the memory at level 0 of what has none, or none that is known.
    """
    if not (np.isfinite(bytes_now) and bytes_now > 0):
        return managed_bytes(level, base_bytes)
    return int(bytes_now * 2.0 ** (level - level_now))


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
