"""Calls of methods that do not keep their object: who is to be woken is freed when nobody else needs it."""

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakMethod


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Return what calls a bound method as long as its object is there, and does nothing afterwards.

    A job, its threads and its instances otherwise hold each other, and state of gigabytes waits for Python's collector.
    """
    return partial(_call, WeakMethod(method))


def _call(method: "WeakMethod[Callable[..., None]]", *arguments: Any) -> None:
    bound = method()
    if bound is not None:
        bound(*arguments)
