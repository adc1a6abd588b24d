"""A sink that counts rows and forgets them, for benchmarks."""

import pyarrow as pa

from penstock.model.connectors import Sink, Writer


class BlackHoleSink(Sink):
    """Counts what it receives in this process and looks at none of it."""

    def __init__(self) -> None:
        """Start from zero."""
        self.rows = 0
        """Rows received by all instances in this process."""
        self.bytes = 0
        """Bytes of their columns."""

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Open one instance; all add to the same counts."""
        return _BlackHoleWriter(self)

    def describe(self) -> str:
        """Say that rows go nowhere."""
        return "black hole"


class _BlackHoleWriter(Writer):
    def __init__(self, sink: BlackHoleSink) -> None:
        self._sink = sink

    def write(self, rows: pa.RecordBatch) -> None:
        self._sink.rows += rows.num_rows
        self._sink.bytes += rows.nbytes
