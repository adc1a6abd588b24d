"""A source's rows, read once then replayed from memory, as often and from wherever a restart wants."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.engine.connectors.normalise import Normaliser
from penstock.engine.core.event_time import event_times_us
from penstock.engine.executors.simulation.kept_rows import KeptRows
from penstock.model.connectors import ENDED, Read, Reader, Source
from penstock.model.errors import FatalError
from penstock.model.schema import TimeColumn

if TYPE_CHECKING:
    from penstock.model.expressions import Expr

_READ_ROWS = 8_192
_QUIET_S = 2.0
"""How long a source that has nothing is waited for."""


class RecordedSource(Source):
    """The rows of each partition of another source, in its order."""

    def __init__(
        self,
        partitions: Mapping[str, pa.Table],
        schema: pa.Schema,
        aligned: bool,
        words: str,
        kept: Mapping[str, KeptRows] | None = None,
    ) -> None:
        """Hold the rows; ``words`` describes where they are from, ``kept`` are the rates at which rows stayed."""
        self._partitions, self._kept = dict(partitions), dict(kept or {})
        self._schema = schema
        self.aligned = aligned
        self._words = words

    @property
    def schema(self) -> pa.Schema:
        """The other source's."""
        return self._schema

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(table.num_rows for table in self._partitions.values())

    def partitions(self, parallelism: int) -> Sequence[str]:
        """Name those that were read."""
        return list(self._partitions)

    def open(self, partition: str, position: Any | None) -> Reader:
        """Read from memory."""
        if position is not None and not isinstance(position, int):
            raise FatalError(f"{position!r} is not a position of {self.describe()}")
        return _RecordedReader(self._partitions[partition], position or 0, self._kept.get(partition))

    def restrict(self, columns: Sequence[str], predicate: "Expr | None") -> "RecordedSource":
        """Keep only these columns."""
        names = list(columns)
        tables = {name: table.select(names) for name, table in self._partitions.items()}
        fields = pa.schema([self._schema.field(name) for name in names])
        return RecordedSource(tables, fields, self.aligned, self._words, self._kept)

    def where(self, kept: Callable[[str, int], KeptRows]) -> "RecordedSource":
        """Return the rows that stayed, at their rates; ``kept`` is asked with a partition's name and number of rows."""
        parts = {name: kept(name, table.num_rows) for name, table in self._partitions.items()}
        tables = {name: table.take(pa.array(parts[name].places)) for name, table in self._partitions.items()}
        return RecordedSource(tables, self._schema, self.aligned, self._words, parts)

    def describe(self) -> str:
        """Say what was read."""
        return f"{self.rows:,} rows of {self._words}"

    def disorder_us(self, time: TimeColumn) -> int:
        """Return how far, at most, a row's event time is behind that of a row before it in its partition."""
        worst = 0
        for table in self._partitions.values():
            times = [event_times_us(self._usable(batch, time), time) for batch in table.to_batches()]
            if times:
                joined = np.concatenate(times)
                if joined.size:
                    worst = max(worst, int((np.maximum.accumulate(joined) - joined).max()))
        return worst

    def _usable(self, rows: pa.RecordBatch, time: TimeColumn) -> pa.RecordBatch:
        return Normaliser(self._schema, time.name).normalise(rows)[0]


class _RecordedReader(Reader):
    """Position: the number of the next row."""

    def __init__(self, table: pa.Table, row: int, kept: KeptRows | None) -> None:
        self._table = table
        self._row = row
        self._kept = kept

    def read(self, max_rows: int) -> Read:
        """Return the next rows."""
        if self._row >= self._table.num_rows:
            return ENDED
        if self._kept is not None:
            read = self._kept.read(self._table, self._row, max_rows)
            assert read.rows is not None
            self._row += read.rows.num_rows
            return read
        batch = self._table.slice(self._row, max_rows).to_batches()[0]
        self._row += batch.num_rows
        return Read(batch, ended=self._row >= self._table.num_rows)

    def behind(self) -> int:
        """Return how many rows are left."""
        return int(self._table.num_rows) - self._row

    def position(self) -> int:
        """Return the next row."""
        return self._row


def record(source: Source, rows: int, partitions: int, sleep: Callable[[float], None]) -> tuple[RecordedSource, bool]:
    """Read a source once, up to so many rows, in turn from its partitions; also return whether that was all of it.

    ``sleep`` waits seconds for a source that has nothing now. ``partitions`` is what a source that can be cut anywhere
    is cut into. Records that cannot be decoded are left out.
    """
    names = list(source.partitions(partitions))
    readers = {name: source.open(name, None) for name in names}
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in names}
    left, quiet_s, reading = rows, 0.0, list(names)
    try:
        while reading and left > 0 and quiet_s < _QUIET_S:
            nothing = True
            for name in list(reading):
                read = readers[name].read(max(1, min(_READ_ROWS, left, -(-rows // (8 * len(names))))))
                if read.rows is not None and read.rows.num_rows and left > 0:
                    batches[name].append(read.rows.slice(0, left))
                    left -= batches[name][-1].num_rows
                    nothing = False
                if read.ended:
                    reading.remove(name)
            quiet_s = quiet_s + 0.02 if nothing else 0.0
            if nothing and reading:
                sleep(0.02)
    finally:
        for reader in readers.values():
            reader.close()
    tables = {name: pa.Table.from_batches(parts, source.schema) for name, parts in batches.items()}
    return RecordedSource(tables, source.schema, source.aligned, source.describe()), not reading
