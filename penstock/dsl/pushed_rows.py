"""A source that gives out what a test pushes; `penstock.testing` makes one for each input."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.engine.connectors.local.memory import MemorySource
from penstock.model.connectors import NOTHING, Read, Reader, Source


class PushedSource(Source):
    """Gives out what a test pushed, in order, by one partition."""

    aligned = False
    in_caller = True

    def __init__(self, schema: pa.Schema) -> None:
        """Take rows of this schema."""
        self._schema = schema
        self.waiting: deque[Read] = deque()
        self.ended = False

    @property
    def schema(self) -> pa.Schema:
        """The fields of the rows."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name the one partition."""
        return ["pushed"]

    def open(self, partition: str, position: Any | None) -> Reader:
        """Read what waits."""
        return _PushedReader(self)

    def add(self, data: Any) -> None:
        """Queue rows."""
        reader = MemorySource(data, self._schema).open("0/1", None)
        read = Read()
        while not read.ended:
            read = reader.read(1 << 20)
            if read.rows is not None and read.rows.num_rows:
                self.waiting.append(Read(read.rows))

    def describe(self) -> str:
        """Say that a test pushes."""
        return "pushed rows"


class _PushedReader(Reader):
    def __init__(self, source: PushedSource) -> None:
        self._source = source

    def read(self, max_rows: int) -> Read:
        waiting = self._source.waiting
        if not waiting:
            return Read(ended=True) if self._source.ended else NOTHING
        first = waiting.popleft()
        if first.rows is None or first.rows.num_rows <= max_rows:
            return first
        waiting.appendleft(Read(first.rows.slice(max_rows)))
        return Read(first.rows.slice(0, max_rows))

    def position(self) -> Any:
        return None
