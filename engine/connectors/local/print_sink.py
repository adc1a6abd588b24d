"""A sink that prints rows for people to read, one line each."""

import sys
from typing import TextIO

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.text.row_text import join_texts, plain_texts
from penstock.model.closed_output import output_closed_as_error
from penstock.model.connectors import Sink, Writer

_WEIGHT = pa.field("weight", pa.int8(), nullable=False)
_DELETED = pa.field("deleted", pa.bool_(), nullable=False)


class PrintSink(Sink):
    """Prints every row as ``name=value`` pairs, behind ``+`` or ``-`` for rows that a changelog brings or takes back.

    Of several instances, each line begins with the number of its own.
    """

    in_caller = True
    follows_head = True

    def __init__(self, file: TextIO | None = None) -> None:
        """Print to ``file`` (None: what `sys.stdout` is when the job starts)."""
        self._file = file

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> Writer:
        """Open one instance."""
        number = f"{instance}> " if parallelism > 1 else ""
        return _PrintWriter(self._file or sys.stdout, schema, number)

    def describe(self) -> str:
        """Say that rows are printed."""
        return "print"


class _PrintWriter(Writer):
    def __init__(self, file: TextIO, schema: pa.Schema, prefix: str) -> None:
        self._file = file
        self._prefix = prefix
        last = schema.field(-1) if len(schema) else None
        self._signed = last is not None and (last.equals(_WEIGHT) or last.equals(_DELETED))
        self._names = schema.names[:-1] if self._signed else schema.names

    def write(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows == 0:
            return
        pieces: list[pa.Array | str] = [self._prefix]
        if self._signed:
            last = rows.column(-1)
            taken_back = last if pa.types.is_boolean(last.type) else pc.less(last, 0)
            pieces.append(pc.if_else(taken_back, "- ", "+ "))
        for place, name in enumerate(self._names):
            pieces += [f"{'  ' if place else ''}{name}=", plain_texts(rows.column(place))]
        lines = join_texts(*pieces, "\n")
        text = lines.buffers()[2].to_pybytes().decode("utf-8", "replace")
        with output_closed_as_error(self._file):
            self._file.write(text)

    def flush(self) -> None:
        with output_closed_as_error(self._file):
            self._file.flush()

    def close(self) -> None:
        self.flush()
