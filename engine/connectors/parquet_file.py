"""One Parquet file, read in batches of some columns. Called by `ParquetReader`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.connectors.normalise import to_schema
from penstock.engine.connectors.parquet_chunk import ColumnChunk, stored_as_is, supported
from penstock.engine.connectors.parquet_pages import DamagedError, Scratch
from penstock.engine.connectors.parquet_statistics import dictionary_columns, flat_columns
from penstock.model.errors import SchemaError, UserError

FEW_ROWS = 4096
"""Row groups with fewer rows, on average, are read several at a time by pyarrow."""


class OpenFile:
    """A file and its columns of interest."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Open the file and read its footer.

        Raises:
            UserError: the file is gone, or it is not Parquet.
        """
        self._path = path
        self._schema = schema
        self._scratch = Scratch()
        try:
            self.metadata: pq.FileMetaData = pq.read_metadata(path)
            dictionaries = dictionary_columns(self.metadata, schema, schema.names)
            self._parquet = pq.ParquetFile(path, metadata=self.metadata, read_dictionary=dictionaries, pre_buffer=False)
            self._file = path.open("rb", buffering=0)
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{str(path)!r} cannot be read as Parquet: {error}") from None
        self._direct = self._columns_decoded_here()

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

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()
        self._file.close()

    def _columns_decoded_here(self) -> dict[str, int]:
        """Return the leaf column numbers of the wanted columns that need not go through pyarrow."""
        present = self._parquet.schema_arrow
        return {
            name: place
            for name, place in flat_columns(self.metadata).items()
            if name in self._schema.names
            and name in present.names
            and stored_as_is(
                self.metadata.schema.column(place), present.field(name).type, self._schema.field(name).type
            )
        }

    def _decoded(self, group: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield one row group: some columns are decoded here, pyarrow does the others."""
        row_group = self.metadata.row_group(group)
        chunks: dict[str, ColumnChunk] = {}
        for name, place in self._direct.items():
            chunk, column = row_group.column(place), self.metadata.schema.column(place)
            if supported(chunk, column):
                chunks[name] = ColumnChunk(self._file, chunk, column, self._schema.field(name).type, self._scratch)
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
            if left == 0:
                for column in chunks.values():
                    column.close()
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _decoded_by_arrow(self, groups: Sequence[int], batch_rows: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        batches = self._parquet.iter_batches(
            batch_rows, row_groups=list(groups), columns=schema.names, use_threads=False
        )
        for batch in batches:
            yield to_schema(batch, schema)
