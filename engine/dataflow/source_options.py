"""Options of a source head: the stream that it makes, the pace of reading, and the start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.engine.dataflow.source_discovery import SourceDiscovery
from penstock.model.connectors import Source
from penstock.model.schema import TimeColumn
from penstock.model.strata import Strata


@dataclass(frozen=True, slots=True)
class SourceStream:
    """The stream of a source. ``time`` None: its rows have no event time.

    Its watermark is ``delay_us`` behind the greatest event time seen. Rows that are more than ``max_ahead_us`` ahead of
    the clock are bad, and say nothing of the watermark; None: none is. ``seed`` is that of samples. ``branches`` and
    ``keys`` are the names of branches and of samplers of keys behind it, by their numbers. ``strata``: those by which
    records draw their steps, which rows say then (`DRAW_FIELD`).
    """

    name: str
    source: Source
    time: TimeColumn | None
    delay_us: int
    max_ahead_us: int | None = None
    seed: int = 0
    branches: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    strata: Strata | None = None


@dataclass(frozen=True, slots=True)
class ReadPace:
    """The size of a read, the wait of small reads for more, and the silence after which a partition is idle.

    A source that ``keeps`` does not end its stream: at its end it is exhausted, and its watermark stays for later runs.
    """

    batch_rows: int
    linger_ns: int
    idle_timeout_ns: int
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class SourceStart:
    """The partitions that an instance begins with, at their ``positions`` if these, of all instances, name them.

    With ``discovery`` partitions may follow, so it never ends by itself. ``closed``: a run before closed what is behind
    this source, so that no row may come. One that ``joins`` others that run is held until it is given partitions.
    """

    partitions: Sequence[str]
    positions: Mapping[str, Any] | None = None
    discovery: SourceDiscovery | None = None
    closed: bool = False
    joins: bool = False
