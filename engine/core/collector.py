"""Keeps full collections of Python's garbage collector short while jobs run. Called by the shells that run one."""

import gc
from functools import cache


@cache
def keep_collections_short() -> None:
    """Let the collector pass over what is there now, for good; only the first call in a process does.

    Modules and compiled functions are some 190,000 objects: a full collection took 100 ms of the worker loop. What a
    job makes is not among them, or its memory would stay when it is over.
    """
    gc.freeze()
