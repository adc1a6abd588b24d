"""A sink that is a function: called with every batch, at least once. Made by `Stream.for_each_batch`, and by tests."""

from collections.abc import Callable

import pyarrow as pa

from penstock.model.connectors import Sink, Writer


class FunctionSink(Sink):
    """Calls a function with every batch of rows."""

    in_caller = True

    def __init__(self, function: Callable[[pa.RecordBatch], None]) -> None:
        """Keep the function; it runs on the worker's thread."""
        self._function = function

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Return a writer that calls the function."""
        return _FunctionWriter(self._function)

    def describe(self) -> str:
        """Name the function."""
        return f"call {getattr(self._function, '__name__', 'function')}"


class _FunctionWriter(Writer):
    def __init__(self, function: Callable[[pa.RecordBatch], None]) -> None:
        self._function = function

    def write(self, rows: pa.RecordBatch) -> None:
        self._function(rows)
