"""The specs of keyed operators other than aggregates: ranking, deduplication, running aggregates, processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.model.aggregates import AggregateCall
from penstock.model.expressions import Ordering
from penstock.model.job_graph import KeyedSpec


@dataclass(frozen=True)
class TopSpec(KeyedSpec):
    """Keep the first ``rows`` rows of every key by ``order``; updating.

    Rows equal in all of ``order`` are ordered by their columns, left to right, nulls first, ascending
    (``tie_descending``: descending). ``rank`` names a column that counts from 1 (int64), or is None. ``interval_us`` is
    that of `Emission`.
    """

    rows: int
    order: tuple[Ordering, ...]
    rank: str | None = None
    tie_descending: bool = False
    interval_us: int | None = None


@dataclass(frozen=True)
class FirstSpec(KeyedSpec):
    """Pass the first row of every key and drop the others; append-only.

    First by event time, ties by the row's columns: a row waits until the watermark has passed it. With ``by_arrival``
    at once. With ``ttl_us`` a key is new again that long after its last first row.
    """

    by_arrival: bool = False
    ttl_us: int | None = None


@dataclass(frozen=True)
class OverSpec(KeyedSpec):
    """Emit every row with aggregates over it and the earlier rows of its key.

    ``rows`` is the size of the frame, the row itself included; None: all rows so far. Rows come in event-time order,
    ties by their columns, and append-only input gives append-only output, each row once the watermark has passed it.
    With an ``order`` of its own, or on a changelog, rows that come between others correct their results: a changelog,
    emitted at most once per ``interval_us``, which is that of `Emission`.
    """

    aggregates: tuple[tuple[str, AggregateCall], ...]
    rows: int | None = None
    interval_us: int | None = None
    order: tuple[Ordering, ...] = ()


@dataclass(frozen=True)
class ProcessSpec(KeyedSpec):
    """Call a user's process function; see ``penstock.dsl.process``.

    ``function`` is an instance of one of its classes. ``fields`` is the schema of its output, ``states`` what
    it declares by name, ``vectorised`` whether it takes batches. ``order`` is ``event`` or ``arrival``.
    """

    function: Any
    fields: pa.Schema
    states: Mapping[str, Any]
    vectorised: bool = False
    order: str = "event"
    on_error: str = "dead_letter"
