"""The sizing policies of Sage in their order of priority (docs/design/papers/sage.md 2). Called by `sage`.

Each rule looks at its own window of all applications and says for which of them it would change which resource to what.
"""

from collections.abc import Sequence

from penstock.scheduler.growing import CpuUp, HeapUp, MemoryUp, ThreadsUp
from penstock.scheduler.shrinking import CpuDown, HeapDown, MemoryDown, ThreadsDown
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
