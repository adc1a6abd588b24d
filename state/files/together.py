"""Pieces of work that write files, several at a time: each waits for a disk or an object store most of the time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 4
"""So many files are written at a time."""


def in_threads(works: Sequence[Callable[[], T]]) -> list[T]:
    """Do all of it and return what it returns, in order; if something fails, raise its error once all has ended."""
    if len(works) < 2:
        return [work() for work in works]
    with ThreadPoolExecutor(min(AT_ONCE, len(works)), "penstock-files") as pool:
        futures = [pool.submit(work) for work in works]
    return [future.result() for future in futures]
