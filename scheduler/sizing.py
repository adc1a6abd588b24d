"""Sage's sizing rules in order of priority (docs/design/papers/sage.md 2). Called by `sage`.

Each rule reads its own window of all applications and proposes new values of its resource for some of them.
"""

from collections.abc import Sequence

from penstock.scheduler.growth_rules import CpuUp, HeapUp, MemoryUp, ThreadsUp
from penstock.scheduler.shrink_rules import CpuDown, HeapDown, MemoryDown, ThreadsDown
from penstock.scheduler.sizing_rule import Rule

RULES: Sequence[Rule] = (
    HeapUp(),
    MemoryUp(),
    CpuUp(),
    ThreadsUp(),
    HeapDown(),
    MemoryDown(),
    CpuDown(),
    ThreadsDown(),
)
"""By priority, the first first. No window is shorter than that of a rule before it."""
