"""One Parquet file mapped into memory, read in batches of some columns. Called by `ParquetReader`."""

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.connectors.normalise import to_schema
from penstock.engine.connectors.parquet_chunk import ColumnChunk, DamagedError, supported
from penstock.engine.connectors.parquet_statistics import dictionary_columns, flat_columns
from penstock.model.errors import SchemaError, UserError

FEW_ROWS = 4096
"""Row groups with fewer rows, on average, are read several at a time by pyarrow."""


class MappedFile:
    """A file and its columns of interest. Pages that were read are given back, so memory use does not grow with it."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Map the file and read its footer.

        Raises:
            UserError: the file is gone, or it is not Parquet.
        """
        self._path = path
        self._schema = schema
        try:
            with path.open("rb") as file:
                self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._buffer = pa.py_buffer(self._mapping)
            self.metadata: pq.FileMetaData = pq.read_metadata(pa.BufferReader(self._buffer))
            dictionaries = dictionary_columns(self.metadata, schema, schema.names)
            self._parquet = pq.ParquetFile(
                pa.BufferReader(self._buffer), metadata=self.metadata, read_dictionary=dictionaries, pre_buffer=False
            )
            self._present: pa.Schema = self._parquet.schema_arrow
            self._places = {name: place for name, place in flat_columns(self.metadata).items() if name in schema.names}
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{str(path)!r} cannot be read as Parquet: {error}") from None

    def batches(self, groups: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of row groups in batches of ``batch_rows``; the last of a row group may have fewer.

        Raises:
            UserError: the file is damaged.
            SchemaError: a column is missing or has a type that does not fit.
        """
        try:
            if sum(self.metadata.row_group(group).num_rows for group in groups) < FEW_ROWS * len(groups):
                yield from self._decoded_by_arrow(groups, batch_rows, self._schema)
                return
            for group in groups:
                yield from self._decoded(group, batch_rows)
        except SchemaError as error:
            raise SchemaError(f"{str(self._path)!r} differs from what is expected: {error}") from None
        except (DamagedError, pa.ArrowException, OSError) as error:
            raise UserError(f"{str(self._path)!r} is damaged or cannot be read: {error}") from None

    def _decoded(self, group: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield one row group: some columns are decoded here, pyarrow does the others."""
        row_group = self.metadata.row_group(group)
        chunks: dict[str, ColumnChunk] = {}
        for name, place in self._places.items():
            chunk, column, kind = (
                row_group.column(place),
                self.metadata.schema.column(place),
                self._schema.field(name).type,
            )
            if supported(chunk, column, self._present.field(name).type, kind):
                chunks[name] = ColumnChunk(self._buffer, chunk, column, kind)
        rest = pa.schema([field for field in self._schema if field.name not in chunks])
        others = self._decoded_by_arrow([group], batch_rows, rest) if len(rest) else None
        if not chunks and others is not None:
            yield from others
            return
        left = row_group.num_rows
        while left:
            other = None if others is None else next(others)
            count = min(batch_rows, left) if other is None else other.num_rows
            columns = [
                chunks[name].take(count) if other is None or name in chunks else other.column(name)
                for name in self._schema.names
            ]
            left -= count
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _decoded_by_arrow(self, groups: Sequence[int], batch_rows: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        batches = self._parquet.iter_batches(
            batch_rows, row_groups=list(groups), columns=schema.names, use_threads=False
        )
        for batch in batches:
            yield to_schema(batch, schema)

    def forget(self, group: int) -> None:
        """Give back the memory of a row group's pages that were read."""
        chunks = [self.metadata.row_group(group).column(index) for index in range(self.metadata.num_columns)]
        wanted = set(self._schema.names)
        for chunk in chunks:
            if chunk.path_in_schema.partition(".")[0] in wanted:
                first = chunk.data_page_offset
                if chunk.dictionary_page_offset is not None:
                    first = min(first, chunk.dictionary_page_offset)
                self._give_back(first, first + chunk.total_compressed_size)

    def close(self) -> None:
        """Close the file; its mapping goes when no batch refers to it any more."""
        self._parquet.close()

    def _give_back(self, first: int, end: int) -> None:
        """Drop whole pages only: those at the ends belong to neighbours too."""
        first = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
        size = min(end, len(self._mapping)) // mmap.PAGESIZE * mmap.PAGESIZE - first
        if size > 0:
            self._mapping.madvise(mmap.MADV_DONTNEED, first, size)
