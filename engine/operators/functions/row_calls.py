"""Calls a user's function once per row at the speed of Python's own loops, and notes the rows for which it raised."""

from collections.abc import Iterator
from typing import Any

from penstock.model.source_location import user_traceback

Failures = dict[int, str]
"""The traceback, or reason, of every row that failed, by its number."""

FAILED = object()
"""Stands for the result of a row that failed."""


def take_results(calls: Iterator[Any], count: int) -> tuple[list[Any], Failures]:
    """Take the results of ``count`` calls; `FAILED` stands where one raised.

    ``calls`` makes one call per item and goes on after an exception, as `map` does and a generator does not.
    """
    results: list[Any] = []
    failures: Failures = {}
    while len(results) < count:
        try:
            # What came before an exception stays in the list.
            results.extend(calls)
            if len(results) < count:
                raise RuntimeError("the function raised StopIteration")
        except Exception as failure:
            failures[len(results)] = user_traceback(failure)
            results.append(FAILED)
    return results, failures
