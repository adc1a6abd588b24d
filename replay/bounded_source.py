"""Any source of a pipeline in Spark: a Python Data Source whose partitions are the source's own.

Rows are read by the stream's own readers, so both see the same; each partition is a task. Called by `source_reading`,
for everything but Kafka, and by `stream_output` for the files that a stream wrote.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.model.connectors import Source
from penstock.model.errors import UserError
from penstock.replay import slices_source
from penstock.replay.spark_types import spark_schema, to_spark_batch

BATCH_ROWS = 32_768
PIECE, ROW = "$piece", "$row"
"""Columns that say where a row stood: the number of its piece, and its own there, from 0."""

_PAUSE_S = 0.002

Piece = tuple[Source, str]
"""A source, and the name of one of its partitions."""


def pieces_of(source: Source, tasks: int) -> list[Piece]:
    """Return all of a source, cut for so many tasks or more.

    Raises:
        UserError: it has no end.
    """
    if not source.bounded:
        raise UserError(f"{source.describe()} has no end, so it cannot be read in a batch")
    return [(source, partition) for partition in source.partitions(tasks)]


def scan(session: SparkSession, schema: pa.Schema, pieces: Sequence[Piece], *, numbered: bool = False) -> DataFrame:
    """Return the rows of pieces of sources, which have this schema, a task each; nothing is read yet.

    ``numbered`` adds the columns `PIECE` and `ROW`. Records that cannot be decoded are left out.

    Raises:
        UserError: a source cannot be sent to workers.
    """
    reading = SourceScan(schema, tuple(pieces), numbered)
    try:
        return slices_source.scan(session, reading, spark_schema(reading.schema), range(len(pieces)))
    except slices_source.UnsendableError as error:
        what = pieces[0][0].describe()
        raise UserError(f"{what} cannot be sent to Spark's workers ({error}): build it from parts that can") from error


@dataclass(frozen=True, slots=True)
class SourceScan:
    """A scan of a source, as it is sent to the workers."""

    fields: pa.Schema
    pieces: tuple[Piece, ...]
    numbered: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        if not self.numbered:
            return self.fields
        return self.fields.append(pa.field(PIECE, pa.int64())).append(pa.field(ROW, pa.int64()))

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Read one piece, in a worker."""
        source, partition = self.pieces[number]
        reader = source.open(partition, None)
        rows_before = 0
        pause = threading.Event()
        try:
            while True:
                read = reader.read(BATCH_ROWS)
                if read.rows is not None and read.rows.num_rows:
                    yield to_spark_batch(self._numbered(read.rows, number, rows_before))
                    rows_before += read.rows.num_rows
                elif not read.ended:
                    pause.wait(_PAUSE_S)
                if read.ended:
                    return
        finally:
            reader.close()

    def _numbered(self, rows: pa.RecordBatch, number: int, rows_before: int) -> pa.RecordBatch:
        if not self.numbered:
            return rows
        places = np.arange(rows_before, rows_before + rows.num_rows)
        columns = [*rows.columns, pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows), pa.array(places)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
