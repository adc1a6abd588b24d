"""One Parquet file mapped into memory, read in batches of some columns. Called by `ParquetReader`."""

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.connectors.normalise import to_schema
from penstock.engine.connectors.parquet.statistics import dictionary_columns
from penstock.model.errors import SchemaError, UserError


class OpenFile:
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
            buffer = pa.py_buffer(self._mapping)
            self.metadata: pq.FileMetaData = pq.read_metadata(pa.BufferReader(buffer))
            dictionaries = dictionary_columns(self.metadata, schema, schema.names)
            self._parquet = pq.ParquetFile(
                pa.BufferReader(buffer), metadata=self.metadata, read_dictionary=dictionaries, pre_buffer=False
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{str(path)!r} cannot be read as Parquet: {error}") from None

    def batches(self, groups: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of row groups in batches of ``batch_rows``; the last may have fewer.

        Raises:
            UserError: the file is damaged.
            SchemaError: a column is missing or has a type that does not fit.
        """
        batches = self._parquet.iter_batches(
            batch_rows, row_groups=list(groups), columns=self._schema.names, use_threads=False
        )
        try:
            for batch in batches:
                yield to_schema(batch, self._schema)
        except SchemaError as error:
            raise SchemaError(f"{str(self._path)!r} differs from what is expected: {error}") from None
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{str(self._path)!r} is damaged or cannot be read: {error}") from None

    def forget(self, group: int) -> None:
        """Give back the memory of a row group's pages that were read."""
        row_group = self.metadata.row_group(group)
        wanted = set(self._schema.names)
        for index in range(self.metadata.num_columns):
            chunk = row_group.column(index)
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
