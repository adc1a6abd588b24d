"""The Nexmark queries, one file each, written as a user would."""

import importlib
from collections.abc import Callable

from penstock.benchmarks.nexmark.events import Events
from penstock.dsl.stream import Stream
from penstock.model.errors import OptionError

NAMES = tuple(f"q{number}" for number in range(24))
"""The queries there are, in order."""


def load(name: str) -> Callable[[Events], Stream]:
    """Return a query: a function from the event streams to the stream of its results.

    Raises:
        OptionError: there is no such query.
    """
    if name not in NAMES:
        raise OptionError(f"there is no Nexmark query {name!r} here; choose from {', '.join(NAMES)}")
    module = importlib.import_module(f"penstock.benchmarks.nexmark.queries.{name}")
    query: Callable[[Events], Stream] = module.query
    return query


def question(name: str) -> str:
    """Return what a query asks, in words."""
    module = importlib.import_module(f"penstock.benchmarks.nexmark.queries.{name}")
    return (module.__doc__ or "").strip().splitlines()[0]
