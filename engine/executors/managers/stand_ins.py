"""Stand-ins for sources and sinks that stay in the caller's process, in the plans of other processes.

Whoever hosts none of their instances asks them only what a plan shows; called by `plan_parcel`.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa

from penstock.model.connectors import Reader, Sink, Source, Writer
from penstock.model.errors import BugError
from penstock.model.sink_context import SinkContext


class StandInSource(Source):
    """A source without rows: the fields, flags, partitions and words of another."""

    in_caller = True

    def __init__(self, source: Source, parallelism: int) -> None:
        """Take what ``source`` says of itself in a plan with so many instances of it."""
        self.bounded, self.grows, self.partitions_grow = source.bounded, source.grows, source.partitions_grow
        self.aligned, self.discovery_us = source.aligned, source.discovery_us
        self._schema = source.schema
        self._partitions = tuple(source.partitions(parallelism))
        self._words = source.describe()

    @property
    def schema(self) -> pa.Schema:
        """The fields of the rows."""
        return self._schema

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name those that instances in the caller's process read."""
        return self._partitions

    def open(self, partition: str, position: Any | None) -> Reader:
        """Raise `BugError`: an instance was placed where the source is not."""
        raise _misplaced(self._words)

    def describe(self) -> str:
        """Say what the source says."""
        return self._words


class StandInSink(Sink):
    """A sink that takes no rows: the flags and words of another."""

    in_caller = True

    def __init__(self, sink: Sink) -> None:
        """Take what ``sink`` says of itself."""
        self.transactional = sink.transactional
        self._words = sink.describe()

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Raise `BugError`: an instance was placed where the sink is not."""
        raise _misplaced(self._words)

    def with_checkpoints(self, context: SinkContext) -> NoReturn:
        """Raise `BugError`, as do `commit` and `recover`."""
        raise _misplaced(self._words)

    def commit(self, epoch: int, receipts: Sequence[Any]) -> None:
        """Raise `BugError`."""
        raise _misplaced(self._words)

    def recover(self, epoch: int | None, receipts: Sequence[Any]) -> None:
        """Raise `BugError`."""
        raise _misplaced(self._words)

    def describe(self) -> str:
        """Say what the sink says."""
        return self._words


def _misplaced(words: str) -> BugError:
    return BugError(f"{words!r} belongs to the process that started the job, and was used in another")
