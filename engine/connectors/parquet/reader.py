"""Reads one partition of Parquet files, row group after row group, a batch at a time. Called by `ParquetSource`."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from penstock.engine.connectors.files.positions import FileMark, mark
from penstock.engine.connectors.parquet.file import OpenFile
from penstock.engine.connectors.parquet.statistics import greatest_times_us, row_group_statistics
from penstock.engine.connectors.parquet.statistics_filter import StatisticsFilter
from penstock.engine.connectors.partitions import FilePartition
from penstock.model.connectors import Read, Reader

if TYPE_CHECKING:
    from penstock.model.expressions import Expr


@dataclass(slots=True)
class RowGroup:
    """A row group of this partition; ``time_us`` is the greatest event time of one that is left out, if known."""

    number: int
    rows: int
    skipped: bool = False
    time_us: int | None = None


class ParquetPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file, a row group of it, and the rows read of that group."""

    mark: FileMark
    group: int
    row: int


class ParquetReader(Reader):
    """Reads row groups in order. Position: `ParquetPosition`."""

    def __init__(
        self,
        partition: FilePartition,
        schema: pa.Schema,
        full: pa.Schema,
        predicate: "Expr | None",
        time: pa.Field | None,
        position: ParquetPosition | None,
    ) -> None:
        """``full`` has the columns that the predicate may name; ``time`` is the event time column, read or not.

        Raises:
            UserError: the first file cannot be read.
        """
        self._files = partition.files
        self._schema = schema
        self._filter = None if predicate is None else StatisticsFilter(predicate, full)
        self._time = time
        self._partition = partition
        self._file_number = -1
        self._file: OpenFile | None = None
        self._groups: deque[RowGroup] = deque()
        self._run: deque[RowGroup] = deque()
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rest: pa.RecordBatch | None = None
        self._group = 0
        self._row = 0
        self._mark = mark(partition, self._files[0]) if position is None else position.mark
        self._resume_at = position

    def read(self, max_rows: int) -> Read:
        """Return the next rows, never across files; the first call opens the file."""
        if self._resume_at is not None:
            self._resume(self._resume_at)
        skipped, time_us = 0, None
        while True:
            rows = self._next_rows(max_rows)
            if rows is not None:
                return Read(rows, skipped=skipped, skipped_time_us=time_us)
            while not self._groups:
                if not self._open_next_file():
                    self.close()
                    return Read(ended=True, skipped=skipped, skipped_time_us=time_us)
            if self._groups[0].skipped:
                group = self._groups.popleft()
                skipped += group.rows - (self._row if group.number == self._group else 0)
                self._group, self._row = group.number + 1, 0
                if group.time_us is not None:
                    time_us = group.time_us if time_us is None else max(time_us, group.time_us)
            else:
                self._start_run(max_rows)

    def position(self) -> dict[str, Any]:
        """Return where the next rows come from."""
        at = self._resume_at or ParquetPosition(self._mark, self._group, self._row)
        position: dict[str, Any] = msgspec.to_builtins(at)
        return position

    def close(self) -> None:
        """Close the file."""
        self._batches, self._rest = iter(()), None
        if self._file is not None:
            self._file.close()
            self._file = None

    def _resume(self, position: ParquetPosition) -> None:
        names = [str(path) for path in self._files]
        self._file_number = names.index(position.mark.file) - 1
        self._open_next_file()
        self._group, self._row = position.group, position.row
        while self._groups and self._groups[0].number < self._group:
            self._groups.popleft()
        self._resume_at = None

    def _open_next_file(self) -> bool:
        """Open the next file and list its row groups; False if there is none."""
        if self._file_number + 1 >= len(self._files):
            return False
        self.close()
        self._file_number += 1
        self._group, self._row = 0, 0
        path = self._files[self._file_number]
        self._file = OpenFile(path, self._schema)
        if str(path) != self._mark.file:
            self._mark = mark(self._partition, path)
        metadata = self._file.metadata
        mine = [group for group in range(metadata.num_row_groups) if self._partition.has(self._file_number, group)]
        groups = [RowGroup(group, metadata.row_group(group).num_rows) for group in mine]
        groups = [group for group in groups if group.rows]
        if groups and self._filter is not None:
            self._leave_out(groups)
        self._groups = deque(groups)
        return True

    def _leave_out(self, groups: Sequence[RowGroup]) -> None:
        """Mark the row groups that the predicate rules out."""
        assert self._file is not None and self._filter is not None
        metadata, numbers = self._file.metadata, [group.number for group in groups]
        kept = self._filter.may_match(row_group_statistics(metadata, numbers, self._filter.fields))
        times = greatest_times_us(metadata, numbers, self._time) if self._time is not None else [None] * len(groups)
        for group, stays, time_us in zip(groups, kept, times, strict=True):
            group.skipped = not stays
            group.time_us = time_us

    def _start_run(self, max_rows: int) -> None:
        """Begin with the next row groups, as many as make a batch."""
        assert self._file is not None
        rows = 0
        while self._groups and not self._groups[0].skipped and rows < max_rows:
            group = self._groups.popleft()
            self._run.append(group)
            rows += group.rows
        first = self._run[0]
        to_skip = self._row if first.number == self._group else 0
        self._group, self._row = first.number, to_skip
        self._batches = _without_first(self._file.batches([group.number for group in self._run], max_rows), to_skip)

    def _next_rows(self, max_rows: int) -> pa.RecordBatch | None:
        """Return rows of the current run, None if it is over."""
        if self._rest is None:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        rows = self._rest.slice(0, max_rows)
        self._rest = self._rest.slice(max_rows) if self._rest.num_rows > max_rows else None
        self._row += rows.num_rows
        while self._run and self._row >= self._run[0].rows:
            done = self._run.popleft()
            if self._file is not None:
                self._file.forget(done.number)
            self._row -= done.rows
            self._group = self._run[0].number if self._run else done.number + 1
        return rows


def _without_first(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Drop the first rows, and batches without rows."""
    for batch in batches:
        if rows < batch.num_rows:
            yield batch.slice(rows) if rows else batch
        rows = max(0, rows - batch.num_rows)
