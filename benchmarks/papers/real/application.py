"""Jobs that are measured: how an evaluation says what runs, and what counts as rows that take part in its queries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from penstock.dsl.job import Job
from penstock.dsl.sinks import SinkHandle


@dataclass(frozen=True, slots=True)
class Setting:
    """Where an application runs: its cluster and topics, where results go, and options of its own.

    ``until`` ``latest``: it reads what is there and ends.
    """

    kafka: str
    topics: tuple[str, ...]
    folder: Path
    until: Literal["latest"] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counted:
    """Where the rows of a query are counted: what goes into ``operator`` of what the ``topics`` offer."""

    operator: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Application:
    """A job, and by query where its rows are counted."""

    job: Job
    queries: Mapping[str, Counted]


def attribute(reference: str) -> Any:
    """Return what ``module:name`` names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def under_contract(sink: SinkHandle, setting: Setting, query: str) -> None:
    """Name a sink after its query, with the minimum accuracy and priority that option ``contracts`` has of it."""
    sink.name(query)
    contract = setting.options.get("contracts", {}).get(query)
    if contract is not None:
        minimum, priority = contract
        sink.with_min_accuracy(minimum).with_priority(priority)
