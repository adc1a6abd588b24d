"""Retries of idempotent steps whose outcome is not known."""

from collections.abc import Callable
from typing import TypeVar

from penstock.model.errors import RetryableError

_T = TypeVar("_T")


def retry_until_known(act: Callable[[], _T], tries: int = 5) -> _T:
    """Act again as long as it is not known whether it was done; the last failure is raised."""
    for _ in range(tries - 1):
        try:
            return act()
        except RetryableError:
            continue
    return act()
