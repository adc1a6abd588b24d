"""The Python Data Source that Spark sees: a task for each slice. What reads a slice is unpacked where it is read.

Spark starts a process to ask for the columns and another for the slices of every query, so what these import is little.
Called by `kafka_source` and `bounded_source`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

_Pickles: Any = CloudPickleSerializer
"""Spark's own, which also packs whatever functions use; it has no types."""


class UnsendableError(Exception):
    """A reader of slices holds something that cannot go to another process."""


class SliceReader(Protocol):
    """Reads a slice, whatever that is to it, in a worker; sent there by pickle."""

    def read(self, piece: Any) -> Iterator[pa.RecordBatch]:
        """Yield its rows as Spark takes them."""


def scan(session: SparkSession, reading: SliceReader, schema: StructType, slices: Sequence[Any]) -> DataFrame:
    """Return what the slices have; nothing is read yet.

    Raises:
        UnsendableError: ``reading`` cannot be sent.
    """
    # On Spark Connect a name is looked up whenever a query runs, so each scan has its own.
    name = f"penstock-{uuid4().hex}"
    try:
        packed: bytes = _Pickles().dumps(reading)
    except Exception as error:  # objects of users say in their own ways that they stay where they are
        raise UnsendableError(str(error)) from error
    session.dataSource.register(_source_class(name, schema, tuple(slices), packed))
    return session.read.format(name).load()


def _source_class(called: str, columns: StructType, slices: Sequence[Any], packed: bytes) -> type[DataSource]:
    """Return a class of its own, which Spark sends with what is to be read in it: options could be text only."""

    class Slices(DataSource):
        @classmethod
        def name(cls) -> str:
            return called

        def schema(self) -> StructType:
            return columns

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Reader(slices, packed)

    return Slices


class _Reader(DataSourceReader):
    def __init__(self, slices: Sequence[Any], packed: bytes) -> None:
        self._slices, self._packed = slices, packed

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(piece) for piece in self._slices]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            # Spark asks once even if there is no slice.
            return iter(())
        reading: SliceReader = _Pickles().loads(self._packed)
        return reading.read(partition.value)
