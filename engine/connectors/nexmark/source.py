"""The Nexmark generator as a source: persons, auctions or bids, bounded or endless. Built by the DSL's readers."""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.generator import SCHEMAS, check_kind, generate, rows_before, rows_of_kind
from penstock.engine.connectors.partitions import numbered, partition_number
from penstock.engine.connectors.positions import read_position
from penstock.model.connectors import ENDED, Read, Reader, Source

if TYPE_CHECKING:
    from penstock.model.expressions import Expr

TURN_EVENTS = 35_600
"""Events of a turn when several partitions share the stream: 32,752 of them are bids, just one default batch."""


class NexmarkSource(Source):
    """All events of one kind, as fast as they are asked for. Partitions take turns by event number."""

    def __init__(self, config: NexmarkConfig, kind: str) -> None:
        """``kind`` is ``person``, ``auction`` or ``bid``.

        Raises:
            OptionError: there is no such kind.
        """
        check_kind(kind)
        self._config = config
        self._kind = kind
        self._schema = SCHEMAS[kind]
        self.bounded = config.events is not None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the reference, or those left after `restrict`."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Deal the events out in turns."""
        return numbered(parallelism)

    def open(self, partition: str, position: Any | None) -> Reader:
        """Open one partition."""
        number, count = partition_number(partition)
        if position is not None:
            position = read_position(self, position, tuple[int, int])
        return _NexmarkReader(self._config, self._kind, self._schema.names, number, count, position)

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> "NexmarkSource":
        """Generate only these columns."""
        restricted = copy(self)
        restricted._schema = pa.schema([self._schema.field(name) for name in columns])
        return restricted

    def describe(self) -> str:
        """Name the kind of event and how many events there are."""
        events = "endless" if self._config.events is None else f"{self._config.events:,}"
        return f"Nexmark {self._kind}s of {events} events"


class _NexmarkReader(Reader):
    """Generates every n-th turn of events. Position: turn and row within it."""

    def __init__(
        self,
        config: NexmarkConfig,
        kind: str,
        columns: Sequence[str],
        partition: int,
        partitions: int,
        position: Any | None,
    ) -> None:
        self._config = config
        self._kind = kind
        self._columns = columns
        self._partitions = partitions
        self._whole = partitions == 1
        self._total = rows_of_kind(config, kind)
        self._turn: int = partition if position is None else position[0]
        self._row: int = 0 if position is None else position[1]
        self._made = 0
        self._start_turn()

    def read(self, max_rows: int) -> Read:
        """Generate the next rows of the turn."""
        while self._left == 0:
            if self._ended:
                return ENDED
            self._turn, self._row = self._turn + self._partitions, 0
            self._start_turn()
        rows = max_rows if self._left is None else min(max_rows, self._left)
        batch = generate(self._config, self._kind, self._first + self._row, rows, self._columns)
        self._row += rows
        self._made += rows
        if self._left is not None:
            self._left -= rows
        return Read(batch, ended=self._left == 0 and self._ended)

    def position(self) -> list[int]:
        """Return turn and row."""
        return [self._turn, self._row]

    def behind(self) -> int | None:
        """Return 0 for an endless stream: events are made when they are asked for."""
        return None if self._config.events is not None else 0

    def appended(self) -> int | None:
        """Return how many events of an endless stream were made."""
        return None if self._config.events is not None else self._made

    def _start_turn(self) -> None:
        """Look up the rows of a turn; alone, one partition has a single turn of all rows."""
        if self._whole:
            self._first, self._ended = 0, self._total is not None
            self._left = None if self._total is None else self._total - self._row
            return
        events = self._config.events
        begin = self._turn * TURN_EVENTS
        end = begin + TURN_EVENTS
        if events is not None:
            begin, end = min(begin, events), min(end, events)
        self._first = rows_before(self._config, self._kind, begin)
        self._left = rows_before(self._config, self._kind, end) - self._first - self._row
        self._ended = events is not None and begin + TURN_EVENTS * self._partitions >= events
