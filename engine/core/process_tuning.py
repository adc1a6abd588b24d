"""Sets the interpreter and the C allocator up for a worker loop. Called by the shells that run one."""

import gc
import sys
from functools import cache

import numpy as np

KEPT_BYTES = 31 << 20
"""Just below the greatest block glibc learns from (32 MiB)."""

SWITCH_S = 0.0005
"""How long a thread that runs Python may keep others waiting."""


def tune_process() -> None:
    """Keep freed memory, hand the interpreter over soon, and keep full collections short, for the whole process.

    - glibc takes the size of a freed block as the new limit above which blocks come from the system directly, and
      twice that as how much free memory it keeps. Batches of half a megabyte otherwise cost a page fault per 4 KiB,
      each time: measured on Nexmark q2, 52,000 faults and 0.18 s became 2,500 faults and 0.11 s. Where the allocator
      is another one, this does nothing.
    - The loop lets go of the interpreter in every kernel, and then waited up to Python's 5 ms for whoever uploads,
      fetches or compacts: a barrier that passes 20 kernels could stand for 100 ms.
    """
    np.empty(KEPT_BYTES, np.uint8)
    sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))
    _pass_over_what_is_there()


@cache
def _pass_over_what_is_there() -> None:
    """Let the collector pass over what is there now, for good; only the first call in a process does.

    Modules and compiled functions are some 190,000 objects: a full collection took 100 ms of the worker loop. What a
    job makes is not among them, or its memory would stay when it is over.
    """
    gc.freeze()
